//! Required values: what a complete answer holds, taken from the returns of the essential tools.
//!
//! In: a trace, read, and its labels. Out: a small set of values (at most [`MOST`]), chosen because the criteria or the goal
//! name the value, its key, its tool or its kind; and whether the criteria demand what the labels forbid.

use super::demand::{Demand, Scored};
use super::labels::{self, Forbidden};
use super::reading::{ReadLeaf, ReadTool, Reading};
use super::words;
use super::{Provenance, Required, Target};
use crate::trace::{Located, Tool};

/// Values in one contract.
const MOST: usize = 8;
/// Values from one tool.
const MOST_OF_TOOL: usize = 2;
/// Values from one list of a tool, where the criteria ask for the list.
const MOST_OF_LIST: usize = 4;
/// Tools whose values an answer names at least: a request over several tools is not answered by one of them.
const LEAST_TOOLS: usize = 2;
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
    let choices: Vec<Choice<'_>> =
        essential.iter().enumerate().map(|(index, tool)| choose(&demand, index, tool, &forbidden)).collect();
    // Where the items are not told apart by tool, any tool's value may be the one that is demanded.
    let is_answered = !demand.is_itemised() && choices.iter().any(|choice| choice.answers_by_key);
    conflict |= choices.iter().any(|choice| match choice.clash {
        Clash::None => false,
        Clash::OfKey => !is_answered,
        Clash::OfValue => true,
    });
    let mut lacking = LEAST_TOOLS.saturating_sub(choices.iter().filter(|choice| !choice.leaves.is_empty()).count());
    for (tool, choice) in essential.iter().zip(choices) {
        let fills = lacking > 0 && choice.leaves.is_empty() && choice.spare.is_some();
        lacking -= usize::from(fills);
        let is_known = |(_, text): &(&ReadLeaf<'_>, &str)| values.iter().any(|known| known.value == *text);
        // A tool that only repeats what others gave is named by what its return is about.
        let spare = choice.spare.filter(|_| fills || !choice.leaves.is_empty() && choice.leaves.iter().all(is_known));
        for (leaf, text) in choice.leaves.into_iter().chain(spare) {
            add(&mut values, leaf, text, tool.tool);
        }
    }
    values.truncate(MOST);
    Requirements { values, conflict }
}

/// `The agent explicitly identifies the user's community` asks for the conclusion itself.
fn wants_the_user_named(criteria: &str) -> bool {
    let lower = criteria.to_ascii_lowercase();
    if !lower.contains("explicitly ") {
        return false;
    }
    ["explicitly identif", "explicitly nam", "explicitly label", "explicitly stat"].iter().any(|verb| {
        lower.find(verb).is_some_and(|at| lower[at..].split(['.', ',']).next().unwrap_or_default().contains("user"))
    })
}

fn declared(reading: &Reading<'_>, located: &[Located]) -> Vec<Required> {
    let mut values = Vec::new();
    for place in located {
        let Some(tool) = reading.tools.iter().find(|tool| tool.tool.tool_id == place.tool_id) else { continue };
        for leaf in tool.leaves.iter().filter(|leaf| leaf.pointer == place.pointer) {
            add(&mut values, leaf, leaf.text, tool.tool);
        }
    }
    values
}

fn add(values: &mut Vec<Required>, leaf: &ReadLeaf<'_>, text: &str, tool: &Tool) {
    let pointer = format!("/{}{}", tool.tool_id, leaf.pointer);
    match values.iter_mut().find(|known| known.value == text) {
        Some(known) => known.pointers.push(pointer),
        None => values.push(Required { value: text.to_owned(), pointers: vec![pointer] }),
    }
}

/// How a tool's forbidden values meet the criteria.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Clash {
    /// They are not demanded.
    None,
    /// The criteria name their key, and the tool has nothing else to give for it.
    OfKey,
    /// The criteria name the value itself, or every word of its key.
    OfValue,
}

/// What one tool gives.
struct Choice<'a> {
    /// Leaves with the text of them that is required.
    leaves: Vec<(&'a ReadLeaf<'a>, &'a str)>,
    /// It has a value that may be said under a key that the criteria name.
    answers_by_key: bool,
    clash: Clash,
    /// What the return is about.
    spare: Option<(&'a ReadLeaf<'a>, &'a str)>,
}

/// The leaves of one tool that are asked for, in document order; at least one if anything asks for the tool at all.
fn choose<'a>(demand: &Demand, index: usize, tool: &'a ReadTool<'_>, forbidden: &[Forbidden]) -> Choice<'a> {
    let scored = demand.score(index, tool);
    let form_in = |scored: &Scored<'_>| {
        let forms = forbidden.iter().filter(|form| words::contains(scored.leaf.stems, &form.stems));
        forms.map(|form| form.weak).min()
    };
    let (mut open, closed): (Vec<Scored<'_>>, Vec<Scored<'_>>) =
        scored.into_iter().partition(|scored| form_in(scored).is_none());
    let has_named = open.iter().any(|scored| scored.is_named);
    let answers_by_key = open.iter().any(|scored| scored.is_key_named);
    let clash = if closed
        .iter()
        .any(|scored| scored.is_key_spelled || !has_named && scored.is_value_named && form_in(scored) == Some(false))
    {
        Clash::OfValue
    } else if !has_named && closed.iter().any(|scored| scored.is_key_named) {
        Clash::OfKey
    } else {
        Clash::None
    };
    // Answers paraphrase sentences; where anything shorter is asked for, that is what must stand word by word.
    if open.iter().any(|scored| scored.score >= 2 && !scored.is_sentence) {
        open.retain(|scored| !scored.is_sentence);
    }
    let best = open.iter().map(|scored| scored.score).max().unwrap_or(0);
    // A single word of the goal is no choice.
    let mut kept = if best > 1 { ranked(&open, best.min(CHOSEN)) } else { Vec::new() };
    if kept.is_empty() && (best > 0 || demand.asks_for(index, tool)) {
        kept.extend(fallback(&open));
    }
    kept.sort_unstable();
    let text = |at: usize| (open[at].leaf, open[at].text);
    let others: Vec<usize> = (0..open.len()).filter(|at| !kept.contains(at)).collect();
    let spare = others.into_iter().find(|at| !open[*at].is_bookkeeping && !open[*at].is_sentence).map(text);
    Choice { leaves: kept.into_iter().map(text).collect(), answers_by_key, clash, spare }
}

/// Indices of the best leaves; a list that is asked for is taken whole, within limits.
fn ranked(scored: &[Scored<'_>], floor: u32) -> Vec<usize> {
    let mut order: Vec<usize> = (0..scored.len()).filter(|at| scored[*at].score >= floor).collect();
    order.sort_by_key(|at| (std::cmp::Reverse(scored[*at].score), *at));
    let Some(first) = order.first().copied() else { return order };
    let list = |at: usize| list_of(scored[at].leaf.pointer);
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
    let main = |sentences: bool| usable().find(|(_, scored)| scored.is_main && scored.is_sentence == sentences);
    let short = || usable().find(|(_, scored)| !scored.is_sentence);
    main(false).or_else(|| main(true)).or_else(short).or_else(|| usable().next()).map(|(at, _)| at)
}

/// The pointers that a provenance and a required value share.
pub(super) fn shares_pointer(provenance: &Provenance, required: &[Required]) -> bool {
    required.iter().flat_map(|value| &value.pointers).any(|pointer| provenance.pointers.contains(pointer))
}
