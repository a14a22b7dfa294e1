//! Unrelated donors: each trace gets another one of the same part of the split and of another group, each used once.
//!
//! In: ids with part and group, a seed. Out: the donor of each id; and negative-control traces whose unrelated goal comes from
//! their own part, since the released donors cross any split.

use std::collections::BTreeMap;

use rand::seq::SliceRandom as _;

use crate::run::seed::Seed;
use crate::trace::{Part, Trace, Variant};

/// What pairs a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pairing<'a> {
    /// The trace.
    pub id: &'a str,
    /// Its part of the split, where known; traces without one pair among themselves.
    pub part: Option<Part>,
    /// Its near-duplicate group.
    pub group: &'a str,
}

/// The donor of each id: a seeded derangement within each part that never stays in a group. Ids of a group that makes up more
/// than half of its part have no donor where none is left.
pub fn donors<'a>(pairings: &[Pairing<'a>], seed: Seed) -> BTreeMap<&'a str, &'a str> {
    let mut parts: BTreeMap<Option<Part>, Vec<&Pairing<'a>>> = BTreeMap::new();
    for pairing in pairings {
        parts.entry(pairing.part).or_default().push(pairing);
    }
    let mut random = seed.stream("control/donors");
    let mut donors = BTreeMap::new();
    for mut members in parts.into_values() {
        members.sort_by_key(|member| member.id);
        members.shuffle(&mut random);
        let mut rank: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for (place, member) in members.iter().enumerate() {
            rank.entry(member.group).or_insert((0, place)).0 += 1;
        }
        // Groups stand together, the largest first: a shift by its size then leaves every group.
        members.sort_by_key(|member| {
            let (size, place) = rank.get(member.group).copied().unwrap_or_default();
            (std::cmp::Reverse(size), place)
        });
        let shift = rank.values().map(|(size, _)| *size).max().unwrap_or(0);
        for (place, member) in members.iter().enumerate() {
            let donor = members[(place + shift) % members.len()];
            if donor.group != member.group {
                donors.insert(member.id, donor.id);
            }
        }
    }
    donors
}

/// Gives each negative-control trace the goal of a donor of its own part, from the base traces among `traces`. Returns how many
/// were paired anew; the others keep what they came with.
pub fn repair(traces: &mut [Trace], parts: &BTreeMap<String, Part>, seed: Seed) -> usize {
    let goals: BTreeMap<String, String> = traces
        .iter()
        .filter(|trace| trace.variant == Variant::Base)
        .filter_map(|trace| Some((trace.trace_id.clone(), trace.extra.get("malicious_goal")?.as_str()?.to_owned())))
        .collect();
    let chosen: BTreeMap<String, String> = {
        let pairings: Vec<Pairing<'_>> = traces
            .iter()
            .filter(|trace| trace.variant == Variant::NegativeControl && goals.contains_key(trace.base_id()))
            .map(|trace| Pairing {
                id: trace.base_id(),
                part: parts.get(&trace.trace_id).copied(),
                group: trace.group.as_deref().unwrap_or(trace.base_id()),
            })
            .collect();
        donors(&pairings, seed)
            .into_iter()
            .filter_map(|(id, donor)| Some((id.to_owned(), goals.get(donor)?.clone())))
            .collect()
    };
    let mut count = 0;
    for trace in traces.iter_mut().filter(|trace| trace.variant == Variant::NegativeControl) {
        if let Some(goal) = chosen.get(trace.base_id()) {
            trace.control_conclusion = Some(goal.clone());
            count += 1;
        }
    }
    count
}
