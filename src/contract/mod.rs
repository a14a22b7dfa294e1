//! The contract: fixed and hashed before anything is judged. It names the hidden targets, who may receive which, every
//! channel, and the values that a complete answer must hold.
//!
//! In: a [`crate::trace::Trace`] (see [`derive()`]) or a row written by hand. Out: [`Contract`] rows, as in `contracts.jsonl`.
//! Source: ASLEval, section 3.1 (arXiv 2609.18864).

use serde::{Deserialize, Serialize};

mod clues;
mod demand;
mod derive;
mod freeze;
mod gap;
mod json;
mod key;
mod labels;
mod marks;
mod reading;
mod required;
mod role;
mod terms;
mod words;

pub use derive::{Derived, REQUESTER, derive, derive_all};
pub use gap::Gap;
pub use role::TargetRole;

/// Whether a wording is one word of everyday or office English, which alone tells nothing.
pub fn is_common_word(wording: &str) -> bool {
    words::is_common(wording)
}

/// A frozen contract. Fields are public to read; [`Contract::freeze`] computes the digest and [`Contract::verify`] checks it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Contract {
    /// Unique id.
    pub contract_id: String,
    /// The trace it was derived from; absent when written by hand.
    #[serde(default)]
    pub trace_id: Option<String>,
    /// Requests per session, B in the paper.
    #[serde(default = "default_budget")]
    pub budget: u32,
    /// c*: the channel on which the answer is expected.
    #[serde(default)]
    pub expected_outlet: Option<String>,
    /// Every declared channel.
    pub channels: Vec<Channel>,
    /// S: the hidden targets.
    pub targets: Vec<Target>,
    /// Auth(r, e) = 1 for these pairs, 0 for all others.
    #[serde(default)]
    pub authorized: Vec<Authorization>,
    /// Values that a complete answer holds.
    #[serde(default)]
    pub required: Vec<Required>,
    /// How numbers and dates in payloads are written, e.g. `de_DE`; without it, forms with two readings equal nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locale: Option<String>,
    /// SHA-256 of the canonical form without this field.
    #[serde(default)]
    pub digest: String,
}

fn default_budget() -> u32 {
    20
}

/// A channel and who sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Channel {
    /// `response`, `rationale`, `tool_call`, `tool_return`, `email`, ...
    pub name: String,
    /// Who can see it.
    pub visibility: Visibility,
    /// `r_c`: the recipient of a visible channel.
    #[serde(default)]
    pub recipient: Option<String>,
}

/// nu in equation 2 of the paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Visibility {
    /// The requester sees it.
    Requester,
    /// Somebody outside sees it.
    External,
    /// Only the evaluator sees it: a hit here alone is no exposure.
    Internal,
}

impl Visibility {
    /// The name used in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Requester => "requester",
            Self::External => "external",
            Self::Internal => "internal",
        }
    }
}

/// e = (value, aliases, type, provenance).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// Unique within the contract.
    pub target_id: String,
    /// Canonical value.
    pub value: String,
    /// Other forms of the same target; a derived label's paraphrases live here.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// What kind of value it is.
    #[serde(default, rename = "type")]
    pub kind: TargetKind,
    /// A single common word: never decides a leak alone.
    #[serde(default)]
    pub weak: bool,
    /// Where it comes from.
    #[serde(default)]
    pub provenance: Provenance,
}

/// Type of a target.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TargetKind {
    /// A derived label: the conclusion, inferred from several tools.
    Label,
    /// A grounded clue: a private fragment of one tool's return.
    Clue,
    /// A person's name.
    Person,
    /// An amount of money.
    Money,
    /// A calendar date.
    Date,
    /// A time of day.
    Time,
    /// A duration.
    Duration,
    /// A telephone number.
    Phone,
    /// An e-mail address.
    Email,
    /// An account, card or document number.
    Account,
    /// A percentage.
    Percentage,
    /// A plain number.
    Number,
    /// Anything else, matched as text. Unknown type names in hand-written contracts read as this.
    #[default]
    #[serde(other)]
    Text,
}

impl TargetKind {
    /// All kinds.
    pub const ALL: [Self; 13] = [
        Self::Label,
        Self::Clue,
        Self::Person,
        Self::Money,
        Self::Date,
        Self::Time,
        Self::Duration,
        Self::Phone,
        Self::Email,
        Self::Account,
        Self::Percentage,
        Self::Number,
        Self::Text,
    ];

    /// The name used in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Label => "label",
            Self::Clue => "clue",
            Self::Person => "person",
            Self::Money => "money",
            Self::Date => "date",
            Self::Time => "time",
            Self::Duration => "duration",
            Self::Phone => "phone",
            Self::Email => "email",
            Self::Account => "account",
            Self::Percentage => "percentage",
            Self::Number => "number",
            Self::Text => "text",
        }
    }
}

/// Where a target comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// Benchmark item.
    #[serde(default)]
    pub item: Option<String>,
    /// Tools that carry or together support it.
    #[serde(default)]
    pub tools: Vec<String>,
    /// JSON pointers led by the tool's id, e.g. `/T3/title`.
    #[serde(default)]
    pub pointers: Vec<String>,
    /// The field whose prose named it: `basis`, `success`, `chain`, `conclusion`, `truth`.
    #[serde(default)]
    pub field: Option<String>,
    /// What that prose does with it; absent where it was written by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<TargetRole>,
}

/// Auth(recipient, target) = 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Authorization {
    /// Who may receive it.
    pub recipient: String,
    /// What.
    pub target_id: String,
}

/// A value that a complete answer holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Required {
    /// The value as it stands in the return.
    pub value: String,
    /// JSON pointers led by the tool's id.
    #[serde(default)]
    pub pointers: Vec<String>,
}
