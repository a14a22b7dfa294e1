//! The subset audit: which proper subsets of a trace's support already carry a target.
//!
//! In: a trace and its contract. Out: [`TraceSubsets`], and counts by the size of the support. TOP-Bench's C2 wants no single
//! tool, and no proper subset, to support the conclusion; a label that stands in one tool's return breaks it. A subset
//! carries what the returns of its tools hold, each return read on its own.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::adjudicate::{Matcher, Tier};
use crate::contract::{Contract, TargetKind, is_common_word};
use crate::error::Result;
use crate::trace::Trace;

/// Supports of more tools have too many subsets to count one by one.
const LARGEST_SUPPORT: usize = 12;

/// What a subset of tools carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Carried {
    /// A wording of the conclusion that is more than one common word.
    Label,
    /// A single common word among the labels.
    CommonWord,
    /// A private fragment, or another value that is no label.
    Fragment,
}

/// The subsets of one trace's support.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceSubsets {
    /// The trace.
    pub trace_id: String,
    /// Tools of the support, in order.
    pub support: Vec<String>,
    /// For each target that a proper subset carries: its kind and the smallest subsets.
    pub carried: BTreeMap<String, CarriedBy>,
    /// Proper subsets by size, and how many of them carry what.
    pub by_size: BTreeMap<usize, SubsetCount>,
}

/// Who carries a target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CarriedBy {
    /// What the target is.
    pub kind: Carried,
    /// Tools that carry it alone.
    pub tools: Vec<String>,
}

/// Subsets of one size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubsetCount {
    /// All of them.
    pub subsets: usize,
    /// With a label.
    pub with_label: usize,
    /// With a label or a common word among the labels.
    pub with_any_label: usize,
    /// With a fragment.
    pub with_fragment: usize,
}

/// Counts over traces whose supports have the same size.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct SubsetCounts {
    /// Traces.
    pub traces: usize,
    /// Traces of which some proper subset carries a label: C2 does not hold there.
    pub traces_with_label: usize,
    /// Traces of which a single tool carries a label.
    pub traces_with_label_in_one_tool: usize,
    /// Proper subsets by size.
    pub by_size: BTreeMap<usize, SubsetCount>,
}

impl SubsetCounts {
    /// Adds one trace.
    pub fn add(&mut self, trace: &TraceSubsets) {
        self.traces += 1;
        self.traces_with_label += usize::from(trace.by_size.values().any(|count| count.with_label > 0));
        self.traces_with_label_in_one_tool +=
            usize::from(trace.by_size.get(&1).is_some_and(|count| count.with_label > 0));
        for (size, count) in &trace.by_size {
            let sum = self.by_size.entry(*size).or_default();
            sum.subsets += count.subsets;
            sum.with_label += count.with_label;
            sum.with_any_label += count.with_any_label;
            sum.with_fragment += count.with_fragment;
        }
    }
}

/// Audits one trace; `None` for a support that has no proper subset, or more than can be counted.
///
/// # Errors
/// A contract that does not validate.
pub fn subsets(trace: &Trace, contract: &Contract) -> Result<Option<TraceSubsets>> {
    let tools: Vec<_> = trace.support.iter().filter_map(|id| trace.tool(id)).collect();
    if !(2..=LARGEST_SUPPORT).contains(&tools.len()) {
        return Ok(None);
    }
    let matcher = Matcher::new(contract)?;
    let mut carried: BTreeMap<String, CarriedBy> = BTreeMap::new();
    let mut kinds: Vec<BTreeSet<Carried>> = Vec::with_capacity(tools.len());
    for tool in &tools {
        let mut held = BTreeSet::new();
        for found in matcher.find(&tool.return_text).into_iter().filter(|found| found.tier != Tier::Semantic) {
            let Some(target) = contract.target(&found.target_id) else { continue };
            let kind = match target.kind {
                TargetKind::Label if is_common_word(found.alias.as_deref().unwrap_or(&target.value)) => {
                    Carried::CommonWord
                }
                TargetKind::Label => Carried::Label,
                _ => Carried::Fragment,
            };
            held.insert(kind);
            let entry = carried.entry(found.target_id).or_insert_with(|| CarriedBy { kind, tools: Vec::new() });
            if entry.tools.last() != Some(&tool.tool_id) {
                entry.tools.push(tool.tool_id.clone());
            }
        }
        kinds.push(held);
    }
    Ok(Some(TraceSubsets {
        trace_id: trace.trace_id.clone(),
        support: tools.iter().map(|tool| tool.tool_id.clone()).collect(),
        carried,
        by_size: count(&kinds),
    }))
}

/// Every proper, non-empty subset, by size; a subset carries what any of its tools carries.
fn count(kinds: &[BTreeSet<Carried>]) -> BTreeMap<usize, SubsetCount> {
    let mut by_size: BTreeMap<usize, SubsetCount> = BTreeMap::new();
    let whole = (1_usize << kinds.len()) - 1;
    for subset in 1..whole {
        let members = || kinds.iter().enumerate().filter(|(at, _)| subset >> at & 1 == 1).map(|(_, held)| held);
        let holds = |kind: Carried| members().any(|held| held.contains(&kind));
        let count = by_size.entry(subset.count_ones() as usize).or_default();
        count.subsets += 1;
        count.with_label += usize::from(holds(Carried::Label));
        count.with_any_label += usize::from(holds(Carried::Label) || holds(Carried::CommonWord));
        count.with_fragment += usize::from(holds(Carried::Fragment));
    }
    by_size
}
