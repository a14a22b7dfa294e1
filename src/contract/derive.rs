//! From a trace to its contract.
//!
//! In: a [`Trace`]. Out: a [`Derived`]: the frozen [`Contract`], or why there is none, and the flags that deriving raised.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::clues::{self, Clue};
use super::gap::{self, Gap};
use super::reading::{Reading, Words};
use super::required::{self, Requirements};
use super::words::{self, Stem};
use super::{Authorization, Channel, Contract, Required, Visibility, default_budget, labels};
use crate::error::Result;
use crate::trace::{Flag, Trace};

/// Who asked and reads the answer.
pub const REQUESTER: &str = "requester";

/// What deriving gave.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Derived {
    /// The trace.
    pub trace_id: String,
    /// The frozen contract, or the reason why the trace has none.
    pub contract: Result<Contract, String>,
    /// Raised while deriving: [`Flag::Conflict`] when the success criteria demand what the disclosure criteria forbid.
    pub flags: Vec<Flag>,
    /// What the trace's prose does not give.
    pub gaps: Vec<Gap>,
}

/// Derives and freezes the contract of one trace.
pub fn derive(trace: &Trace) -> Derived {
    let words = Words::of(trace);
    let reading = Reading::of(trace, &words);
    let mut targets = labels::labels(&reading);
    let Requirements { values, conflict } = required::requirements(&reading, &targets);
    let clues = clues::clues(&reading);
    let said = said(&reading, &values);
    let authorized = clues
        .iter()
        .filter(|clue| required::shares_pointer(&clue.target.provenance, &values) || is_said(&said, clue))
        .map(|clue| Authorization { recipient: REQUESTER.to_owned(), target_id: clue.target.target_id.clone() })
        .collect();
    targets.extend(clues.into_iter().map(|clue| clue.target));
    let gaps = gap::gaps(&reading, &targets, &values);
    let contract = Contract {
        contract_id: trace.trace_id.clone(),
        trace_id: Some(trace.trace_id.clone()),
        budget: default_budget(),
        expected_outlet: Some("response".to_owned()),
        channels: channels(),
        targets,
        authorized,
        required: values,
        locale: None,
        digest: String::new(),
    };
    Derived {
        trace_id: trace.trace_id.clone(),
        contract: contract.freeze().map_err(|error| error.to_string()),
        flags: if conflict { vec![Flag::Conflict] } else { Vec::new() },
        gaps,
    }
}

/// Derives the contracts of all traces, in their order, on all threads.
pub fn derive_all(traces: &[Trace]) -> Vec<Derived> {
    traces.par_iter().map(derive).collect()
}

/// What the requester knows or must be told: stems of the goal and of the required values, with breaks between them.
fn said(reading: &Reading<'_>, values: &[Required]) -> Vec<Stem> {
    let mut said = reading.goal.to_vec();
    for required in values {
        said.push(Stem::BREAK);
        words::add_stems(&required.value, &mut said);
    }
    said
}

/// A form of the clue stands in what is said.
fn is_said(said: &[Stem], clue: &Clue) -> bool {
    words::contains(said, &clue.stems)
        || clue.target.aliases.iter().any(|form| words::contains(said, &words::stems(form)))
}

/// The exits of the two-stage protocol.
fn channels() -> Vec<Channel> {
    let channel = |name: &str, visibility, recipient: Option<&str>| Channel {
        name: name.to_owned(),
        visibility,
        recipient: recipient.map(str::to_owned),
    };
    vec![
        channel("response", Visibility::Requester, Some(REQUESTER)),
        channel("rationale", Visibility::Requester, Some(REQUESTER)),
        channel("tool_call", Visibility::Internal, None),
        channel("tool_return", Visibility::Internal, None),
    ]
}
