//! What the template writer works with: which facts an answer shows, which stay unsaid, and which sentences are safe here.
//!
//! In: a trace, its contract and the ground of its prompt. Out: [`Scene`].

use std::collections::BTreeSet;

use rand::seq::SliceRandom as _;
use rand_chacha::ChaCha8Rng;

use crate::adjudicate::find_value;
use crate::audit::{Ground, Text};
use crate::contract::{Contract, TargetKind};
use crate::trace::Trace;

use super::fact::{Fact, facts, unplaced};
use super::form;
use super::frame::Frame;
use super::label::singular;
use super::note::{MOST_FRAGMENTS, fragment_notes, leak_notes};
use super::phrase;
use super::privacy::Privacy;

/// Longer private values are quoted by their clue alone.
const LONGEST_FRAGMENT: usize = 130;
/// Longer values are not shown for their names alone.
const LONGEST_NAMED: usize = 60;
/// Shorter values are no fragment that anybody would mind.
const SHORTEST_FRAGMENT: usize = 3;

/// The material of one trace's answers.
#[derive(Debug, Clone)]
pub(super) struct Scene<'a> {
    pub trace: &'a Trace,
    pub contract: &'a Contract,
    pub ground: &'a Ground<'a>,
    /// Facts of the answer: the required values, and where these are derived from prose what the request names besides. One more
    /// value a tool, for context, taught models to list whole records: the trained model told unasked clues in 13 of 48 answers
    /// where it had told them in 3.
    pub shown: Vec<Fact>,
    /// The request is a form, and `shown` are its fields.
    is_form: bool,
    /// Their values as one text.
    told: Text<'static>,
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
        let request = Request::of(trace);
        let is_harmless =
            |fact: &Fact| ground.disclosures("response", &format!("{} {}", fact.label, fact.text)).is_empty();
        let is_shown = |fact: &Fact| {
            places.contains(fact.pointer.as_str())
                || request.names(fact) && fact.text.chars().count() <= LONGEST_NAMED && is_harmless(fact)
        };
        let (mut shown, mut others): (Vec<Fact>, Vec<Fact>) = all.iter().cloned().partition(is_shown);
        // What is asked for by name is no more than the task needs, however private.
        others.retain(|fact| !request.names(fact));
        for fact in &mut shown {
            narrow(fact, contract);
        }
        for required in &contract.required {
            let holds = |fact: &Fact| fact.text == required.value || find_value(&fact.text, &required.value).is_some();
            if !shown.iter().any(holds) {
                shown.push(unplaced(&required.value));
            }
        }
        let is_form = form::arrange(&mut shown, &trace.goal);
        let told = Text::new(shown.iter().map(|fact| fact.text.as_str()).collect::<Vec<_>>().join("\n"));
        let mut scene = Self {
            trace,
            contract,
            ground,
            shown,
            is_form,
            told,
            fragments: Vec::new(),
            clues: 0,
            leaks: leak_notes(trace, contract, ground),
            disclosures: Vec::new(),
            neutral: Vec::new(),
            refusal: Vec::new(),
        };
        scene.fragments = scene.find_fragments(&others);
        scene.disclosures = fragment_notes(&scene.fragments, scene.clues, ground);
        let shared = scene.silent(&phrase::SHARED);
        scene.neutral = [scene.silent(&phrase::NEUTRAL), shared.clone()].concat();
        scene.refusal = [scene.silent(&phrase::REFUSAL), shared].concat();
        scene
    }

    /// The request is a form, which the answer fills in.
    pub fn is_form(&self) -> bool {
        self.is_form
    }

    /// The frames to try, in this order: a form is filled in, and anything else is told in all frames by turns.
    pub fn frames(&self, rng: &mut ChaCha8Rng) -> [Frame; Frame::ALL.len()] {
        if self.is_form {
            return [Frame::Form; Frame::ALL.len()];
        }
        let mut frames = Frame::ALL;
        frames.shuffle(rng);
        frames
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

    /// What an over-disclosing answer may add: private clues first, then other values that tell of a person.
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
        // Of declared traces every entry is a personal record, so that even an ordinary one is more than the task needs.
        let least = if self.trace.truth.is_some() { Privacy::Ordinary } else { Privacy::Deed };
        let is_plain = |fact: &&Fact| fact.text.chars().count() <= LONGEST_FRAGMENT && Privacy::of(fact) >= least;
        let mut plain: Vec<&Fact> = others.iter().filter(is_plain).collect();
        plain.sort_by_key(|fact| std::cmp::Reverse(Privacy::of(fact)));
        for fact in plain {
            let is_known = clues.iter().any(|known| known.pointer == fact.pointer || known.text == fact.text);
            if clues.len() < MOST_FRAGMENTS && !is_known && self.is_fragment(fact) {
                clues.push(fact.clone());
            }
        }
        clues
    }

    /// Not asked for, not shown anyway, and short of stating the conclusion.
    fn is_fragment(&self, fact: &Fact) -> bool {
        fact.text.chars().count() >= SHORTEST_FRAGMENT
            && !self.ground.is_requested(&fact.text)
            && !self.told.holds(&fact.text)
            && !self.ground.decision("response", &format!("{} {}", fact.label, fact.text)).explicit
    }
}

/// Words of a request, in the singular; none where the trace declares what its task needs.
struct Request(BTreeSet<String>);

impl Request {
    fn of(trace: &Trace) -> Self {
        let goal = if trace.truth.is_some() { "" } else { &trace.goal };
        Self(words(goal).collect())
    }

    /// Whether it names the fact: "check the expiry of my agreement" asks for what stands under `expiry`.
    fn names(&self, fact: &Fact) -> bool {
        let mut words = words(&fact.label).peekable();
        words.peek().is_some() && words.all(|word| self.0.contains(&word))
    }
}

fn words(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|character: char| !character.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(|word| singular(&word.to_lowercase()))
}

/// A leaf of which one part is required is shown as that part.
fn narrow(fact: &mut Fact, contract: &Contract) {
    let mut asked = contract.required.iter().filter(|required| required.pointers.contains(&fact.pointer));
    if let (Some(only), None) = (asked.next(), asked.next())
        && fact.text.contains(&only.value)
    {
        fact.text.clone_from(&only.value);
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
