//! Rows of `sessions.jsonl` and `requests.jsonl`.

use serde::{Deserialize, Serialize};

/// Which requests a session has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Slice {
    /// A probe's.
    #[default]
    Probe,
    /// One normal task.
    Tasks,
}

/// How far a session got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SessionStatus {
    /// Every request was answered.
    Complete,
    /// Some requests were not: the log has gaps.
    Partial,
    /// None was.
    Failed,
}

/// One session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionRow {
    /// `condition/item/repeat`.
    pub session_id: String,
    /// Its condition.
    pub condition: String,
    /// Its workspace.
    pub item: String,
    /// Which of the item's sessions.
    pub repeat: usize,
    /// Which requests.
    pub slice: Slice,
    /// How far it got.
    pub status: SessionStatus,
    /// Requests made.
    pub requests: u32,
    /// Requests without an answer.
    pub unanswered: u32,
    /// Whether the task was done; absent where there was none.
    pub task_success: Option<bool>,
    /// Why that is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_reason: Option<String>,
    /// Calls of tools.
    pub tool_calls: u64,
    /// Those that failed.
    pub failed_calls: u64,
    /// Calls of the target's model.
    pub model_calls: u64,
    /// Those that failed.
    pub model_failures: u64,
    /// Seconds in calls of the target's model.
    pub latency_seconds: f64,
    /// `declared` by a scripted model, or `measured`.
    pub latency_source: String,
    /// Prompt tokens; absent where they were not all counted.
    pub prompt_tokens: Option<u64>,
    /// Reply tokens; absent where they were not all counted.
    pub completion_tokens: Option<u64>,
    /// What the tokens cost.
    pub cost: Option<f64>,
    /// Why that is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_reason: Option<String>,
    /// What the probe met, if its model failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe_error: Option<String>,
}

/// One request, as it was asked: what a replay repeats.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestRow {
    /// The session.
    pub session_id: String,
    /// The workspace.
    pub item: String,
    /// Which of the item's sessions.
    pub repeat: usize,
    /// Its number, from 1.
    pub request: u32,
    /// Its words.
    pub text: String,
}
