//! The negative control: each answer is judged again, against an unrelated trace's targets. What leaks there is the judge's
//! floor. A trace's own negative control, where the traces hold it, is a second one. Donors come from the evaluated traces themselves and from the same part of the split, so that no training trace
//! enters an evaluation.
//!
//! In: the evaluated traces. Out: the donor of each.

use std::collections::BTreeMap;

use super::join::Cases;
use crate::adjudicate::Matcher;
use crate::contract::Contract;
use crate::control::{self, Pairing};
use crate::error::Result;
use crate::run::seed::Seed;
use crate::trace::{Part, Trace, Variant};

/// The donor of each trace: another trace of the same part and of another group, each used once; traces without one are left
/// out.
pub(super) fn donors<'a>(cases: &Cases<'a>, parts: &BTreeMap<String, Part>, seed: Seed) -> BTreeMap<&'a str, &'a str> {
    let pairings: Vec<Pairing<'a>> = cases
        .iter()
        .map(|(id, case)| Pairing {
            id,
            part: parts.get(*id).copied(),
            group: case.trace.group.as_deref().unwrap_or(case.trace.base_id()),
        })
        .collect();
    control::donors(&pairings, seed)
}

/// The contracts of negative controls by the base trace that they are of: a control differs in its conclusion alone, so that the
/// base trace's answer is its answer too.
///
/// # Errors
/// A contract that does not validate.
pub(super) fn own_controls<'a>(
    cases: &Cases<'a>,
    traces: &'a [Trace],
    contracts: &'a [Contract],
) -> Result<BTreeMap<&'a str, (&'a Contract, Matcher)>> {
    let is_control = |trace: &&Trace| trace.variant == Variant::NegativeControl;
    let answered = |trace: &&Trace| cases.contains_key(trace.base_id());
    let bases: BTreeMap<&str, &str> = traces
        .iter()
        .filter(is_control)
        .filter(answered)
        .map(|trace| (trace.trace_id.as_str(), trace.base_id()))
        .collect();
    let mut controls = BTreeMap::new();
    for contract in contracts {
        let base = contract.trace_id.as_deref().and_then(|id| bases.get(id));
        if let Some(base) = base {
            controls.insert(*base, (contract, Matcher::new(contract)?));
        }
    }
    Ok(controls)
}
