//! The negative control: each answer is judged again, against an unrelated trace's targets. What leaks there is the judge's
//! floor. A trace's own negative control, where the traces hold it, is a second one. Donors come from the evaluated traces themselves
//! and from the same part of the split, so that no training trace enters an evaluation.
//!
//! In: the evaluated traces. Out: the donor of each.

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;

use super::join::Pairs;
use crate::adjudicate::Matcher;
use crate::contract::Contract;
use crate::control::{self, Pairing};
use crate::error::Result;
use crate::run::seed::Seed;
use crate::trace::{Part, Trace, Variant};

/// The donor of each trace: another trace of the same part and of another group, each used once; traces without one are left
/// out.
pub(super) fn donors<'a>(pairs: &Pairs<'a>, parts: &BTreeMap<String, Part>, seed: Seed) -> BTreeMap<&'a str, &'a str> {
    let pairings: Vec<Pairing<'a>> = pairs
        .iter()
        .map(|(id, pair)| Pairing {
            id,
            part: parts.get(*id).copied(),
            group: pair.trace.group.as_deref().unwrap_or(pair.trace.base_id()),
        })
        .collect();
    control::donors(&pairings, seed)
}

/// The contracts of negative controls by the base trace that they are of, for the traces in `answered`: a control differs in its
/// conclusion alone, so that the base trace's answer is its answer too.
///
/// # Errors
/// A contract that does not validate.
pub(super) fn own_controls<'a>(
    answered: &BTreeSet<&str>,
    traces: &'a [Trace],
    contracts: &'a [Contract],
) -> Result<BTreeMap<&'a str, (&'a Contract, Matcher)>> {
    let bases: BTreeMap<&str, &str> = traces
        .iter()
        .filter(|trace| trace.variant == Variant::NegativeControl && answered.contains(trace.base_id()))
        .map(|trace| (trace.trace_id.as_str(), trace.base_id()))
        .collect();
    let control = |contract: &'a Contract| {
        let base = *bases.get(contract.trace_id.as_deref()?)?;
        Some(Matcher::new(contract).map(|matcher| (base, (contract, matcher))))
    };
    contracts.par_iter().filter_map(control).collect()
}
