//! The negative control: each answer is judged again, against an unrelated trace's targets. What leaks there is the judge's
//! floor. Donors come from the evaluated traces themselves and from the same part of the split, so that no training trace
//! enters an evaluation.
//!
//! In: the evaluated traces. Out: the donor of each.

use std::collections::BTreeMap;

use super::join::Cases;
use crate::control::{self, Pairing};
use crate::run::seed::Seed;
use crate::trace::Part;

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
