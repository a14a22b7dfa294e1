//! From a trace to its contract.
//!
//! In: a [`Trace`]. Out: a [`Derived`]: the frozen [`Contract`], or why there is none, and the flags that deriving raised.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::gap::{self, Gap};
use super::reading::Reading;
use super::required::{self, Requirements};
use super::words::{self, Stem};
use super::{Authorization, Channel, Contract, Required, Target, Visibility, clues, default_budget, labels};
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

/// Traces derived together by [`derive_each`].
const BATCH: usize = 2_048;

/// Derives and freezes the contract of one trace.
pub fn derive(trace: &Trace) -> Derived {
    let reading = Reading::of(trace);
    let mut targets = labels::labels(&reading);
    let Requirements { values, conflict } = required::requirements(&reading, &targets);
    let clues = clues::clues(&reading);
    let said = said(trace, &values);
    let authorized = clues
        .iter()
        .filter(|clue| required::shares_pointer(&clue.provenance, &values) || is_said(&said, clue))
        .map(|clue| Authorization { recipient: REQUESTER.to_owned(), target_id: clue.target_id.clone() })
        .collect();
    targets.extend(clues);
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

/// Derives the contracts of traces that `source` pushes, in batches on all threads, and hands each with its trace to `visit` in
/// the order of the traces. Only one batch is held at a time.
///
/// # Errors
/// What `source` or `visit` return.
pub fn derive_each<T>(
    source: impl FnOnce(&mut dyn FnMut(Trace) -> Result<()>) -> Result<T>,
    mut visit: impl FnMut(Trace, Derived) -> Result<()>,
) -> Result<T> {
    let mut pending: Vec<Trace> = Vec::with_capacity(BATCH);
    let mut flush = |pending: &mut Vec<Trace>| {
        let derived = derive_all(pending);
        pending.drain(..).zip(derived).try_for_each(|(trace, derived)| visit(trace, derived))
    };
    let result = source(&mut |trace| {
        pending.push(trace);
        if pending.len() < BATCH { Ok(()) } else { flush(&mut pending) }
    })?;
    flush(&mut pending)?;
    Ok(result)
}

/// Derives the contracts of all traces, in their order, on all threads.
pub fn derive_all(traces: &[Trace]) -> Vec<Derived> {
    traces.par_iter().map(derive).collect()
}

/// What the requester knows or must be told: the goal and the required values.
fn said(trace: &Trace, values: &[Required]) -> Vec<Vec<Stem>> {
    let texts = std::iter::once(trace.goal.as_str()).chain(values.iter().map(|required| required.value.as_str()));
    texts.map(words::stems).collect()
}

/// A form of the clue stands in what is said.
fn is_said(said: &[Vec<Stem>], clue: &Target) -> bool {
    std::iter::once(&clue.value).chain(&clue.aliases).any(|form| {
        let form = words::stems(form);
        said.iter().any(|said| words::contains(said, &form))
    })
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
