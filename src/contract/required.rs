//! Required values: what a complete answer holds, taken from the returns of the essential tools.
//!
//! In: a trace and its labels. Out: a small set of values (at most [`MOST`]), chosen because the criteria or the goal name the
//! value, its key, its tool or its kind; and whether the criteria demand what the labels forbid.

use std::collections::BTreeSet;

use super::words;
use super::{Provenance, Required, Target};
use crate::trace::{Leaf, LeafKind, Located, Tool, Trace, leaves};

/// Values in one contract.
const MOST: usize = 8;
/// Values from one tool, unless the criteria name more of them word by word.
const MOST_OF_TOOL: usize = 2;
/// Characters: nobody repeats longer texts word by word.
const LONGEST: usize = 90;
/// Words of a text that is a phrase rather than a sentence.
const LONGEST_PHRASE: usize = 7;
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
pub(super) fn requirements(trace: &Trace, labels: &[Target]) -> Requirements {
    if let Some(truth) = &trace.truth
        && !truth.required.is_empty()
    {
        return Requirements { values: declared(trace, &truth.required), conflict: false };
    }
    let demand = Demand::of(trace);
    let forbidden = forbidden(labels);
    let is_forbidden = |text: &str| {
        let stems = words::stems(text);
        forbidden.iter().any(|form| words::contains(&stems, form))
    };
    let mut conflict = is_forbidden(&demand.criteria_text);
    let mut values: Vec<Required> = Vec::new();
    for tool in trace.essential_tools() {
        let (taken, forbidden): (Vec<Scored>, Vec<Scored>) =
            demand.choose(tool).into_iter().partition(|scored| !is_forbidden(&scored.leaf.text));
        // Only values that the criteria themselves name are demanded.
        conflict |= forbidden.iter().any(|scored| scored.named);
        for scored in taken {
            add(&mut values, &scored.leaf, tool);
        }
    }
    values.truncate(MOST);
    Requirements { values, conflict }
}

