//! `AgentDojo` runs: one object a file with the suite, the pipeline, the user's and the injected task, and the messages.
//!
//! In: a row. Out: a [`SessionLog`]; `utility` and `security` are kept as they stand. No contract: a run does not say what is
//! private.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::message::{Message, Session};
use super::openai::error_text;
use super::{Context, SessionLog, Status};
use crate::error::Fault;
use crate::trace::Row;

#[derive(Deserialize)]
struct Run {
    suite_name: String,
    #[serde(default)]
    pipeline_name: Option<String>,
    user_task_id: String,
    #[serde(default)]
    injection_task_id: Option<String>,
    #[serde(default)]
    attack_type: Option<String>,
    messages: Vec<Message>,
    #[serde(default)]
    utility: Value,
    #[serde(default)]
    security: Value,
    #[serde(default)]
    error: Value,
}

/// Reads one run.
///
/// # Errors
/// A [`Fault`] that says what the run lacks.
pub fn parse(row: &Row<'_>, context: &Context<'_>) -> Result<SessionLog, Fault> {
    let run: Run = row.parse()?;
    let pipeline = run.pipeline_name.or_else(|| context.model.map(str::to_owned));
    let injection = run.injection_task_id.as_deref().unwrap_or("none");
    let attack = run.attack_type.as_deref().unwrap_or("none");
    let mut extra = serde_json::Map::new();
    if let Some(pipeline) = &pipeline {
        extra.insert("model".to_owned(), pipeline.as_str().into());
    }
    for (key, value) in [("utility", run.utility), ("security", run.security)] {
        if !value.is_null() {
            extra.insert(key.to_owned(), value);
        }
    }
    let session = Session {
        id: format!(
            "{}/{}/{}/{attack}/{injection}",
            run.suite_name,
            pipeline.as_deref().unwrap_or("unknown"),
            run.user_task_id
        ),
        contract_id: context.contract_id,
        pair_key: Some(
            serde_json::json!({"item": format!("{}/{}", run.suite_name, run.user_task_id), "model": pipeline}),
        ),
        condition: Some(if run.injection_task_id.is_some() { attack.to_owned() } else { "no-injection".to_owned() }),
        extra,
        attachments: BTreeMap::new(),
    };
    let mut observations = session.observe(&run.messages);
    if let Some(error) = error_text(&run.error) {
        observations.push(session.gap(&observations, Status::Error, &error));
    } else if !observations.iter().any(|observation| observation.channel == "response") {
        observations.push(session.gap(&observations, Status::Missing, ""));
    }
    Ok(SessionLog { observations, ..SessionLog::default() })
}
