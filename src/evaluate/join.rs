//! Completions meet their traces and contracts: every row has exactly one of each, or the evaluation does not start.
//!
//! In: rows of three files. Out: [`Joined`], then [`Cases`], or all faults with the rows they are in.

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;

use crate::adjudicate::Matcher;
use crate::completion::Completion;
use crate::contract::Contract;
use crate::error::{Error, Fault, Result};
use crate::trace::Trace;

/// Faults reported at once.
const SHOWN_FAULTS: usize = 20;

/// A trace with its contract.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair<'a> {
    pub trace: &'a Trace,
    pub contract: &'a Contract,
    /// The first completion of it.
    row: usize,
}

/// The evaluated traces by id.
pub(super) type Pairs<'a> = BTreeMap<&'a str, Pair<'a>>;

/// What one trace is judged with.
pub(super) struct Case<'a> {
    pub trace: &'a Trace,
    pub contract: &'a Contract,
    pub matcher: Matcher,
}

/// Cases by trace id.
pub(super) type Cases<'a> = BTreeMap<&'a str, Case<'a>>;

/// Completions with their traces and contracts, before a contract is looked into.
pub(super) struct Joined<'a> {
    completions: &'a [Completion],
    pub pairs: Pairs<'a>,
    faults: Vec<Fault>,
}

impl<'a> Joined<'a> {
    /// Finds the trace and the contract of every completion.
    pub fn new(completions: &'a [Completion], traces: &'a [Trace], contracts: &'a [Contract]) -> Result<Self> {
        if completions.is_empty() {
            return Err(Fault::new("no completions to evaluate").into());
        }
        let mut faults = duplicates(completions);
        let by_id = unique(traces, "trace", |trace| Some(trace.trace_id.as_str()), &mut faults);
        let by_trace = unique(contracts, "contract of trace", |contract| contract.trace_id.as_deref(), &mut faults);
        let mut pairs = Pairs::new();
        let mut refused = BTreeSet::new();
        for (row, completion) in completions.iter().enumerate() {
            let id = completion.trace_id.as_str();
            if pairs.contains_key(id) || !refused.insert(id) {
                continue;
            }
            match pair(id, row, &by_id, &by_trace) {
                Ok(pair) => _ = pairs.insert(id, pair),
                Err(fault) => faults.push(fault.at(place(row, completion))),
            }
        }
        Ok(Self { completions, pairs, faults })
    }

    /// Prepares the traces that `wants` names, on all threads.
    ///
    /// # Errors
    /// All faults found while joining, and those of the contracts.
    pub fn cases(self, wants: impl Fn(&str) -> bool + Sync) -> Result<Cases<'a>> {
        let Self { completions, pairs, mut faults } = self;
        let wanted: Vec<(&str, Pair<'a>)> = pairs.into_iter().filter(|(id, _)| wants(id)).collect();
        let made: Vec<Result<Case<'a>>> = wanted.par_iter().map(|(_, pair)| pair.case()).collect();
        let mut cases = Cases::new();
        for ((id, pair), case) in wanted.into_iter().zip(made) {
            match case {
                Ok(case) => _ = cases.insert(id, case),
                Err(Error::Invalid(found)) => faults.extend(found.into_iter().map(|fault| {
                    if fault.place.is_none() { fault.at(place(pair.row, &completions[pair.row])) } else { fault }
                })),
                Err(other) => return Err(other),
            }
        }
        if faults.is_empty() { Ok(cases) } else { Err(Error::Invalid(shown(faults))) }
    }
}

/// [`Joined`] with all its cases.
pub(super) fn join<'a>(
    completions: &'a [Completion],
    traces: &'a [Trace],
    contracts: &'a [Contract],
) -> Result<Cases<'a>> {
    Joined::new(completions, traces, contracts)?.cases(|_| true)
}

impl<'a> Pair<'a> {
    fn case(&self) -> Result<Case<'a>> {
        let Self { trace, contract, .. } = *self;
        // A contract written by hand has no digest; one that has a digest must be the frozen one.
        if !contract.digest.is_empty() {
            contract.verify()?;
        }
        Ok(Case { trace, contract, matcher: Matcher::new(contract)? })
    }
}

/// The first faults, each kind of hint once.
fn shown(mut faults: Vec<Fault>) -> Vec<Fault> {
    let mut hints = BTreeSet::new();
    for fault in &mut faults {
        fault.hint = fault.hint.take().filter(|hint| hints.insert(hint.clone()));
    }
    let more = faults.len().saturating_sub(SHOWN_FAULTS);
    faults.truncate(SHOWN_FAULTS);
    if more > 0 {
        faults.push(Fault::new(format!("and {more} more faults")));
    }
    faults
}

fn pair<'a>(
    id: &str,
    row: usize,
    traces: &BTreeMap<&str, &'a Trace>,
    contracts: &BTreeMap<&str, &'a Contract>,
) -> Result<Pair<'a>, Fault> {
    let trace = *traces.get(id).ok_or_else(|| {
        Fault::new("the completion answers a trace that the traces file does not hold")
            .hint("evaluate with the traces file that `topalign generate` read")
    })?;
    let contract = *contracts.get(id).ok_or_else(|| {
        Fault::new("the trace has no contract")
            .hint("derive contracts with `topalign contract`; traces without one cannot be judged")
    })?;
    Ok(Pair { trace, contract, row })
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
