//! The template writer: one chosen answer and up to three worse ones that differ from it in kind only.
//!
//! In: a [`Scene`], a frame and a generator. Out: a [`Draft`]. The four answers share opening and body; only the note differs,
//! and all are brought to one length. Nothing here is trusted: every draft is audited afterwards.

use rand::RngExt as _;
use rand::seq::IndexedRandom as _;
use rand_chacha::ChaCha8Rng;

use crate::dataset::PairKind;

use super::fact::Fact;
use super::fit::{fill, fit, length};
use super::frame::Frame;
use super::label::listed;
use super::note::LONGEST_NOTE;
use super::phrase;
use super::scene::Scene;

/// Characters that a neutral note needs at least.
const SHORTEST_NOTE: usize = 34;
/// Characters of a short closing sentence.
const CLOSING: usize = 40;

/// One try at a trace's answers.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    /// The better answer.
    pub chosen: String,
    stem: String,
    frame: Frame,
}

impl Draft {
    /// Writes the chosen answer, of a length where one is given and can be reached; `None` if the frame does not take the facts
    /// or no opening is safe.
    pub fn chosen(scene: &Scene<'_>, frame: Frame, wanted: Option<usize>, rng: &mut ChaCha8Rng) -> Option<Self> {
        if !frame.takes(&scene.shown) {
            return None;
        }
        let opening = scene.openings().choose(rng).copied()?;
        let stem = format!("{opening}{}{}{}", frame.gap(), frame.render(&scene.shown), frame.gap());
        Some(Self::on(stem, frame, scene, wanted, rng))
    }

    /// Closes an answer that a model proposed.
    pub fn closed(content: &str, scene: &Scene<'_>, wanted: Option<usize>, rng: &mut ChaCha8Rng) -> Self {
        let gap = if content.contains('\n') { "\n\n" } else { " " };
        Self::on(format!("{content}{gap}"), Frame::Prose, scene, wanted, rng)
    }

    /// A stem with closing sentences as long as what a worse answer would say in their place.
    fn on(stem: String, frame: Frame, scene: &Scene<'_>, wanted: Option<usize>, rng: &mut ChaCha8Rng) -> Self {
        let notes = &scene.leaks;
        let short: Vec<&String> = notes.iter().filter(|note| length(note) <= LONGEST_NOTE).collect();
        let note = match short.choose(rng) {
            Some(note) => length(note),
            None => notes.iter().map(|note| length(note)).min().unwrap_or(2 * SHORTEST_NOTE),
        };
        let fragment = scene.disclosures.iter().map(|note| length(note)).min().unwrap_or(0);
        // Room for a closing sentence behind what a worse answer adds, so that closings mark no kind.
        let usual = length(&stem) + note.max(fragment).max(SHORTEST_NOTE) + CLOSING;
        let target = wanted.filter(|wanted| *wanted >= length(&stem) + SHORTEST_NOTE).unwrap_or(usual);
        let chosen = fill(&stem, &scene.neutral, 1, target, rng).text;
        Self { chosen, stem, frame }
    }

    /// What the worse answers share with the chosen one.
    pub fn stem(&self) -> &str {
        &self.stem
    }

    /// Takes an answer of a real run as the chosen one. What follows its last needed sentence is where the worse answers differ.
    pub fn of_text(content: &str, scene: &Scene<'_>) -> Self {
        let ends = content.match_indices(['.', '!', '?']).map(|(at, stop)| at + stop.len());
        let needed = ends
            .filter(|end| content[*end..].starts_with([' ', '\n']))
            .find(|end| scene.ground.is_complete(&content[..*end]))
            .unwrap_or(content.len());
        let gap = if content[needed..].starts_with('\n') { "\n\n" } else { " " };
        Self { chosen: content.to_owned(), stem: format!("{}{gap}", &content[..needed]), frame: Frame::Prose }
    }

    /// Writes a worse answer of the chosen one's length; `None` if the trace gives no material for this kind.
    pub fn rejected(&self, kind: PairKind, scene: &Scene<'_>, rng: &mut ChaCha8Rng) -> Option<String> {
        let target = length(&self.chosen);
        let (heads, pool) = match kind {
            PairKind::ExplicitLeak => (self.with_notes(&scene.leaks), scene.neutral.as_slice()),
            PairKind::OverDisclosure => (self.with_notes(&scene.disclosures), scene.neutral.as_slice()),
            PairKind::OverRefusal => (self.refusals(scene, rng), scene.refusal.as_slice()),
        };
        fit(&heads, pool, 0, target, rng).map(|fitted| fitted.text.trim_end().to_owned())
    }

    /// Writes an answer that states the conclusion, at times after private fragments, for a model without safeguards.
    pub fn leaking(&self, scene: &Scene<'_>, with_fragment: bool, rng: &mut ChaCha8Rng) -> Option<String> {
        let shortest = scene.leaks.iter().map(|note| length(note)).min()?;
        let limit = shortest.max(LONGEST_NOTE);
        let leaks: Vec<&String> = scene.leaks.iter().filter(|note| length(note) <= limit).collect();
        let leak = leaks.choose(rng)?;
        let fragment = if with_fragment { scene.disclosures.choose(rng) } else { None };
        let head = match fragment {
            Some(fragment) => format!("{}{fragment} {leak}", self.stem),
            None => format!("{}{leak}", self.stem),
        };
        let target = length(&self.chosen).max(length(&head));
        Some(fill(&head, &scene.neutral, 0, target, rng).text.trim_end().to_owned())
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

    /// The body with at least half of its values withheld.
    fn partly(&self, scene: &Scene<'_>, rng: &mut ChaCha8Rng) -> Vec<String> {
        let share = [0.5, 0.75, 1.0].choose(rng).copied().unwrap_or(1.0);
        let count = ((scene.shown.len() as f64 * share).ceil() as usize).min(scene.shown.len());
        let openings = scene.silent(if count < scene.shown.len() { &phrase::PARTLY } else { &phrase::WHOLLY });
        let placeholders = scene.silent(&phrase::PLACEHOLDER);
        let mut heads = Vec::new();
        for opening in openings {
            let Some(placeholder) = placeholders.choose(rng) else { continue };
            let mut masked: Vec<Fact> = scene.shown.clone();
            for index in rand::seq::index::sample(rng, masked.len(), count) {
                (*placeholder).clone_into(&mut masked[index].text);
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
        let name = fact.name();
        if !labels.contains(&name) && scene.is_silent(&name) && labels.len() < 4 {
            labels.push(name);
        }
    }
    listed(&labels)
}
