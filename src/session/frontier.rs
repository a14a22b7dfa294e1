//! Privacy together with what it costs: exposure, task success, calls, time and money of each condition.
//!
//! In: settings, session rows, the analysis. Out: [`FrontierRow`]s. Source: ASLEval, section 5.4 (replay, normal tasks).

use serde::{Deserialize, Serialize};

use super::known::{KnownRow, known_success};
use super::row::{SessionRow, Slice};
use super::settings::{Condition, Settings};
use crate::exposure::{Session, Summary};
use crate::statistic::{Column, Estimate, Resampling};

/// One condition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FrontierRow {
    /// Its name.
    pub condition: String,
    /// Who asks.
    pub slice: Slice,
    /// Sessions.
    pub n: usize,
    /// Share of S exposed.
    pub exposure: Estimate,
    /// Targets exposed, a session.
    pub visible: Estimate,
    /// Targets both exposed and seen internally, a session.
    pub overlap: Estimate,
    /// Share of the targets seen on either side that are on both.
    pub overlap_rate: Estimate,
    /// Share of the tasks that were done; absent for probes.
    pub success: Estimate,
    /// Calls of tools, a session.
    pub tool_calls: Estimate,
    /// Calls of the model, a session.
    pub model_calls: Estimate,
    /// Share of the tool calls that did not fail: whether the services or the information were lacking.
    pub backend_success: Estimate,
    /// Seconds in calls of the model, a session.
    pub latency_seconds: Estimate,
    /// Where they come from.
    pub latency_source: String,
    /// Cost, a session.
    pub cost: Estimate,
}

/// The rows of all conditions, in the recipe's order, and what is known of their success.
pub fn frontier(settings: &Settings, sessions: &[SessionRow], summary: &Summary) -> (Vec<FrontierRow>, Vec<KnownRow>) {
    let resampling = Resampling { resamples: settings.resamples, seed: settings.seed };
    let (mut rows, mut known) = (Vec::new(), Vec::new());
    for condition in &settings.conditions {
        let own: Vec<(&SessionRow, Option<&Session>)> = sessions
            .iter()
            .filter(|row| row.condition == condition.name)
            .map(|row| {
                let at = summary.sessions.binary_search_by(|session| session.session_id.cmp(&row.session_id));
                (row, at.ok().map(|at| &summary.sessions[at]))
            })
            .collect();
        let row = row(condition, &own, resampling);
        if let Some(success) = known_success(settings, condition) {
            let estimate = &row.success;
            let measured = (estimate.value, estimate.low, estimate.high);
            known.push(KnownRow::new(&condition.name, "task success", success, measured, row.n));
        }
        rows.push(row);
    }
    (rows, known)
}

/// A number that a session may have.
type Question = fn(&SessionRow, Option<&Session>) -> Option<f64>;

fn row(condition: &Condition, sessions: &[(&SessionRow, Option<&Session>)], resampling: Resampling) -> FrontierRow {
    let questions: [Question; 10] = [
        |_, session| Some(session?.ecr),
        |_, session| Some(session?.exposed as f64),
        |_, session| Some(two_sided(session?)),
        |_, session| {
            let total = session?.paths.total();
            (total > 0).then_some(two_sided(session?) / total as f64)
        },
        |row, _| row.task_success.map(|done| f64::from(u8::from(done))),
        |row, _| Some(row.tool_calls as f64),
        |row, _| Some(row.model_calls as f64),
        |row, _| (row.tool_calls > 0).then(|| 1.0 - row.failed_calls as f64 / row.tool_calls as f64),
        |row, _| Some(row.latency_seconds),
        |row, _| row.cost,
    ];
    let columns: Vec<Column> = questions
        .iter()
        .map(|question| {
            let values = sessions.iter().enumerate().map(|(place, (row, session))| (place, question(row, *session)));
            Column::of(sessions.len(), values)
        })
        .collect();
    let mut estimates = resampling.means("frontier", sessions.len(), &columns).into_iter();
    let mut next = || estimates.next().unwrap_or_default();
    FrontierRow {
        condition: condition.name.clone(),
        slice: condition.slice,
        n: sessions.len(),
        exposure: next(),
        visible: next(),
        overlap: next(),
        overlap_rate: next(),
        success: next(),
        tool_calls: next(),
        model_calls: next(),
        backend_success: next(),
        latency_seconds: next(),
        cost: next(),
        latency_source: sessions.first().map_or_else(String::new, |(row, _)| row.latency_source.clone()),
    }
}

/// Targets on both sides.
fn two_sided(session: &Session) -> f64 {
    (session.paths.total() - session.paths.one_sided) as f64
}

/// The rows for a terminal.
pub fn text_frontier(rows: &[FrontierRow]) -> String {
    use std::fmt::Write as _;
    let number = |estimate: &Estimate, decimals: usize| {
        estimate.value.map_or_else(|| "n/a".to_owned(), |value| format!("{value:.decimals$}"))
    };
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "\nprivacy and utility, means a session\n{:<22} {:>5} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>9} {:>9}",
        "condition", "n", "exposure", "visible", "overlap", "rate", "success", "calls", "seconds", "cost"
    );
    for row in rows {
        let _ = writeln!(
            out,
            "{:<22} {:>5} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>9} {:>9}",
            row.condition,
            row.n,
            number(&row.exposure, 3),
            number(&row.visible, 2),
            number(&row.overlap, 2),
            number(&row.overlap_rate, 3),
            number(&row.success, 3),
            number(&row.tool_calls, 2),
            number(&row.latency_seconds, 2),
            number(&row.cost, 5)
        );
    }
    out
}
