//! Train and held-out, dealt by near-duplicate group and never by row.
//!
//! In: traces, a share, a seed. Out: [`Split`], and `group` filled in each trace. Pure and deterministic: the same traces
//! in the same order with the same seed give the same split.

use std::collections::BTreeMap;

use rand::seq::SliceRandom as _;
use serde::{Deserialize, Serialize};

use crate::error::{Fault, Result};
use crate::run::seed::Seed;
use crate::trace::{Domain, Part, Trace, Variant};

mod group;
mod shingle;

pub use group::{Link, Reason};

/// Rows of TOP-Bench v2 whose ids fall in one block share an author's template.
const BLOCK: u64 = 30;

/// Which trace is in which part, and why traces stay together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Split {
    /// Share of scenarios asked for.
    pub held_out: f64,
    /// Seed of the deal.
    pub seed: Seed,
    /// Part of each trace, variants included.
    pub parts: BTreeMap<String, Part>,
    /// Members of each group by trace id.
    pub groups: BTreeMap<String, Vec<String>>,
    /// What joined two scenarios, by base id.
    pub reasons: Vec<Link>,
}

impl Split {
    /// The part of a trace.
    pub fn part(&self, trace_id: &str) -> Option<Part> {
        self.parts.get(trace_id).copied()
    }

    /// The parts with only a share of the training traces left in them, by whole groups in a seeded order: what a smaller share
    /// keeps, a greater one keeps too. At least one group stays.
    pub fn with_train_share(&self, share: f64) -> BTreeMap<String, Part> {
        let is_train = |id: &&String| self.part(id) == Some(Part::Train);
        let mut groups: Vec<Vec<&String>> =
            self.groups.values().map(|members| members.iter().filter(is_train).collect()).collect();
        groups.retain(|members| !members.is_empty());
        groups.shuffle(&mut self.seed.stream("split/train-share"));
        let wanted = share * self.count(Part::Train) as f64;
        let mut kept = 0;
        let mut parts = self.parts.clone();
        for members in groups {
            if kept > 0 && (kept + members.len()) as f64 > wanted + 0.5 {
                for id in members {
                    parts.remove(id);
                }
                continue;
            }
            kept += members.len();
        }
        parts
    }

    /// Traces in a part.
    pub fn count(&self, part: Part) -> usize {
        self.parts.values().filter(|other| **other == part).count()
    }
}

/// One scenario with its variants.
struct Scenario<'a> {
    /// Id shared by the variants.
    base_id: &'a str,
    /// The variant that stands for all: the base trace where there is one.
    trace: &'a Trace,
    /// Groups that the traces already carry.
    given: Vec<&'a str>,
    /// The part that a trace of it is pinned to.
    pinned: Option<Part>,
}

/// Deals traces to train and held-out.
///
/// `held_out` is a share of the scenarios that are not pinned, above 0 and below 1; a scenario's variants go where it goes. A
/// group with a pinned member is not dealt: the others go where the pinned one is, so that no near-duplicate of it is on the
/// other side. Where a group has members pinned to both, those that are not pinned train, and are never evaluated.
///
/// # Errors
/// A share out of range, a scenario pinned to both parts, or a part that would stay empty.
pub fn split(traces: &mut [Trace], held_out: f64, seed: Seed) -> Result<Split> {
    if !(held_out > 0.0 && held_out < 1.0) {
        return Err(Fault::new("the held-out share must be above 0 and below 1").got(held_out).into());
    }
    let (group_of, reasons) = {
        let scenarios = scenarios(traces)?;
        let (groups, reasons) = group::groups(&scenarios);
        let parts = deal(&scenarios, &groups, held_out, seed)?;
        let group_of: BTreeMap<String, (String, Option<Part>)> = groups
            .iter()
            .flat_map(|(name, members)| members.iter().map(move |&member| (member, name)))
            .map(|(member, name)| {
                let scenario = &scenarios[member];
                let part = scenario.pinned.or_else(|| parts.get(name).copied());
                (scenario.base_id.to_owned(), (name.clone(), part))
            })
            .collect();
        (group_of, reasons)
    };
    let mut split = Split { held_out, seed, parts: BTreeMap::new(), groups: BTreeMap::new(), reasons };
    for trace in traces {
        let Some((group, Some(part))) = group_of.get(trace.base_id()) else { continue };
        trace.group = Some(group.clone());
        split.parts.insert(trace.trace_id.clone(), *part);
        split.groups.entry(group.clone()).or_default().push(trace.trace_id.clone());
    }
    Ok(split)
}