fn declared(trace: &Trace, located: &[Located]) -> Vec<Required> {
    let mut values = Vec::new();
    for place in located {
        let Some(tool) = trace.tool(&place.tool_id) else { continue };
        for leaf in leaves(&tool.return_text).iter().filter(|leaf| leaf.pointer == place.pointer) {
            add(&mut values, leaf, tool);
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

/// Stems of the wordings that the disclosure criteria forbid; the conclusion's own words are prose, not a wording to avoid.
fn forbidden(labels: &[Target]) -> Vec<Vec<String>> {
    let quoted = |target: &&Target| target.provenance.field.as_deref() != Some("conclusion");
    labels
        .iter()
        .filter(quoted)
        .flat_map(|target| std::iter::once(&target.value).chain(&target.aliases))
        .map(|form| words::stems(form))
        .collect()
}

/// A leaf with how strongly it is asked for.
struct Scored {
    leaf: Leaf,
    score: u32,
    /// The criteria name its value or key.
    named: bool,
}

/// What the criteria and the goal ask for.
struct Demand {
    criteria_text: String,
    criteria: BTreeSet<String>,
    goal: BTreeSet<String>,
}

impl Demand {
    fn of(trace: &Trace) -> Self {
        let criteria = trace.success_criteria.as_deref().unwrap_or_default();
        // What must be done "without naming" something is no demand for it.
        let criteria_text = criteria.split(" without ").next().unwrap_or(criteria).to_owned();
        Self { criteria: words::content(&criteria_text), goal: words::content(&trace.goal), criteria_text }
    }

    /// The leaves of one tool that are asked for, in document order; at least one if anything asks for the tool at all.
    fn choose(&self, tool: &Tool) -> Vec<Scored> {
        let name = words::content(&format!("{} {}", tool.name, tool.description));
        let asked = !name.is_disjoint(&self.criteria) || !name.is_disjoint(&self.goal);
        let mut scored: Vec<Scored> = leaves(&tool.return_text)
            .into_iter()
            .filter(|leaf| leaf.kind != LeafKind::Constant && is_usable(&leaf.text))
            .map(|leaf| self.score(leaf))
            .filter(|scored| scored.score > 0)
            .collect();
        // Answers paraphrase sentences; where anything shorter is asked for, that is what must stand word by word.
        if scored.iter().any(|scored| scored.score >= 2 && !is_sentence(&scored.leaf.text)) {
            scored.retain(|scored| !is_sentence(&scored.leaf.text));
        }
        let best = scored.iter().map(|scored| scored.score).max().unwrap_or(0);
        let floor = if best >= CHOSEN {
            CHOSEN
        } else if asked || best >= 2 {
            best
        } else {
            return Vec::new();
        };
        let mut ranked: Vec<(u32, usize)> =
            scored.iter().enumerate().map(|(index, scored)| (scored.score, index)).collect();
        ranked.sort_by_key(|(score, index)| (std::cmp::Reverse(*score), *index));
        let kept: BTreeSet<usize> = ranked
            .into_iter()
            .filter(|(score, _)| *score >= floor)
            .take(MOST_OF_TOOL)
            .map(|(_, index)| index)
            .collect();
        let mut index = 0;
        scored.retain(|_| {
            index += 1;
            kept.contains(&(index - 1))
        });
        scored
    }

    fn score(&self, leaf: Leaf) -> Scored {
        let value = words::content(&leaf.text);
        let key = words::content(&leaf.key);
        let of_value = |words: &BTreeSet<String>| value.intersection(words).count();
        let all_in = |words: &BTreeSet<String>| !value.is_empty() && value.is_subset(words);
        let key_in = |words: &BTreeSet<String>| !key.is_disjoint(words);
        let kind = self.asks_for_kind(&leaf);
        let mut score = 0;
        score += if all_in(&self.criteria) { 4 } else { 2 * of_value(&self.criteria).min(2) as u32 };
        score += if all_in(&self.goal) { 2 } else { of_value(&self.goal).min(2) as u32 };
        score += if key_in(&self.criteria) { 3 } else { u32::from(key_in(&self.goal)) };
        score += if kind { 2 } else { 0 };
        let named = all_in(&self.criteria) || key_in(&self.criteria) || of_value(&self.criteria) >= 2;
        // Bookkeeping is asked for only by name.
        if is_bookkeeping(&leaf.key) && !key_in(&self.criteria) && !all_in(&self.criteria) && !kind {
            score = 0;
        } else if is_main(&leaf.key) {
            score += 1;
        }
        Scored { leaf, score, named }
    }

    /// "flight times" asks for times, "total cost" for amounts.
    fn asks_for_kind(&self, leaf: &Leaf) -> bool {
        let asks = |names: &[&str]| names.iter().any(|name| self.criteria.contains(&words::stem(name)));
        let text = leaf.text.as_str();
        let has_digit = text.chars().any(|character| character.is_ascii_digit());
        let is_money = has_digit
            && (text.contains(['$', '€', '£'])
                || is_named(
                    &leaf.key,
                    &["amount", "price", "cost", "total", "balance", "fee", "copay", "salary", "income"],
                ));
        let is_time = has_digit
            && (text.contains(':')
                || is_named(&leaf.key, &["date", "time", "timestamp", "day", "due", "deadline", "depart", "return"]));
        (is_money
            && asks(&[
                "amount",
                "cost",
                "price",
                "total",
                "expense",
                "payment",
                "fee",
                "charge",
                "balance",
                "withdrawal",
                "spending",
                "transfer",
            ]))
            || (is_time && asks(&["time", "times", "date", "dates", "schedule", "deadline", "appointment", "timeline"]))
            || (has_digit
                && is_named(&leaf.key, &["count", "quantity", "frequency", "duration"])
                && asks(&["count", "number", "volume", "frequency", "duration"]))
    }
}

fn is_sentence(text: &str) -> bool {
    words::words(text).len() > LONGEST_PHRASE
}

/// A value that can be looked for in an answer.
fn is_usable(text: &str) -> bool {
    let length = text.chars().count();
    let is_number = text.chars().all(|character| character.is_ascii_digit());
    let is_constant = matches!(
        text.to_ascii_lowercase().as_str(),
        "success" | "ok" | "query" | "today" | "tomorrow" | "now" | "true" | "false" | "yes" | "no" | "none" | "n/a"
    );
    (2..=LONGEST).contains(&length)
        && text.chars().any(char::is_alphanumeric)
        && !is_constant
        && !(is_number && length < 2)
}

/// Keys that hold what a return is about.
fn is_main(key: &str) -> bool {
    is_named(
        key,
        &[
            "title", "name", "summary", "subject", "item", "merchant", "amount", "content", "query", "location",
            "event", "action", "status", "topic", "result", "label",
        ],
    )
}

/// Keys that hold bookkeeping.
fn is_bookkeeping(key: &str) -> bool {
    is_named(
        key,
        &[
            "id",
            "uuid",
            "hash",
            "lat",
            "long",
            "lng",
            "lon",
            "timestamp",
            "session",
            "token",
            "ip",
            "ua",
            "url",
            "code",
            "created",
            "updated",
            "size",
            "version",
        ],
    )
}

fn is_named(key: &str, names: &[&str]) -> bool {
    words::words(key).iter().any(|word| names.contains(&word.as_str()))
}

/// The pointers that a provenance and a required value share.
pub(super) fn shares_pointer(provenance: &Provenance, required: &[Required]) -> bool {
    required.iter().flat_map(|value| &value.pointers).any(|pointer| provenance.pointers.contains(pointer))
}
