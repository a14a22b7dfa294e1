//! The negative control: each answer is judged again, against an unrelated trace's targets. What leaks there is the judge's
//! floor. Donors come from the evaluated traces themselves, so that no training trace enters an evaluation.
//!
//! In: the evaluated traces. Out: the donor of each.

use std::collections::BTreeMap;

use rand::seq::SliceRandom as _;

use super::join::Cases;
use crate::run::seed::Seed;

/// The donor of each trace: another trace of another group, dealt from `seed`; traces without one are left out.
pub(super) fn donors<'a>(cases: &Cases<'a>, seed: Seed) -> BTreeMap<&'a str, &'a str> {
    let mut order: Vec<&str> = cases.keys().copied().collect();
    order.shuffle(&mut seed.stream("evaluate/negative-control"));
    let group = |id: &str| cases.get(id).map(|case| case.trace.group.as_deref().unwrap_or(case.trace.base_id()));
    let mut donors = BTreeMap::new();
    for (place, id) in order.iter().enumerate() {
        let next = order.iter().cycle().skip(place + 1).take(order.len() - 1).find(|other| group(other) != group(id));
        if let Some(next) = next {
            donors.insert(*id, *next);
        }
    }
    donors
}
