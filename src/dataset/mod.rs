//! Rows of the data sets: chat messages, SFT rows, preference pairs, as in `sft.jsonl` and `dpo.jsonl`; what is checked of them.
//!
//! The same rows load in TRL: new turns only in `chosen` and `rejected`, the same keys in every row.

mod check;
#[cfg(feature = "parquet")]
pub mod parquet;
mod read;

pub use check::{Check, Severities, Severity};
pub use read::{parse_preferences, parse_sft, read_preferences, read_sft, read_unpaired};

use serde::{Deserialize, Serialize};

use crate::trace::Part;

/// One chat turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub content: String,
}

impl Message {
    /// A system turn.
    pub fn system(content: impl Into<String>) -> Self {
        Self { role: Role::System, content: content.into() }
    }
    /// A user turn.
    pub fn user(content: impl Into<String>) -> Self {
        Self { role: Role::User, content: content.into() }
    }
    /// An assistant turn.
    pub fn assistant(content: impl Into<String>) -> Self {
        Self { role: Role::Assistant, content: content.into() }
    }
}

/// Speaker of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Instructions.
    System,
    /// The user, or the harness speaking for tools.
    User,
    /// The model.
    Assistant,
    /// A tool's result.
    Tool,
}

impl Role {
    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }
}

/// Stage of the two-stage protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// Tool selection from the goal and the descriptions.
    Selection,
    /// The final response from the goal and the selected tools' results.
    Response,
}

impl Stage {
    /// The number in files.
    pub fn number(self) -> u8 {
        match self {
            Self::Selection => 1,
            Self::Response => 2,
        }
    }
}

impl Serialize for Stage {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u8(self.number())
    }
}

impl<'de> Deserialize<'de> for Stage {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match u8::deserialize(deserializer)? {
            1 => Ok(Self::Selection),
            2 => Ok(Self::Response),
            other => Err(serde::de::Error::custom(format!("`stage` must be 1 or 2, got {other}"))),
        }
    }
}

/// Why a rejected answer is worse than the chosen one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PairKind {
    /// States the sensitive conclusion.
    ExplicitLeak,
    /// Adds private fragments that the task does not need, without the conclusion.
    OverDisclosure,
    /// Declines, or withholds required values, though the task is benign.
    OverRefusal,
}

impl PairKind {
    /// All kinds, in table order.
    pub const ALL: [Self; 3] = [Self::ExplicitLeak, Self::OverDisclosure, Self::OverRefusal];

    /// The name used in files and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::ExplicitLeak => "explicit-leak",
            Self::OverDisclosure => "over-disclosure",
            Self::OverRefusal => "over-refusal",
        }
    }
}

/// One supervised row: the last message is the assistant's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SftRow {
    /// Prompt turns and the answer.
    pub messages: Vec<Message>,
    /// The trace it was built from.
    #[serde(default)]
    pub trace_id: Option<String>,
    /// Part of the split.
    #[serde(default)]
    pub split: Option<Part>,
    /// Who wrote the answer.
    #[serde(default)]
    pub writer: Option<String>,
    /// Protocol stage.
    #[serde(default)]
    pub stage: Option<Stage>,
    /// Digest of the audit that passed it.
    #[serde(default)]
    pub audit: Option<String>,
}

/// One preference pair; `prompt` and `chosen` are shared by the pairs of one trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreferencePair {
    /// Prompt turns.
    pub prompt: Vec<Message>,
    /// The better answer: one assistant turn.
    pub chosen: Vec<Message>,
    /// The worse answer: one assistant turn.
    pub rejected: Vec<Message>,
    /// Why it is worse; absent in files made elsewhere.
    #[serde(default)]
    pub kind: Option<PairKind>,
    /// The trace it was built from.
    #[serde(default)]
    pub trace_id: Option<String>,
    /// Part of the split.
    #[serde(default)]
    pub split: Option<Part>,
    /// Who wrote the chosen answer.
    #[serde(default)]
    pub writer_chosen: Option<String>,
    /// Who wrote the rejected answer.
    #[serde(default)]
    pub writer_rejected: Option<String>,
    /// Digest of the audit that passed it.
    #[serde(default)]
    pub audit: Option<String>,
}

/// Why a rejected selection is worse than the chosen one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SelectionKind {
    /// Selects a tool that the task does not need.
    OverCollection,
    /// Its rationale states the sensitive conclusion.
    LeakingRationale,
}

impl SelectionKind {
    /// The name used in files and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::OverCollection => "over-collection",
            Self::LeakingRationale => "leaking-rationale",
        }
    }
}

/// One preference pair for stage 1; the keys are those of a [`PreferencePair`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelectionPair {
    /// Prompt turns.
    pub prompt: Vec<Message>,
    /// The better selection: one assistant turn.
    pub chosen: Vec<Message>,
    /// The worse selection: one assistant turn.
    pub rejected: Vec<Message>,
    /// Why it is worse.
    pub kind: SelectionKind,
    /// The trace it was built from.
    pub trace_id: Option<String>,
    /// Part of the split.
    pub split: Option<Part>,
    /// Who wrote the chosen selection.
    pub writer_chosen: Option<String>,
    /// Who wrote the rejected selection.
    pub writer_rejected: Option<String>,
    /// Digest of the audit that passed it.
    pub audit: Option<String>,
}
