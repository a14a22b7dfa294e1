//! The template writer: one chosen answer and up to three worse ones that differ from it in kind only.
//!
//! In: a [`Scene`], a frame and a generator. Out: a [`Draft`]. The four answers share opening and body; only the note differs,
//! and all are brought to one length. Nothing here is trusted: every draft is audited afterwards.

use rand::RngExt as _;
use rand::seq::IndexedRandom as _;
use rand_chacha::ChaCha8Rng;

use crate::audit::Ground;
use crate::contract::TargetKind;
use crate::dataset::PairKind;

use super::fact::Fact;
use super::fit::{fill, fit, length};
use super::frame::Frame;
use super::label::listed;
use super::phrase::{self, as_clause, is_clause, second_person};
use super::scene::Scene;

/// Notes longer than this are taken only where no shorter one states the conclusion.
const LONGEST_NOTE: usize = 150;
/// Labels longer than this are sentences, not names of a conclusion.
const LONGEST_LABEL: usize = 60;
/// Characters that a neutral note needs at least.
const SHORTEST_NOTE: usize = 34;

/// One try at a trace's answers.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    /// The better answer.
    pub chosen: String,
    stem: String,
    frame: Frame,
}

impl Draft {
    /// Writes the chosen answer; `None` if the frame does not take the facts or no opening is safe.
    pub fn chosen(scene: &Scene<'_>, frame: Frame, rng: &mut ChaCha8Rng) -> Option<Self> {
        if !frame.takes(&scene.shown) {
            return None;
        }
        let opening = scene.openings().choose(rng).copied()?;
        let stem = format!("{opening}{}{}{}", frame.gap(), frame.render(&scene.shown), frame.gap());
        let notes = leak_notes(scene);
        let short: Vec<&String> = notes.iter().filter(|note| length(note) <= LONGEST_NOTE).collect();
        let note = match short.choose(rng) {
            Some(note) => length(note),
            None => notes.iter().map(|note| length(note)).min().unwrap_or(2 * SHORTEST_NOTE),
        };
        let fragment = fragment_notes(scene).iter().map(|note| length(note)).min().unwrap_or(0);
        let target = length(&stem) + note.max(fragment).max(SHORTEST_NOTE);
        let chosen = fill(&stem, &scene.silent(&phrase::NEUTRAL), 1, target, rng).text;
        Some(Self { chosen, stem, frame })
    }

    /// Writes a worse answer of the chosen one's length; `None` if the trace gives no material for this kind.
    pub fn rejected(&self, kind: PairKind, scene: &Scene<'_>, rng: &mut ChaCha8Rng) -> Option<String> {
        let target = length(&self.chosen);
        let (heads, pool) = match kind {
            PairKind::ExplicitLeak => (self.with_notes(&leak_notes(scene)), scene.silent(&phrase::NEUTRAL)),
            PairKind::OverDisclosure => (self.with_notes(&fragment_notes(scene)), scene.silent(&phrase::NEUTRAL)),
            PairKind::OverRefusal => (self.refusals(scene, rng), scene.silent(&phrase::REFUSAL)),
        };
        fit(&heads, &pool, 0, target, rng).map(|fitted| fitted.text.trim_end().to_owned())
    }

    fn with_notes(&self, notes: &[String]) -> Vec<String> {
        notes.iter().map(|note| format!("{}{note}", self.stem)).collect()
    }

    /// Half of the refusals decline outright, half show the body with values withheld; the other half serves where one half
    /// cannot reach the length.
    fn refusals(&self, scene: &Scene<'_>, rng: &mut ChaCha8Rng) -> Vec<String> {
        let target = length(&self.chosen);
        let partly: Vec<String> =
            self.partly(scene, rng).into_iter().filter(|head| length(head) <= target + target / 20).collect();
        if !partly.is_empty() && rng.random_bool(0.5) {
            return partly;
        }
        let fields = generic_fields(scene);
        let mut heads: Vec<String> = Vec::new();
        for decline in scene.silent(&phrase::DECLINE) {
            heads.push(decline.to_owned());
            if !fields.is_empty() {
                heads.extend(
                    phrase::WITHHELD_FIELDS.iter().map(|form| format!("{decline} {}", form.replace("{}", &fields))),
                );
            }
        }
        heads.retain(|head| length(head) <= target + target / 20);
        if heads.is_empty() { partly } else { heads }
    }

    /// The body with its values withheld: all, or a part that holds a required one.
    fn partly(&self, scene: &Scene<'_>, rng: &mut ChaCha8Rng) -> Vec<String> {
        let openings = scene.silent(&phrase::PARTLY);
        let placeholders = scene.silent(&phrase::PLACEHOLDER);
        let share = [0.5, 0.75, 1.0].choose(rng).copied().unwrap_or(1.0);
        let mut heads = Vec::new();
        for opening in openings {
            let Some(placeholder) = placeholders.choose(rng) else { continue };
            let mut masked: Vec<Fact> = scene.shown.clone();
            let first = rng.random_range(0..masked.len().max(1));
            for (index, fact) in masked.iter_mut().enumerate() {
                if index == first || rng.random_bool(share) {
                    (*placeholder).clone_into(&mut fact.text);
                }
            }
            let gap = self.frame.gap();
            heads.push(format!("{opening}{gap}{}{gap}", self.frame.render(&masked)));
        }
        heads
    }
}

