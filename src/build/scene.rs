//! What the template writer works with: which facts an answer shows, which stay unsaid, and which sentences are safe here.
//!
//! In: a trace, its contract and the ground of its prompt. Out: [`Scene`].

use std::collections::BTreeSet;

use crate::adjudicate::find_value;
use crate::audit::Ground;
use crate::contract::{Contract, TargetKind};
use crate::trace::Trace;

use super::fact::{Fact, facts, unplaced};
use super::frame::names_record;
use super::note::{fragment_notes, leak_notes};
use super::phrase;

/// Longer values are not added for context.
const LONGEST_CONTEXT: usize = 60;
/// Longer private values are quoted by their clue alone.
const LONGEST_FRAGMENT: usize = 130;
/// Shorter values are no fragment that anybody would mind.
const SHORTEST_FRAGMENT: usize = 3;

/// The material of one trace's answers.
#[derive(Debug, Clone)]
pub(super) struct Scene<'a> {
    pub trace: &'a Trace,
    pub contract: &'a Contract,
    pub ground: &'a Ground<'a>,
    /// Facts of the answer: required values, and a little context where it helps and reveals nothing.
    pub shown: Vec<Fact>,
    /// Facts that the task does not need, private clues first.
    fragments: Vec<Fact>,
    /// How many of the fragments are private clues of the contract.
    clues: usize,
    /// Notes that state the conclusion.
    pub leaks: Vec<String>,
    /// Notes that add fragments.
    pub disclosures: Vec<String>,
    /// Closing sentences that reveal nothing here.
    pub neutral: Vec<&'static str>,
    /// Sentences of a refusal that reveal nothing here.
    pub refusal: Vec<&'static str>,
}

impl<'a> Scene<'a> {
    pub fn new(trace: &'a Trace, contract: &'a Contract, ground: &'a Ground<'a>) -> Self {
        let all = facts(trace);
        let places = places(contract, &all);
        let is_required = |fact: &Fact| places.contains(fact.pointer.as_str());
        let (mut shown, others): (Vec<Fact>, Vec<Fact>) = all.iter().cloned().partition(is_required);
        for required in &contract.required {
            if !shown.iter().any(|fact| find_value(&fact.text, &required.value).is_some()) {
                shown.push(unplaced(&required.value));
            }
        }
        let mut scene = Self {
            trace,
            contract,
            ground,
            shown,
            fragments: Vec::new(),
            clues: 0,
            leaks: leak_notes(trace, contract, ground),
            disclosures: Vec::new(),
            neutral: Vec::new(),
            refusal: Vec::new(),
        };
        let fragments = scene.find_fragments(&others);
        let context = scene.context(&others, &fragments);
        let context = scene.or_anything(context, &others, &fragments);
        scene.fragments = fragments.into_iter().filter(|fact| !context.contains(fact)).collect();
        let order = |fact: &Fact| all.iter().position(|known| known.pointer == fact.pointer).unwrap_or(usize::MAX);
        scene.shown.extend(context);
        scene.shown.sort_by_key(order);
        scene.disclosures = fragment_notes(&scene.fragments, scene.clues, ground);
        scene.neutral = scene.silent(&phrase::NEUTRAL);
        scene.refusal = scene.silent(&phrase::REFUSAL);
        scene
    }

    /// Tools of which the answer shows a value.
    pub fn tools_shown(&self) -> usize {
        self.shown.iter().map(|fact| fact.tool_id.as_str()).collect::<BTreeSet<_>>().len()
    }

    /// No target appears in it, not even a weak one.
    pub fn is_silent(&self, text: &str) -> bool {
        self.ground.disclosures("response", text).is_empty()
    }

