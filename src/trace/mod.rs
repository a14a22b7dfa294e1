//! The canonical trace: one scenario of a tool-using agent, whatever file it came from.
//!
//! In: a source file, read by [`read`]. Out: [`Trace`] rows, as in `traces.jsonl`.

use serde::{Deserialize, Serialize};

mod canonical;
mod clue_label;
mod declared;
mod format;
mod leaves;
mod part;
mod read;
mod rows;
mod scan;
mod topbench_v1;
mod topbench_v2;
mod topbench_v3;

pub use format::{Family, Format};
pub(crate) use format::{is_archive, plain};
pub use leaves::{Leaf, LeafKind, leaves};
pub(crate) use leaves::{LeafView, each_leaf};
pub use part::Part;
pub use read::{Extent, Ids, each, each_dealt, each_in, each_with, files, read, read_as, read_many, read_many_as};
pub use rows::{Cut, Row, Rows};

/// A scenario: a benign goal, the tools at hand with what they return, and the conclusion that must stay unsaid.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// Unique id, e.g. `topbench-v2/17` or `topbench-v2/17/social-context`.
    pub trace_id: String,
    /// Where it was read.
    pub source: Source,
    /// Privacy domain.
    pub domain: Domain,
    /// D1 to D4, where known or derived from the size of the support.
    #[serde(default)]
    pub difficulty: Option<Difficulty>,
    /// The user's benign request.
    pub goal: String,
    /// The tools on offer.
    pub tools: Vec<Tool>,
    /// Tools that together support the conclusion, in order.
    #[serde(default)]
    pub support: Vec<String>,
    /// The conclusion that must not be revealed.
    pub sensitive_conclusion: String,
    /// What a complete answer holds, in prose.
    #[serde(default)]
    pub success_criteria: Option<String>,
    /// What counts as a disclosure, in prose.
    #[serde(default)]
    pub disclosure_criteria: Option<String>,
    /// What a safe answer may say, in prose.
    #[serde(default)]
    pub safe_boundary: Option<String>,
    /// How the clues lead to the conclusion, in prose.
    #[serde(default)]
    pub inference_chain: Option<String>,
    /// Which of the paired files it belongs to.
    #[serde(default)]
    pub variant: Variant,
    /// For a negative control: the unrelated conclusion that the control asks about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_conclusion: Option<String>,
    /// Near-duplicate group, filled by the split.
    #[serde(default)]
    pub group: Option<String>,
    /// The part it may only be in; absent lets the split deal it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<Part>,
    /// Irregularities survived while reading, and conflicts found later.
    #[serde(default)]
    pub flags: Vec<Flag>,
    /// Declared ground truth, where the source has it; otherwise contracts derive theirs from the prose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truth: Option<Truth>,
    /// Unknown fields of the source, kept.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub extra: serde_json::Map<String, serde_json::Value>,
}

impl Trace {
    /// The tool with this id.
    pub fn tool(&self, tool_id: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.tool_id == tool_id)
    }

    /// The id of the base trace that a variant is paired with: its own id for a base trace.
    pub fn base_id(&self) -> &str {
        self.trace_id.strip_suffix(self.variant.suffix()).unwrap_or(&self.trace_id)
    }

    /// Adds a flag once.
    pub fn flag(&mut self, flag: Flag) {
        if !self.flags.contains(&flag) {
            self.flags.push(flag);
            self.flags.sort_unstable();
        }
    }

    /// The tools that the task needs, in order.
    pub fn essential_tools(&self) -> impl Iterator<Item = &Tool> {
        self.tools.iter().filter(|tool| tool.essential)
    }
}

/// File and row of origin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// Format name, e.g. `topbench-v2`.
    pub format: String,
    /// File name, without machine paths.
    pub file: String,
    /// Row, counted from 0.
    pub row: usize,
}

/// One tool with its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    /// `T1` to `T5`.
    pub tool_id: String,
    /// The function's name; repeats across traces in different roles, so never a key.
    pub name: String,
    /// Tool family of the v3 schema.
    #[serde(default)]
    pub family: Option<String>,
    /// What the agent is told about it.
    pub description: String,
    /// Parameters as given: a list of names (v2) or an object (v3).
    #[serde(default)]
    pub parameters: serde_json::Value,
    /// The result's raw JSON text, byte for byte as given.
    pub return_text: String,
    /// Whether the task needs it; noise tools are not essential.
    pub essential: bool,
}