fn scenarios(traces: &[Trace]) -> Result<Vec<Scenario<'_>>> {
    let mut scenarios: Vec<Scenario<'_>> = Vec::new();
    let mut index_of: BTreeMap<&str, usize> = BTreeMap::new();
    for trace in traces {
        let index = *index_of.entry(trace.base_id()).or_insert_with(|| {
            scenarios.push(Scenario { base_id: trace.base_id(), trace, given: Vec::new(), pinned: None });
            scenarios.len() - 1
        });
        if trace.variant == Variant::Base {
            scenarios[index].trace = trace;
        }
        scenarios[index].given.extend(trace.group.as_deref());
        let pinned = &mut scenarios[index].pinned;
        if trace.part.is_some() && pinned.is_some() && *pinned != trace.part {
            let fault = Fault::new("variants of one scenario are pinned to both parts").at(trace.base_id());
            return Err(fault.hint("a scenario and its variants must stay together").into());
        }
        *pinned = pinned.or(trace.part);
    }
    Ok(scenarios)
}

/// A domain and, where ids are numbers, a block of them.
type Stratum = (Domain, Option<u64>);

fn stratum(scenario: &Scenario<'_>) -> Stratum {
    let number = scenario.base_id.rsplit('/').next().and_then(|id| id.parse::<u64>().ok());
    (scenario.trace.domain, number.map(|id| id.saturating_sub(1) / BLOCK))
}

/// Deals whole groups, stratum by stratum; what a stratum could not give is owed by the next, so that totals come out right.
fn deal(
    scenarios: &[Scenario<'_>],
    groups: &BTreeMap<String, Vec<usize>>,
    held_out: f64,
    seed: Seed,
) -> Result<BTreeMap<String, Part>> {
    let mut strata: BTreeMap<Stratum, Vec<(&String, usize)>> = BTreeMap::new();
    let mut parts: BTreeMap<String, Part> = BTreeMap::new();
    for (name, members) in groups {
        let mut pins = members.iter().filter_map(|&member| scenarios[member].pinned);
        if let Some(first) = pins.next() {
            let part = if pins.all(|pin| pin == first) { first } else { Part::Train };
            parts.insert(name.clone(), part);
            continue;
        }
        let Some(&first) = members.first() else { continue };
        strata.entry(stratum(&scenarios[first])).or_default().push((name, members.len()));
    }
    let mut random = seed.stream("split");
    let mut owed = 0.0;
    for groups in strata.values_mut() {
        groups.shuffle(&mut random);
        owed += held_out * groups.iter().map(|(_, size)| *size as f64).sum::<f64>();
        for (name, size) in groups.iter() {
            let fits = *size as f64 <= owed + 0.5;
            if fits {
                owed -= *size as f64;
            }
            parts.insert((*name).clone(), if fits { Part::HeldOut } else { Part::Train });
        }
    }
    check_parts(scenarios, groups, &parts, held_out)?;
    Ok(parts)
}

fn check_parts(
    scenarios: &[Scenario<'_>],
    groups: &BTreeMap<String, Vec<usize>>,
    parts: &BTreeMap<String, Part>,
    held_out: f64,
) -> Result<()> {
    let pinned = |part: Part| scenarios.iter().any(|scenario| scenario.pinned == Some(part));
    for (part, name) in [(Part::Train, "train"), (Part::HeldOut, "held-out")] {
        if !pinned(part) && !parts.values().any(|other| *other == part) {
            return Err(Fault::new(format!("the {name} part would be empty"))
                .got(format!(
                    "{} scenarios in {} groups at a held-out share of {held_out}",
                    scenarios.len(),
                    groups.len()
                ))
                .hint("near-duplicates stay together: add scenarios that differ, or change the share")
                .into());
        }
    }
    Ok(())
}
