//! Answers of real runs: what a model did with these very prompts is worth more than what a template imagines it would do.
//!
//! In: `responses.jsonl`. Out: [`Mined`]: for each trace its usable answers, classed by the adjudicator. Failed and cut runs are
//! never used.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::audit::{Ground, find_refusal};
use crate::dataset::PairKind;

/// One answer of a real run.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Response {
    /// The trace that was answered.
    pub trace_id: String,
    /// Whose answer it is.
    #[serde(default)]
    pub model: Option<String>,
    /// 1 or 2; absent counts as 2.
    #[serde(default)]
    pub stage: Option<u8>,
    /// What was said; absent where the run failed.
    #[serde(default)]
    pub content: Option<String>,
    /// Why the run failed.
    #[serde(default)]
    pub error: Option<serde_json::Value>,
    /// How the run ended, where it says so: `length` is a cut answer.
    #[serde(default, alias = "finish_reason")]
    pub finish: Option<String>,
}

impl Response {
    /// The answer, unless the run failed or was cut, or answered the other stage.
    fn usable(&self) -> Option<&str> {
        let failed = self.error.as_ref().is_some_and(|error| !error.is_null() && error.as_str() != Some(""));
        let was_cut = self.finish.as_deref().is_some_and(|finish| !matches!(finish, "stop" | "eos" | "end_turn"));
        let content = self.content.as_deref().map(str::trim).filter(|content| !content.is_empty())?;
        (!failed && !was_cut && self.stage.is_none_or(|stage| stage == 2)).then_some(content)
    }
}

/// What an answer amounts to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResponseClass {
    /// Complete and silent.
    SafeComplete,
    /// It states the conclusion.
    ExplicitLeak,
    /// It tells private fragments.
    OverDisclosure,
    /// It declines or withholds.
    OverRefusal,
    /// It neither leaks nor declines, and misses required values.
    Incomplete,
    /// A failed, cut or empty run, or one of stage 1.
    Unusable,
}

impl ResponseClass {
    /// The name in files and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::SafeComplete => "safe-complete",
            Self::ExplicitLeak => "explicit-leak",
            Self::OverDisclosure => "over-disclosure",
            Self::OverRefusal => "over-refusal",
            Self::Incomplete => "incomplete",
            Self::Unusable => "unusable",
        }
    }

    /// The kind of pair whose rejected answer it can be.
    pub fn kind(self) -> Option<PairKind> {
        match self {
            Self::ExplicitLeak => Some(PairKind::ExplicitLeak),
            Self::OverDisclosure => Some(PairKind::OverDisclosure),
            Self::OverRefusal => Some(PairKind::OverRefusal),
            Self::SafeComplete | Self::Incomplete | Self::Unusable => None,
        }
    }
}

/// The answers of all runs, by trace.
#[derive(Debug, Clone, Default)]
pub struct Mined<'a>(BTreeMap<&'a str, Vec<&'a Response>>);

/// A usable answer of one trace.
#[derive(Debug, Clone, Copy)]
pub(super) struct Classed<'a> {
    pub class: ResponseClass,
    pub content: &'a str,
    pub model: &'a str,
}

impl<'a> Mined<'a> {
    /// Groups responses by trace, in their order.
    pub fn new(responses: &'a [Response]) -> Self {
        let mut by_trace: BTreeMap<&str, Vec<&Response>> = BTreeMap::new();
        for response in responses {
            by_trace.entry(&response.trace_id).or_default().push(response);
        }
        Self(by_trace)
    }

    /// The answers to one trace with what they amount to.
    pub(super) fn classed(&self, trace_id: &str, ground: &Ground<'_>) -> Vec<Classed<'a>> {
        let responses = self.0.get(trace_id).map_or(&[][..], Vec::as_slice);
        responses
            .iter()
            .map(|response| {
                let content = response.usable();
                let class = content.map_or(ResponseClass::Unusable, |content| class(content, ground));
                Classed {
                    class,
                    content: content.unwrap_or_default(),
                    model: response.model.as_deref().unwrap_or("unknown"),
                }
            })
            .collect()
    }
}

/// A stated conclusion weighs most, then private fragments; declining only counts where something is missing for it.
fn class(content: &str, ground: &Ground<'_>) -> ResponseClass {
    let decision = ground.decision("response", content);
    let is_complete = ground.is_complete(content);
    if decision.explicit {
        ResponseClass::ExplicitLeak
    } else if decision.over_disclosed {
        ResponseClass::OverDisclosure
    } else if is_complete {
        ResponseClass::SafeComplete
    } else if find_refusal(content, ground.source_text()).is_some() {
        ResponseClass::OverRefusal
    } else {
        ResponseClass::Incomplete
    }
}

#[cfg(test)]
mod tests {
    use super::Response;

    #[test]
    fn failed_cut_empty_and_stage_one_runs_are_never_used() {
        let read = |json: &str| serde_json::from_str::<Response>(json).unwrap();
        assert!(read(r#"{"trace_id": "t", "stage": 2, "content": "Fine.", "error": null}"#).usable().is_some());
        for bad in [
            r#"{"trace_id": "t", "stage": 2, "content": "Fine.", "error": "timeout"}"#,
            r#"{"trace_id": "t", "stage": 2, "content": "Fine", "finish": "length"}"#,
            r#"{"trace_id": "t", "stage": 2, "content": "Fine", "finish_reason": "length"}"#,
            r#"{"trace_id": "t", "stage": 1, "content": "Fine"}"#,
            r#"{"trace_id": "t", "stage": 2, "content": "  "}"#,
            r#"{"trace_id": "t", "stage": 2, "content": null}"#,
        ] {
            assert!(read(bad).usable().is_none(), "{bad}");
        }
    }
}
