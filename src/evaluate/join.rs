//! Completions meet their traces and contracts: every row has exactly one of each, or the evaluation does not start.
//!
//! In: rows of three files. Out: [`Joined`], or all faults with the rows they are in.

use std::collections::{BTreeMap, BTreeSet};

use crate::adjudicate::Matcher;
use crate::completion::Completion;
use crate::contract::Contract;
use crate::error::{Error, Fault, Result};
use crate::trace::Trace;

/// Faults reported at once.
const SHOWN_FAULTS: usize = 20;

/// What one trace is judged with.
pub(super) struct Case<'a> {
    pub trace: &'a Trace,
    pub contract: &'a Contract,
    pub matcher: Matcher,
}

/// The cases of the evaluated traces, by trace id.
pub(super) type Cases<'a> = BTreeMap<&'a str, Case<'a>>;

/// Finds the trace and the contract of every completion.
pub(super) fn join<'a>(
    completions: &'a [Completion],
    traces: &'a [Trace],
    contracts: &'a [Contract],
) -> Result<Cases<'a>> {
    if completions.is_empty() {
        return Err(Fault::new("no completions to evaluate").into());
    }
    let mut faults = duplicates(completions);
    let by_id = unique(traces, "trace", |trace| Some(trace.trace_id.as_str()), &mut faults);
    let by_trace = unique(contracts, "contract of trace", |contract| contract.trace_id.as_deref(), &mut faults);
    let mut cases = Cases::new();
    let mut refused = BTreeSet::new();
    for (row, completion) in completions.iter().enumerate() {
        let id = completion.trace_id.as_str();
        if cases.contains_key(id) || !refused.insert(id) {
            continue;
        }
        match case(id, &by_id, &by_trace) {
            Ok(case) => {
                cases.insert(id, case);
            }
            Err(Error::Invalid(found)) => {
                faults.extend(
                    found
                        .into_iter()
                        .map(|fault| if fault.place.is_none() { fault.at(place(row, completion)) } else { fault }),
                );
            }
            Err(other) => return Err(other),
        }
    }
    if faults.is_empty() {
        return Ok(cases);
    }
    // One hint of a kind is enough.
    let mut hints = BTreeSet::new();
    for fault in &mut faults {
        fault.hint = fault.hint.take().filter(|hint| hints.insert(hint.clone()));
    }
    let more = faults.len().saturating_sub(SHOWN_FAULTS);
    faults.truncate(SHOWN_FAULTS);
    if more > 0 {
        faults.push(Fault::new(format!("and {more} more faults")));
    }
    Err(Error::Invalid(faults))
}

fn case<'a>(
    id: &str,
    traces: &BTreeMap<&str, &'a Trace>,
    contracts: &BTreeMap<&str, &'a Contract>,
) -> Result<Case<'a>> {
    let trace = *traces.get(id).ok_or_else(|| {
        Fault::new("the completion answers a trace that the traces file does not hold")
            .hint("evaluate with the traces file that `topalign generate` read")
    })?;
    let contract = *contracts.get(id).ok_or_else(|| {
        Fault::new("the trace has no contract")
            .hint("derive contracts with `topalign contract`; traces without one cannot be judged")
    })?;
    // A contract written by hand has no digest; one that has a digest must be the frozen one.
    if !contract.digest.is_empty() {
        contract.verify()?;
    }
    Ok(Case { trace, contract, matcher: Matcher::new(contract)? })
}

/// Rows of the same trace, system and seed: the first of them is meant, or the second; nobody can tell.
fn duplicates(completions: &[Completion]) -> Vec<Fault> {
    let mut first = BTreeMap::new();
    let mut faults = Vec::new();
    for (row, completion) in completions.iter().enumerate() {
        let key = (completion.trace_id.as_str(), completion.system.as_str(), completion.seed);
        if let Some(earlier) = first.insert(key, row) {
            let what = format!("the same trace, system and seed as row {}", earlier + 1);
            faults.push(
                Fault::new(what).at(place(row, completion)).hint("give each system or mitigation a name of its own"),
            );
        }
    }
    faults
}

fn unique<'a, T>(
    rows: &'a [T],
    noun: &str,
    id: impl Fn(&'a T) -> Option<&'a str>,
    faults: &mut Vec<Fault>,
) -> BTreeMap<&'a str, &'a T> {
    let mut found = BTreeMap::new();
    for row in rows {
        if let Some(id) = id(row)
            && found.insert(id, row).is_some()
        {
            faults.push(Fault::new(format!("more than one {noun}")).at(id));
        }
    }
    found
}

fn place(row: usize, completion: &Completion) -> String {
    let Completion { trace_id, system, seed, .. } = completion;
    format!("completions row {} (trace {trace_id}, system {system}, seed {seed})", row + 1)
}
