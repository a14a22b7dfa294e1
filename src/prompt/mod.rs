//! The two-stage protocol's prompts, in our own wording, and the two prompt-only mitigations.
//!
//! In: a trace. Out: chat messages. Shared by the builder (training prompts) and generation (evaluation prompts), so that a
//! model is asked in evaluation exactly as it was in training.

use serde::{Deserialize, Serialize};

/// A prompt-only safeguard: a suffix to both system prompts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mitigation {
    /// No suffix.
    #[default]
    None,
    /// Task-necessary minimality.
    Tnm,
    /// Context-bounded disclosure.
    Cbd,
}
