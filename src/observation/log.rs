//! What one session log gives.

use serde::{Deserialize, Serialize};

use super::Observation;
use crate::contract::Contract;

/// One row of a source: one or more sessions with the contracts that the source lets us make.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionLog {
    /// Frozen contracts; none where the source does not say what is private.
    pub contracts: Vec<Contract>,
    /// What the sessions left, in order.
    pub observations: Vec<Observation>,
    /// The source's own verdicts, for comparison only.
    pub labels: Vec<ReleaseLabel>,
    /// What could not become a session or a target, with the reason.
    pub refusals: Vec<Refusal>,
}

/// A source's own verdict on one observation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleaseLabel {
    /// The session.
    pub session_id: String,
    /// Position of the observation in the session.
    pub index: u64,
    /// Its channel.
    pub channel: String,
    /// Whether the source calls it a leak.
    pub has_leak: bool,
    /// The fields that the source says leaked.
    pub leaked_fields: Vec<String>,
}

/// A session or a private value that was left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The contract that it would have belonged to.
    pub contract_id: String,
    /// The session, if a whole session was left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The field, if one value was left out; never the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// Why.
    pub reason: String,
}
