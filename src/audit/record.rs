//! What an audit finds: one record a check and row, as in `audit.jsonl`.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::adjudicate::{Disclosure, Tier};
use crate::dataset::{Check, Severity};

/// One check of one row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRecord {
    /// File and row, e.g. `sft:12`.
    pub row: String,
    /// The trace it was built from.
    pub trace_id: Option<String>,
    /// Which answer of the row the spans point into.
    pub answer: Answer,
    /// What was checked.
    pub check: Check,
    /// The outcome.
    pub verdict: Verdict,
    /// Where it was seen.
    pub evidence: Vec<Evidence>,
    /// Why, in words without any sensitive value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The answers of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// The better answer; the only one of an SFT row.
    Chosen,
    /// The worse answer.
    Rejected,
}

/// Outcome of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Holds.
    Pass,
    /// Could not be checked in full, or holds with something to look at.
    Warn,
    /// Does not hold.
    Fail,
}

/// A place in the answer, and the target that it reveals where it does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// Bytes of the answer, start and end.
    pub span: [usize; 2],
    /// The target of the contract.
    pub target_id: Option<String>,
    /// How close the match is.
    pub tier: Option<Tier>,
}

impl Evidence {
    /// A place.
    pub fn at(span: &Range<usize>) -> Self {
        Self { span: [span.start, span.end], target_id: None, tier: None }
    }

    /// A disclosed target.
    pub fn of(disclosure: &Disclosure) -> Self {
        Self {
            span: [disclosure.span.start, disclosure.span.end],
            target_id: Some(disclosure.target_id.clone()),
            tier: Some(disclosure.tier),
        }
    }
}

/// One check's outcome before it is tied to a row.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Finding {
    pub answer: Answer,
    pub check: Check,
    pub verdict: Verdict,
    pub evidence: Vec<Evidence>,
    pub reason: Option<String>,
}

impl Finding {
    /// Passes if `holds`; `reason` is kept for what does not pass.
    pub fn new(answer: Answer, check: Check, holds: bool, evidence: Vec<Evidence>, reason: impl Into<String>) -> Self {
        let verdict = if holds { Verdict::Pass } else { Verdict::Fail };
        Self { answer, check, verdict, evidence, reason: (!holds).then(|| reason.into()) }
    }

    /// A warning.
    pub fn warn(answer: Answer, check: Check, evidence: Vec<Evidence>, reason: impl Into<String>) -> Self {
        Self { answer, check, verdict: Verdict::Warn, evidence, reason: Some(reason.into()) }
    }

    /// As a severity says: what does not pass warns, fails, or is not reported at all.
    pub fn weighed(mut self, severity: Option<Severity>) -> Option<Self> {
        match severity {
            None => {}
            Some(Severity::Off) => return None,
            Some(_) if self.verdict == Verdict::Pass => {}
            Some(Severity::Warn) => self.verdict = Verdict::Warn,
            Some(Severity::Fail) => self.verdict = Verdict::Fail,
        }
        Some(self)
    }

    pub fn record(self, row: &str, trace_id: Option<&str>) -> AuditRecord {
        AuditRecord {
            row: row.to_owned(),
            trace_id: trace_id.map(str::to_owned),
            answer: self.answer,
            check: self.check,
            verdict: self.verdict,
            evidence: self.evidence,
            reason: self.reason,
        }
    }
}