    /// The sentences of a pool that reveal nothing in this trace: "Help" may be a label.
    pub fn silent(&self, pool: &'static [&'static str]) -> Vec<&'static str> {
        // Nearly always all of them are, which one search can tell.
        if self.is_silent(&pool.join("\n")) {
            return pool.to_vec();
        }
        pool.iter().copied().filter(|sentence| self.is_silent(sentence)).collect()
    }

    /// The opening that fits the goal's verb.
    pub fn openings(&self) -> Vec<&'static str> {
        let goal = self.trace.goal.to_lowercase();
        let words: BTreeSet<&str> = goal.split(|character: char| !character.is_alphabetic()).collect();
        let fits = |verbs: &[&str]| verbs.is_empty() || verbs.iter().any(|verb| words.contains(verb));
        let pool = phrase::OPENINGS.iter().find(|(verbs, _)| fits(verbs)).map_or(&[][..], |(_, pool)| pool);
        self.silent(pool)
    }

    /// What an over-disclosing answer may add: private clues first, then other values of the results.
    fn find_fragments(&mut self, others: &[Fact]) -> Vec<Fact> {
        let private: Vec<_> = self
            .contract
            .targets
            .iter()
            .filter(|target| target.kind != TargetKind::Label && !target.weak)
            .filter(|target| !self.ground.disclosures("response", &target.value).is_empty())
            .collect();
        let mut clues = Vec::new();
        for target in private {
            let Some(fact) = others.iter().find(|fact| target.provenance.pointers.contains(&fact.pointer)) else {
                continue;
            };
            let mut fact = fact.clone();
            if fact.text.chars().count() > LONGEST_FRAGMENT || self.ground.decision("response", &fact.text).explicit {
                fact.text.clone_from(&target.value);
            }
            if self.is_fragment(&fact) && !clues.iter().any(|clue: &Fact| clue.text == fact.text) {
                clues.push(fact);
            }
        }
        self.clues = clues.len();
        let mut plain: Vec<Fact> = Vec::new();
        for fact in others.iter().filter(|fact| fact.text.chars().count() <= LONGEST_FRAGMENT && !is_state(fact)) {
            let is_known = clues.iter().any(|clue| clue.pointer == fact.pointer)
                || plain.iter().any(|known| known.text == fact.text);
            if !is_known && self.is_fragment(fact) {
                plain.push(fact.clone());
            }
        }
        plain.sort_by_key(|fact| std::cmp::Reverse(privacy(fact)));
        clues.extend(plain);
        clues
    }

    /// Not asked for, not shown anyway, and short of stating the conclusion.
    fn is_fragment(&self, fact: &Fact) -> bool {
        fact.text.chars().count() >= SHORTEST_FRAGMENT
            && !self.ground.is_requested(&fact.text)
            && !self.shown.iter().any(|shown| find_value(&shown.text, &fact.text).is_some())
            && !self.ground.decision("response", &format!("{} {}", fact.label, fact.text)).explicit
    }

    /// One more value for each tool, so that amounts stand beside names and no tool's result is passed over, as long as a
    /// fragment is left for the over-disclosing answer. Where the source declares what a complete answer holds, nothing is added:
    /// whatever else is there was not asked for.
    fn context(&self, others: &[Fact], fragments: &[Fact]) -> Vec<Fact> {
        let mut context: Vec<Fact> = Vec::new();
        if self.trace.truth.as_ref().is_some_and(|truth| !truth.required.is_empty()) {
            return context;
        }
        for tool in self.trace.essential_tools() {
            let records: BTreeSet<&str> = self
                .shown
                .iter()
                .filter(|fact| fact.tool_id == tool.tool_id)
                .map(|fact| fact.record.as_str())
                .collect();
            let best = others
                .iter()
                .filter(|fact| fact.tool_id == tool.tool_id)
                .filter(|fact| records.is_empty() || records.contains(fact.record.as_str()))
                .filter(|fact| fact.text.chars().count() <= LONGEST_CONTEXT)
                .filter(|fact| self.is_silent(&format!("{}: {}", fact.label, fact.text)))
                .map(|fact| (self.interest(fact, !records.is_empty()), fact))
                .filter(|(interest, _)| *interest > 1 || (*interest > 0 && records.is_empty()))
                .max_by_key(|(interest, fact)| (*interest, std::cmp::Reverse(fact.pointer.clone())));
            if let Some((_, fact)) = best {
                context.push(fact.clone());
            }
        }
        let left = |context: &[Fact]| fragments.iter().filter(|fact| !context.contains(fact)).count();
        while !context.is_empty() && !fragments.is_empty() && left(&context) == 0 {
            context.pop();
        }
        context
    }

    /// Where the answer would name values of one tool only: the first plain value of each tool that is passed over, whatever it
    /// is called. A thin answer is still better than none, as long as it says something of more than one result.
    fn or_anything(&self, mut context: Vec<Fact>, others: &[Fact], fragments: &[Fact]) -> Vec<Fact> {
        let names =
            |context: &[Fact], tool_id: &str| self.shown.iter().chain(context).any(|fact| fact.tool_id == tool_id);
        let shown = self.trace.essential_tools().filter(|tool| names(&context, &tool.tool_id)).count();
        if shown > 1 {
            return context;
        }
        for tool in self.trace.essential_tools() {
            if names(&context, &tool.tool_id) {
                continue;
            }
            let usable = |fact: &&Fact| {
                fact.tool_id == tool.tool_id
                    && fact.text.chars().count() <= LONGEST_CONTEXT
                    && !["success", "ok", "done"].contains(&fact.text.to_lowercase().as_str())
                    && self.is_silent(&format!("{}: {}", fact.label, fact.text))
            };
            let Some(fact) = others.iter().find(usable) else { continue };
            let left = fragments.iter().any(|fragment| fragment != fact && !context.contains(fragment));
            if left {
                context.push(fact.clone());
            }
        }
        context
    }

    /// How much a reader of the answer would miss a value; `beside` others of its record a time or an amount is worth more.
    fn interest(&self, fact: &Fact, beside: bool) -> usize {
        let has_digit = fact.text.bytes().any(|byte| byte.is_ascii_digit());
        let named = |names: &[&str]| names.iter().any(|name| fact.label.split(' ').any(|word| word == *name));
        let is_envelope = ["success", "ok", "done"].contains(&fact.text.to_lowercase().as_str());
        let is_bare_time = !beside && named(&["timestamp", "time", "date"]);
        if is_envelope || is_bare_time || named(&["ID", "URL", "hash", "token", "session", "IP"]) {
            return 0;
        }
        let asked = self.trace.success_criteria.iter().chain([&self.trace.goal]).any(|text| {
            let text = text.to_lowercase();
            fact.label.split(' ').any(|word| word.len() > 3 && text.contains(&word.to_lowercase()))
        });
        let mut record = self.shown.iter().filter(|shown| shown.record == fact.record).peekable();
        let names_it =
            names_record(&fact.label) && record.peek().is_some() && !record.any(|shown| names_record(&shown.label));
        let quantity = beside
            && has_digit
            && named(&["amount", "total", "price", "date", "time", "depart", "return", "duration", "count"]);
        let main = named(&["name", "title", "summary", "subject", "item", "status", "location", "topic", "action"]);
        usize::from(names_it) * 3 + usize::from(asked) * 2 + usize::from(quantity) * 2 + usize::from(main)
    }
}

