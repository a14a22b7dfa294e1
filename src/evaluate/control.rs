//! The negative control: each answer is judged again, against an unrelated trace's targets. What leaks there is the judge's
//! floor. Donors come from the evaluated traces themselves and from the same part of the split, so that no training trace
//! enters an evaluation.
//!
//! In: the evaluated traces. Out: the donor of each.

use std::collections::BTreeMap;

use super::join::Pairs;
use crate::control::{self, Pairing};
use crate::run::seed::Seed;
use crate::trace::Part;

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
