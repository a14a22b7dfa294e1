//! What a session left: one row per appearance of data on a channel, the candidates that a probe named, and which actions
//! were delivered.
//!
//! In: `observations.jsonl`, `candidates.jsonl`, `actions.jsonl`, or the session logs of other programs (one reader each).
//! Out: [`Observation`], [`Candidates`], [`Action`]; a [`Checker`] checks observations against the contracts they name.
//! Source: ASLEval, equation 2 (arXiv 2609.18864): O = {(t, c, o, nu)}.

use serde::{Deserialize, Serialize};

pub mod agentdojo;
pub mod agentleak;
mod exit;
mod import;
pub mod inspect;
mod log;
mod message;
pub mod openai;
mod payload;
mod python;
pub mod response;
mod validate;
mod vault;

pub use exit::{Exits, ToolExit};
pub use import::{Imported, Options, Read, Sink, each, import, read_each};
pub use log::{Refusal, ReleaseLabel, SessionLog};
pub use payload::Payload;
pub use validate::{Checked, Checker, Identity, validate};

/// What the readers of session logs need to know beside a row.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// The contract that observations name where the source has none.
    pub contract_id: &'a str,
    /// The file's name, for sessions without an id.
    pub file: &'a str,
    /// The model, where the source does not name it.
    pub model: Option<&'a str>,
}

/// One observation: a payload on a channel at a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// The session.
    pub session_id: String,
    /// The contract it is judged by.
    pub contract_id: String,
    /// Request number t, 1 to the contract's budget.
    pub request: u32,
    /// Order of the event within the session, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u64>,
    /// RFC 3339, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<String>,
    /// A channel that the contract declares.
    pub channel: String,
    /// Text, or any JSON value.
    pub payload: Payload,
    /// To, cc and bcc of this event; override the channel's recipient.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recipients: Vec<String>,
    /// Whether the payload was seen whole.
    #[serde(default)]
    pub status: Status,
    /// The event's own id: the same id with the same payload is one event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<String>,
    /// The tool, on internal channels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// How the internal schema relates to the visible one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_group: Option<SchemaGroup>,
    /// What pairs this session with its partners under other conditions, e.g. `{"item": "i1", "seed": 1}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pair_key: Option<serde_json::Value>,
    /// The experimental condition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// Unknown fields, kept.
    #[serde(flatten)]
    pub extra: serde_json::Map<String, serde_json::Value>,
}

/// Whether an observation was made. `Error` and `Missing` are gaps: never counted as safe.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// The payload is what was sent.
    #[default]
    Ok,
    /// The call failed; the payload is its error text, if anything.
    Error,
    /// Something was sent but not recorded.
    Missing,
}

impl Status {
    /// The name used in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Missing => "missing",
        }
    }
}

/// How the schema of what a tool returned matches that of what was shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SchemaGroup {
    /// The same fields.
    Match,
    /// Some of them.
    Partial,
    /// None.
    None,
}

/// What a probe agent claims to have learnt in a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidates {
    /// The session.
    pub session_id: String,
    /// Strings in the probe's own words, in its order.
    pub candidates: Vec<String>,
}

/// Whether an action was carried out by the backend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Action {
    /// The session.
    pub session_id: String,
    /// Request number.
    pub request: u32,
    /// The channel of the action.
    pub channel: String,
    /// Its outcome.
    pub status: ActionStatus,
}

/// Outcome of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ActionStatus {
    /// It reached its recipient.
    Delivered,
    /// It did not.
    Failed,
}