/// The five privacy domains of TOP-Bench; keyed on the first three letters, since one domain has ten spellings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Domain {
    /// Personal identity.
    Pid,
    /// Health and medical.
    Hmd,
    /// Financial assets.
    Fad,
    /// Behaviour and activity logs.
    Bal,
    /// Proprietary and confidential information.
    Pci,
}

impl Domain {
    /// All domains, in the order in which tables show them.
    pub const ALL: [Self; 5] = [Self::Pid, Self::Hmd, Self::Fad, Self::Bal, Self::Pci];

    /// The three letters.
    pub fn code(self) -> &'static str {
        match self {
            Self::Pid => "PID",
            Self::Hmd => "HMD",
            Self::Fad => "FAD",
            Self::Bal => "BAL",
            Self::Pci => "PCI",
        }
    }

    /// Reads any spelling by its first three letters.
    pub fn parse(text: &str) -> Option<Self> {
        let code: String = text.trim().chars().take(3).collect::<String>().to_uppercase();
        Self::ALL.into_iter().find(|domain| domain.code() == code)
    }
}

/// Difficulty: the number of supporting tools less one (D1: 2 tools, D4: 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Difficulty {
    /// Two supporting tools.
    D1,
    /// Three supporting tools.
    D2,
    /// Four supporting tools.
    D3,
    /// Five supporting tools.
    D4,
}

impl Difficulty {
    /// By the number of supporting tools.
    pub fn of_support(tools: usize) -> Option<Self> {
        match tools {
            2 => Some(Self::D1),
            3 => Some(Self::D2),
            4 => Some(Self::D3),
            5 => Some(Self::D4),
            _ => None,
        }
    }

    /// `D1` to `D4`.
    pub fn code(self) -> &'static str {
        match self {
            Self::D1 => "D1",
            Self::D2 => "D2",
            Self::D3 => "D3",
            Self::D4 => "D4",
        }
    }
}

/// Which of the paired releases a trace belongs to.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum Variant {
    /// The ordinary trace.
    #[default]
    Base,
    /// Same trace; the judge is asked about an unrelated conclusion, and the answer must be no.
    NegativeControl,
    /// Tool returns edited so that an innocent reading is at hand; a paired robustness test.
    SocialContext,
}

impl Variant {
    /// The name used in files and ids.
    pub fn name(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::NegativeControl => "negative-control",
            Self::SocialContext => "social-context",
        }
    }

    /// What the id of a trace of this variant ends in.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Base => "",
            Self::NegativeControl => "/negative-control",
            Self::SocialContext => "/social-context",
        }
    }
}

/// What was odd about a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Flag {
    /// The success criteria require what the disclosure criteria forbid.
    Conflict,
    /// The noise flag disagrees with the chain's tool ids (which win).
    NoiseFlagMismatch,
    /// A tool had no noise or essential flag.
    NoiseFlagMissing,
    /// The return is not JSON text.
    ReturnNotJson,
    /// A label inside a return was taken out, so that no model sees it.
    ClueLabelRemoved,
    /// No tool ids in the chain: support falls back to the flags.
    SupportFromFlags,
    /// The support names a tool that is not on offer.
    SupportUnknownTool,
}

impl Flag {
    /// The name used in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Conflict => "conflict",
            Self::NoiseFlagMismatch => "noise-flag-mismatch",
            Self::NoiseFlagMissing => "noise-flag-missing",
            Self::ReturnNotJson => "return-not-json",
            Self::ClueLabelRemoved => "clue-label-removed",
            Self::SupportFromFlags => "support-from-flags",
            Self::SupportUnknownTool => "support-unknown-tool",
        }
    }
}

/// Ground truth that a source declares itself (our own scenarios do; TOP-Bench releases do not).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Truth {
    /// Phrasings of the conclusion: the first is its short label, the rest are aliases and paraphrases.
    #[serde(default)]
    pub labels: Vec<String>,
    /// Values that a complete answer must hold.
    #[serde(default)]
    pub required: Vec<Located>,
    /// Private fragments that the task does not need.
    #[serde(default)]
    pub clues: Vec<Located>,
}

/// A place in a tool's return: JSON pointer under the tool's id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Located {
    /// The tool.
    pub tool_id: String,
    /// JSON pointer within the return, e.g. `/transactions/0/amount`.
    pub pointer: String,
}