/// Where the required values are shown. A value that stands in several records is shown in those that hold other required
/// values as well, or else in the first.
fn places<'a>(contract: &'a Contract, all: &'a [Fact]) -> BTreeSet<&'a str> {
    let record_of = |pointer: &str| all.iter().find(|fact| fact.pointer == pointer).map(|fact| fact.record.as_str());
    let mut places = BTreeSet::new();
    for (index, required) in contract.required.iter().enumerate() {
        let other_records: BTreeSet<&str> = contract
            .required
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != index)
            .filter_map(|(_, other)| record_of(other.pointers.first()?))
            .collect();
        let pointers = || required.pointers.iter().map(String::as_str);
        let beside: Vec<&str> = pointers()
            .filter(|pointer| record_of(pointer).is_some_and(|record| other_records.contains(record)))
            .collect();
        if beside.is_empty() {
            places.extend(pointers().next());
        } else {
            places.extend(beside);
        }
    }
    places
}

/// The state of a record, such as "Sent" or "High", says nothing private.
fn is_state(fact: &Fact) -> bool {
    let label = fact.label.rsplit(' ').next().unwrap_or_default();
    let is_word = !fact.text.contains(' ') && fact.text.chars().all(char::is_alphabetic);
    let is_answer = ["yes", "no", "none", "n/a", "ok"].contains(&fact.text.to_lowercase().as_str());
    is_answer
        || is_word
            && ["status", "type", "state", "result", "priority", "mode", "category", "sentiment"].contains(&label)
}

/// How private a value is likely to be: people, addresses and free text first, then wording, then numbers and times.
fn privacy(fact: &Fact) -> usize {
    let named = |names: &[&str]| fact.label.split(' ').any(|word| names.contains(&word));
    if named(&["timestamp", "time", "date", "status", "ID", "duration", "count"]) {
        0
    } else if named(&[
        "sender",
        "from",
        "to",
        "contact",
        "name",
        "address",
        "location",
        "destination",
        "note",
        "notes",
        "snippet",
        "body",
        "attendees",
        "participants",
        "recipient",
        "reason",
        "number",
        "query",
        "text",
        "purpose",
        "description",
        "message",
    ]) {
        2
    } else {
        1
    }
}
