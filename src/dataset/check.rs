//! What an audit checks of a row, by name, and how much each check weighs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Check {
    /// A contract for the row's trace is at hand; without it the checks against it cannot run.
    Contract,
    /// Stage 1: strict JSON that selects the essential tools and no other.
    Selection,
    /// Chosen: no unauthorised target. Explicit leak: a decisive label. Over-disclosure: a private fragment and no label.
    Leak,
    /// Chosen, explicit leak and over-disclosure hold every required value; over-refusal misses one.
    Completeness,
    /// Every number, date, amount, code and name stands in the prompt.
    Grounding,
    /// No value of a tool whose result was not shown.
    Noise,
    /// Over-refusal declines; the others do not.
    Refusal,
    /// The rejected answer is within 10% of the chosen one's length.
    Length,
    /// Chosen and rejected differ.
    Distinct,
    /// No earlier row of the set is the same.
    Duplicate,
    /// No earlier row of another trace is nearly the same.
    NearDuplicate,
    /// The prompt is none that was kept out.
    Contamination,
    /// No private value of another trace.
    ForeignSecret,
    /// No personal data that the prompt does not hold.
    Personal,
    /// The language of the prompt.
    Language,
    /// No frame that a large share of the answers have.
    Frame,
}

impl Check {
    /// All checks, in table order.
    pub const ALL: [Self; 16] = [
        Self::Contract,
        Self::Selection,
        Self::Leak,
        Self::Completeness,
        Self::Grounding,
        Self::Noise,
        Self::Refusal,
        Self::Length,
        Self::Distinct,
        Self::Duplicate,
        Self::NearDuplicate,
        Self::Contamination,
        Self::ForeignSecret,
        Self::Personal,
        Self::Language,
        Self::Frame,
    ];

    /// The name used in files and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Contract => "contract",
            Self::Selection => "selection",
            Self::Leak => "leak",
            Self::Completeness => "completeness",
            Self::Grounding => "grounding",
            Self::Noise => "noise",
            Self::Refusal => "refusal",
            Self::Length => "length",
            Self::Distinct => "distinct",
            Self::Duplicate => "duplicate",
            Self::NearDuplicate => "near-duplicate",
            Self::Contamination => "contamination",
            Self::ForeignSecret => "foreign-secret",
            Self::Personal => "personal",
            Self::Language => "language",
            Self::Frame => "frame",
        }
    }

    /// The check with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|check| check.name() == name)
    }
}

/// How much a check that does not hold weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// It is not reported.
    Off,
    /// It warns.
    Warn,
    /// It fails the row.
    Fail,
}

impl Severity {
    /// Reads a name.
    pub fn parse(name: &str) -> Option<Self> {
        [("off", Self::Off), ("warn", Self::Warn), ("fail", Self::Fail)]
            .into_iter()
            .find_map(|(known, severity)| (known == name).then_some(severity))
    }
}

/// Severities other than the usual ones, by check.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Severities(BTreeMap<Check, Severity>);

impl Severities {
    /// The severity of a check, where it is not the usual one.
    pub fn get(&self, check: Check) -> Option<Severity> {
        self.0.get(&check).copied()
    }

    /// Whether all are the usual ones.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(Check, Severity)> for Severities {
    fn from_iter<I: IntoIterator<Item = (Check, Severity)>>(items: I) -> Self {
        Self(items.into_iter().collect())
    }
}
