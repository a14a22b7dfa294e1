//! Why a trace gives less than others.
//!
//! In: a trace, read, and its targets. Out: [`Gap`]s with a reason for people.

use serde::{Deserialize, Serialize};

use super::reading::Reading;
use super::terms::terms;
use super::{Required, Target, TargetKind, TargetRole};

/// Something that the prose of a trace does not give.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Gap {
    /// No label beside the conclusion: the criteria quote no forbidden wording.
    NoQuotedLabel,
    /// No clue: the chain quotes nothing, and no return shares two of its words.
    ChainQuotesNothing,
    /// No clue: nothing that the chain quotes stands in a return of the support.
    QuotesNotInReturns,
    /// No required value: criteria and goal name no value that may be said.
    NoRequiredValue,
}

impl Gap {
    /// The reason in words.
    pub fn reason(self) -> &'static str {
        match self {
            Self::NoQuotedLabel => "the criteria quote no forbidden wording",
            Self::ChainQuotesNothing => "the chain quotes nothing, and no return shares two of its words",
            Self::QuotesNotInReturns => "nothing that the chain quotes stands in a return of the support",
            Self::NoRequiredValue => "criteria and goal name no value that may be said",
        }
    }
}

/// The gaps of one trace.
pub(super) fn gaps(reading: &Reading<'_>, targets: &[Target], required: &[Required]) -> Vec<Gap> {
    let mut gaps = Vec::new();
    let has_label = targets
        .iter()
        .any(|target| target.kind == TargetKind::Label && target.provenance.role != Some(TargetRole::Conclusion));
    if !has_label {
        gaps.push(Gap::NoQuotedLabel);
    }
    if !targets.iter().any(|target| target.kind == TargetKind::Clue) {
        let chain = reading.trace.inference_chain.as_deref().unwrap_or_default();
        let quotes = terms(chain).iter().any(|term| !term.text.starts_with("Type "));
        gaps.push(if quotes { Gap::QuotesNotInReturns } else { Gap::ChainQuotesNothing });
    }
    if required.is_empty() {
        gaps.push(Gap::NoRequiredValue);
    }
    gaps
}
