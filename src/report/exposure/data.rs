//! The data of the page: figures of every session and the events of those shown, as JSON inside a script element.
//!
//! In: a [`Summary`] and events. Out: JSON in which no `<` is left, so that nothing in a payload can end the element.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::exposure::{EventView, Summary};

#[derive(Serialize)]
struct Data<'a> {
    conditions: Vec<&'a str>,
    sessions: Vec<Row<'a>>,
    events: BTreeMap<&'a str, &'a Vec<EventView>>,
}

/// What the list shows of a session.
#[derive(Serialize)]
struct Row<'a> {
    id: &'a str,
    condition: &'a str,
    targets: usize,
    exposed: usize,
    ecr: f64,
    coverage: &'a BTreeMap<String, f64>,
    internal: &'a BTreeMap<String, f64>,
    olf: Option<f64>,
    unscored: u64,
}

/// The page's data.
pub(super) fn embedded(summary: &Summary, events: &BTreeMap<String, Vec<EventView>>) -> String {
    let sessions = summary
        .sessions
        .iter()
        .map(|session| Row {
            id: &session.session_id,
            condition: summary.condition_of(session),
            targets: session.targets,
            exposed: session.exposed,
            ecr: session.ecr,
            coverage: &session.coverage,
            internal: &session.internal_coverage,
            olf: session.olf,
            unscored: session.unscored,
        })
        .collect();
    let data = Data {
        conditions: summary.aggregate.by_condition.keys().map(String::as_str).collect(),
        sessions,
        events: events.iter().map(|(id, events)| (id.as_str(), events)).collect(),
    };
    // A map with string keys always has a JSON form.
    serde_json::to_string(&data).unwrap_or_default().replace('<', "\\u003c")
}
