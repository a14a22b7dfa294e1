//! Required values: what a complete answer holds, taken from the returns of the essential tools.
//!
//! In: a trace, read, and its labels. Out: a small set of values (at most [`MOST`]), chosen because the criteria or the goal
//! name the value, its key, its tool or its kind; and whether the criteria demand what the labels forbid.

use super::demand::{Demand, Scored};
use super::labels::{self, Forbidden};
use super::reading::{ReadTool, Reading};
use super::words;
use super::{Provenance, Required, Target};
use crate::trace::{Leaf, Located, Tool};

/// Values in one contract.
const MOST: usize = 8;
/// Values from one tool.
const MOST_OF_TOOL: usize = 2;
/// Values from one list of a tool, where the criteria ask for the list.
const MOST_OF_LIST: usize = 4;
/// From here a value is chosen for its own sake.
const CHOSEN: u32 = 3;

/// The required values of a trace.
pub(super) struct Requirements {
    /// The values, in tool and document order.
    pub values: Vec<Required>,
    /// The criteria demand a value or a wording that a label forbids.
    pub conflict: bool,
}

/// Declared values, or those that the criteria and the goal ask for.
pub(super) fn requirements(reading: &Reading<'_>, labels: &[Target]) -> Requirements {
    let trace = reading.trace;
    if let Some(truth) = &trace.truth
        && !truth.required.is_empty()
    {
        return Requirements { values: declared(reading, &truth.required), conflict: false };
    }
    let essential: Vec<&ReadTool<'_>> = reading.tools.iter().filter(|tool| tool.tool.essential).collect();
    let criteria = labels::demanded(trace.success_criteria.as_deref().unwrap_or_default());
    let demand = Demand::of(criteria, &trace.goal, essential.len());
    let forbidden = labels::forbidden(labels);
    let stems = words::stems(criteria);
    let is_demanded = |form: &Forbidden| words::contains_loosely(&stems, &form.stems);
    let mut conflict = forbidden.iter().any(is_demanded) || wants_the_user_named(criteria);
    let mut values: Vec<Required> = Vec::new();
    for (index, tool) in essential.into_iter().enumerate() {
        let choice = choose(&demand, index, tool, &forbidden);
        conflict |= choice.conflict;
        for leaf in choice.leaves {
            add(&mut values, leaf, tool.tool);
        }
    }
    values.truncate(MOST);
    Requirements { values, conflict }
}

/// `The agent explicitly identifies the user's community` asks for the conclusion itself.
fn wants_the_user_named(criteria: &str) -> bool {
    let lower = criteria.to_ascii_lowercase();
    ["explicitly identif", "explicitly nam", "explicitly label", "explicitly stat"].iter().any(|verb| {
        lower.find(verb).is_some_and(|at| lower[at..].split(['.', ',']).next().unwrap_or_default().contains("user"))
    })
}

fn declared(reading: &Reading<'_>, located: &[Located]) -> Vec<Required> {
    let mut values = Vec::new();
    for place in located {
        let Some(tool) = reading.tools.iter().find(|tool| tool.tool.tool_id == place.tool_id) else { continue };
        for leaf in tool.leaves.iter().filter(|leaf| leaf.leaf.pointer == place.pointer) {
            add(&mut values, &leaf.leaf, tool.tool);
        }
    }
    values
}

fn add(values: &mut Vec<Required>, leaf: &Leaf, tool: &Tool) {
    let pointer = format!("/{}{}", tool.tool_id, leaf.pointer);
    match values.iter_mut().find(|known| known.value == leaf.text) {
        Some(known) => known.pointers.push(pointer),
        None => values.push(Required { value: leaf.text.clone(), pointers: vec![pointer] }),
    }
}

/// What one tool gives.
struct Choice<'a> {
    leaves: Vec<&'a Leaf>,
    conflict: bool,
}

/// The leaves of one tool that are asked for, in document order; at least one if anything asks for the tool at all.
fn choose<'a>(demand: &Demand, index: usize, tool: &'a ReadTool<'_>, forbidden: &[Forbidden]) -> Choice<'a> {
    let scored = demand.score(index, tool);
    let form_in = |scored: &Scored<'_>| {
        let forms = forbidden.iter().filter(|form| words::contains(&scored.leaf.stems, &form.stems));
        forms.map(|form| form.weak).min()
    };
    let (mut open, closed): (Vec<Scored<'_>>, Vec<Scored<'_>>) =
        scored.into_iter().partition(|scored| form_in(scored).is_none());
    // Answers paraphrase sentences; where anything shorter is asked for, that is what must stand word by word.
    if open.iter().any(|scored| scored.score >= 2 && !scored.is_sentence) {
        open.retain(|scored| !scored.is_sentence);
    }
    let best = open.iter().map(|scored| scored.score).max().unwrap_or(0);
    let has_named = open.iter().any(|scored| scored.is_named);
    let conflict = closed
        .iter()
        .any(|scored| scored.is_key_named || scored.is_value_named && !has_named && form_in(scored) == Some(false));
    let mut kept = if best > 0 { ranked(&open, best.min(CHOSEN)) } else { Vec::new() };
    if kept.is_empty() && demand.asks_for(index, tool) {
        kept.extend(fallback(&open));
    }
    kept.sort_unstable();
    Choice { leaves: kept.into_iter().map(|at| &open[at].leaf.leaf).collect(), conflict }
}

/// Indices of the best leaves; a list that is asked for is taken whole, within limits.
fn ranked(scored: &[Scored<'_>], floor: u32) -> Vec<usize> {
    let mut order: Vec<usize> = (0..scored.len()).filter(|at| scored[*at].score >= floor).collect();
    order.sort_by_key(|at| (std::cmp::Reverse(scored[*at].score), *at));
    let Some(first) = order.first().copied() else { return order };
    let list = |at: usize| list_of(&scored[at].leaf.leaf.pointer);
    let in_list = |at: &usize| list(*at).is_some() && list(*at) == list(first);
    let mut kept: Vec<usize> = order.iter().copied().filter(in_list).take(MOST_OF_LIST).collect();
    for at in order {
        if kept.len() < MOST_OF_TOOL && !kept.contains(&at) {
            kept.push(at);
        }
    }
    kept
}

/// The list that a leaf is an item of: `/terms/0` is one of `/terms`, `/rows/0/name` is a field.
fn list_of(pointer: &str) -> Option<&str> {
    let (list, last) = pointer.rsplit_once('/')?;
    last.bytes().all(|byte| byte.is_ascii_digit()).then_some(list)
}

/// Where the tool is asked for but none of its values: what the return is about.
fn fallback(open: &[Scored<'_>]) -> Option<usize> {
    let usable = || open.iter().enumerate().filter(|(_, scored)| !scored.is_bookkeeping);
    let main = usable().find(|(_, scored)| scored.is_main && !scored.is_sentence);
    let short = || usable().find(|(_, scored)| !scored.is_sentence);
    main.or_else(short).or_else(|| usable().next()).map(|(at, _)| at)
}

/// The pointers that a provenance and a required value share.
pub(super) fn shares_pointer(provenance: &Provenance, required: &[Required]) -> bool {
    required.iter().flat_map(|value| &value.pointers).any(|pointer| provenance.pointers.contains(pointer))
}