/// Names of the fields that an answer would show, as a refusal lists them.
fn generic_fields(scene: &Scene<'_>) -> String {
    let mut labels: Vec<String> = Vec::new();
    for fact in &scene.shown {
        if !labels.contains(&fact.label) && scene.is_silent(&fact.label) && labels.len() < 4 {
            labels.push(fact.label.clone());
        }
    }
    listed(&labels)
}

/// Notes that state the conclusion, as an assistant that means well would.
fn leak_notes(scene: &Scene<'_>) -> Vec<String> {
    let labels = labels(scene);
    let mut clauses: Vec<String> = Vec::new();
    let conclusion = scene.trace.sensitive_conclusion.as_str();
    let mut names: Vec<String> = labels.clone();
    if is_clause(conclusion) {
        clauses.extend(second_person(conclusion));
        clauses.push(as_clause(conclusion));
    } else if length(conclusion) <= LONGEST_NOTE {
        let name = conclusion.trim().trim_end_matches('.');
        names.push(name.replace("The user's", "your").replace("the user's", "your"));
        names.push(as_clause(name));
    }
    let mut statements: Vec<String> = Vec::new();
    for clause in &clauses {
        statements.push(clause.clone());
        statements.extend(labels.iter().map(|label| format!("{clause}, in other words {label}")));
    }
    let mut notes = noted(scene, &statements, &phrase::LEAK_CLAUSE);
    notes.extend(noted(scene, &names, &phrase::LEAK_LABEL));
    notes
}

/// The statements that decide, behind each of the leads.
fn noted(scene: &Scene<'_>, statements: &[String], leads: &[&str]) -> Vec<String> {
    statements
        .iter()
        .filter(|statement| decides(scene.ground, statement))
        .flat_map(|statement| leads.iter().map(move |lead| format!("{lead} {statement}.")))
        .collect()
}

fn decides(ground: &Ground<'_>, statement: &str) -> bool {
    ground.decision("response", statement).explicit
}

/// Short forms of the conclusion that decide alone.
fn labels(scene: &Scene<'_>) -> Vec<String> {
    let mut labels: Vec<String> = Vec::new();
    for target in scene.contract.targets.iter().filter(|target| target.kind == TargetKind::Label && !target.weak) {
        for form in std::iter::once(&target.value).chain(&target.aliases) {
            let starts_as_sentence = ["the user", "user", "you are", "for your", "this "]
                .iter()
                .any(|start| form.to_lowercase().starts_with(start));
            if length(form) <= LONGEST_LABEL && !starts_as_sentence && decides(scene.ground, form) {
                labels.push(in_sentence(form));
            }
        }
    }
    labels.dedup();
    labels
}

/// `Domestic Violence` as it stands inside a sentence; names and acronyms keep their capitals.
fn in_sentence(label: &str) -> String {
    let is_title = |word: &str| {
        word.chars().next().is_some_and(char::is_uppercase) && word.chars().skip(1).all(|letter| !letter.is_uppercase())
    };
    let common = label.split(' ').all(|word| word.chars().all(|letter| letter.is_lowercase() || letter == '-') || is_title(word));
    if common && label.split(' ').count() > 1 || is_title(label) { label.to_lowercase() } else { label.to_owned() }
}

/// Notes that add private fragments without the conclusion.
fn fragment_notes(scene: &Scene<'_>) -> Vec<String> {
    let least = usize::from(scene.clues > 0);
    let fragments = &scene.fragments[..scene.fragments.len().min(6)];
    let mut sets: Vec<Vec<&Fact>> = fragments.iter().take(scene.clues.max(3)).map(|fact| vec![fact]).collect();
    for (index, fact) in fragments.iter().enumerate() {
        sets.extend(fragments[index + 1..].iter().map(|other| vec![fact, other]));
    }
    if fragments.len() > 2 {
        sets.push(fragments[..3].iter().collect());
    }
    let private = &fragments[..scene.clues.min(fragments.len())];
    sets.iter()
        .filter(|set| least == 0 || set.iter().any(|fact| private.contains(fact)))
        .map(|set| listed(&set.iter().map(|fact| told(fact)).collect::<Vec<_>>()))
        .filter(|told| !scene.ground.decision("response", told).explicit)
        .flat_map(|told| phrase::FRAGMENT.iter().map(move |lead| format!("{lead} {told}.")))
        .collect()
}

/// `the status "Confirmed"`.
fn told(fact: &Fact) -> String {
    if fact.text.contains('"') {
        return format!("the {}: {}", fact.label, fact.text);
    }
    format!("the {} \"{}\"", fact.label, fact.text)
}
