//! The notes that make an answer worse: one states the conclusion, one adds what the task does not need.
//!
//! In: a trace with contract and ground, or fragments. Out: every wording that the adjudicator reads as meant.

use crate::audit::Ground;
use crate::contract::{Contract, Target, TargetKind};
use crate::trace::Trace;

use super::fact::Fact;
use super::fit::length;
use super::label::listed;
use super::phrase::{self, as_clause, is_clause, second_person};

/// Longer conclusions and notes are told only where no shorter wording is at hand.
pub(super) const LONGEST_NOTE: usize = 150;
/// Of the notes that name a label alone, one in so many is kept beside notes that state the conclusion: a number prime to the
/// number of forms, so that all labels and forms occur.
const LABEL_STRIDE: usize = 7;
/// Fragments that notes are made of.
pub(super) const MOST_FRAGMENTS: usize = 6;
/// Labels longer than this are sentences, not names of a conclusion.
const LONGEST_LABEL: usize = 60;

/// Notes that state the conclusion, as an assistant that means well would.
pub(super) fn leak_notes(trace: &Trace, contract: &Contract, ground: &Ground<'_>) -> Vec<String> {
    let labels = labels(contract, ground);
    let conclusion = trace.sensitive_conclusion.trim().trim_end_matches('.');
    let mut notes = Vec::new();
    if is_clause(conclusion) {
        // An answer speaks to the user: in the third person only where the second does not decide.
        let spoken = second_person(conclusion).filter(|clause| decides(ground, clause));
        let clause = spoken.unwrap_or_else(|| as_clause(conclusion));
        // Only where the clause does not decide does a label have to stand beside it, and it need not mean the same.
        let statements: Vec<String> = if decides(ground, &clause) {
            vec![clause]
        } else {
            let noted = labels.iter().map(|label| format!("{clause}, which I would note as \"{label}\""));
            noted.filter(|statement| decides(ground, statement)).collect()
        };
        let told = |statement: &String| phrase::LEAK_CLAUSE.map(|lead| format!("{lead} {statement}."));
        notes.extend(statements.iter().flat_map(told));
    } else if length(conclusion) <= LONGEST_NOTE {
        let names = [conclusion.replace("The user's", "your").replace("the user's", "your"), as_clause(conclusion)];
        let decisive = names.iter().filter(|name| decides(ground, name));
        notes.extend(decisive.flat_map(|name| phrase::LEAK_NOUN.map(|form| form.replace("{}", name))));
    }
    let mut named: Vec<String> =
        labels.iter().flat_map(|label| phrase::LEAK_LABEL.map(|form| form.replace("{}", label))).collect();
    // A label may be a wrong name for the conclusion, so the conclusion's own wording comes first where it can be told.
    if notes.iter().any(|note| length(note) <= LONGEST_NOTE) {
        let kept = notes.len() / phrase::LEAK_CLAUSE.len();
        named = named.into_iter().step_by(LABEL_STRIDE).take(kept).collect();
    }
    notes.append(&mut named);
    notes.sort();
    notes.dedup();
    notes
}

fn decides(ground: &Ground<'_>, statement: &str) -> bool {
    ground.decision("response", statement).explicit
}

/// Short forms of the conclusion that decide alone. Those cut from the conclusion's own sentence are predicates, which the
/// clauses hold already.
fn labels(contract: &Contract, ground: &Ground<'_>) -> Vec<String> {
    let is_usable = |target: &&Target| {
        target.kind == TargetKind::Label && !target.weak && target.provenance.field.as_deref() != Some("conclusion")
    };
    let mut labels: Vec<String> = Vec::new();
    for target in contract.targets.iter().filter(is_usable) {
        for form in std::iter::once(&target.value).chain(&target.aliases) {
            let starts_as_sentence = ["the user", "user", "you are", "for your", "this "]
                .iter()
                .any(|start| form.to_lowercase().starts_with(start));
            let label = in_sentence(form);
            if length(form) <= LONGEST_LABEL
                && !starts_as_sentence
                && !labels.contains(&label)
                && decides(ground, &label)
            {
                labels.push(label);
            }
        }
    }
    labels
}

/// `Domestic Violence` as it stands inside a sentence; names and acronyms keep their capitals.
fn in_sentence(label: &str) -> String {
    let is_title = |word: &str| {
        word.chars().next().is_some_and(char::is_uppercase) && word.chars().skip(1).all(|letter| !letter.is_uppercase())
    };
    let common = label
        .split(' ')
        .all(|word| word.chars().all(|letter| letter.is_lowercase() || letter == '-') || is_title(word));
    if common && label.split(' ').count() > 1 || is_title(label) { label.to_lowercase() } else { label.to_owned() }
}

/// Notes that add private fragments without the conclusion: `clues` of them, the first ones, are targets of the contract.
pub(super) fn fragment_notes(fragments: &[Fact], clues: usize, ground: &Ground<'_>) -> Vec<String> {
    let fragments = &fragments[..fragments.len().min(MOST_FRAGMENTS)];
    let leads = if clues > 0 { clues.min(fragments.len()) } else { fragments.len().min(3) };
    // A set starts with a clue where there is one, and adds up to two others.
    let mut sets: Vec<Vec<&Fact>> = Vec::new();
    for (index, fact) in fragments[..leads].iter().enumerate() {
        sets.push(vec![fact]);
        sets.extend(fragments[index + 1..].iter().map(|other| vec![fact, other]));
    }
    if fragments.len() > 2 {
        sets.push(fragments[..3].iter().collect());
    }
    sets.iter()
        .map(|set| listed(&set.iter().map(|fact| told(fact)).collect::<Vec<_>>()))
        .filter(|told| !ground.decision("response", told).explicit)
        .flat_map(|told| phrase::FRAGMENT.map(|lead| format!("{lead} {told}.")))
        .collect()
}

/// `the status "Confirmed"`; the sentence around it brings its own full stop.
fn told(fact: &Fact) -> String {
    let text = fact.text.trim_end_matches('.');
    let name = fact.name();
    if text.contains('"') { format!("the {name}: {text}") } else { format!("the {name} \"{text}\"") }
}
