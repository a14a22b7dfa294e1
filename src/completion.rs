//! A system's answers to one trace, as in `completions.jsonl`.

use serde::{Deserialize, Serialize};

use crate::prompt::Mitigation;
use crate::recipe::settings::SelectionSource;
use crate::trace::Variant;

/// What one system did with one trace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Completion {
    /// The trace.
    pub trace_id: String,
    /// The system's name, e.g. `base`, `sft`, `dpo`, `base+tnm`.
    pub system: String,
    /// Variant of the trace.
    #[serde(default)]
    pub variant: Variant,
    /// Prompt-only mitigation in force.
    #[serde(default)]
    pub mitigation: Mitigation,
    /// Sampling seed.
    #[serde(default)]
    pub seed: u64,
    /// Ids that the strict reading of stage 1 accepts.
    #[serde(default)]
    pub selected_tool_ids: Vec<String>,
    /// Whose selection stage 2 answered from; under `given` the ids above are still what stage 1 selected.
    #[serde(default)]
    pub selection_source: SelectionSource,
    /// Why stage 1 could not be read, where it could not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selection_fault: Option<String>,
    /// Stage 1's rationale, a visible exit.
    #[serde(default)]
    pub rationale: Option<String>,
    /// Stage 2's answer.
    #[serde(default)]
    pub response: Option<String>,
    /// How the generation ended.
    pub finish: Finish,
    /// What failed, when `finish` is `error`.
    #[serde(default)]
    pub error: Option<String>,
    /// Tool calls made, where the system makes any.
    #[serde(default)]
    pub calls: Vec<serde_json::Value>,
}

/// How a generation ended. `length` and `error` are never complete answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Finish {
    /// The model ended its turn.
    Stop,
    /// Cut at the token limit.
    Length,
    /// Failed; see `error`.
    Error,
}
