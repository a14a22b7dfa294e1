//! Preference runs: the reference's log-probabilities of everything that the loss compares with it, and the objectives over
//! the training and the held-out rows.

use super::manifest::RunManifest;
use super::objective::{Mismatched, Objective, Preference};
use super::rows::Encoded;
use super::session::Session;
use crate::error::{Fault, Result};
use crate::loss::PreferenceObjective;
use crate::recipe::settings::DpoSettings;
use crate::token::Tree;

/// Prompts with answers to other prompts, and the reference's log-probabilities of them.
struct Others {
    trees: Vec<Option<Tree>>,
    reference: Vec<Vec<f32>>,
}

/// Rows with what the reference says of them.
struct Side<'a> {
    encoded: &'a Encoded,
    reference: Option<Vec<Vec<f32>>>,
    mismatched: Option<Others>,
}

/// Computes the reference where the loss has one, then trains.
pub(super) fn train(session: &Session<'_>, settings: &DpoSettings) -> Result<RunManifest> {
    let mut sides = Vec::new();
    for encoded in [Some(&session.encoded), session.held_out()].into_iter().flatten() {
        let mismatched = if settings.loss.is_paired() { None } else { Some(mismatch(&encoded.trees, session.limit)?) };
        sides.push(Side { encoded, reference: None, mismatched });
    }
    let seconds = if settings.loss.needs_reference() { Some(refer(session, &mut sides)?) } else { None };
    let objectives: Vec<Preference<'_>> = sides.iter().map(|side| side.objective(settings)).collect();
    session.train(&objectives[0], objectives.get(1).map(|held_out| held_out as &dyn Objective), seconds)
}

/// Fills in the reference's log-probabilities, all in one cache; the seconds it took.
fn refer(session: &Session<'_>, sides: &mut [Side<'_>]) -> Result<f64> {
    let trees: Vec<Tree> = sides
        .iter()
        .flat_map(|side| {
            let mismatched = side.mismatched.iter().flat_map(|others| others.trees.iter().flatten());
            side.encoded.trees.iter().chain(mismatched).cloned()
        })
        .collect();
    let (values, seconds) = session.reference(&trees)?;
    let mut values = values.into_iter();
    for side in sides {
        side.reference = Some(values.by_ref().take(side.encoded.trees.len()).collect());
        if let Some(Others { trees, reference }) = &mut side.mismatched {
            *reference =
                trees.iter().map(|tree| tree.as_ref().and_then(|_| values.next()).unwrap_or_default()).collect();
        }
    }
    Ok(seconds)
}

impl Side<'_> {
    fn objective(&self, settings: &DpoSettings) -> Preference<'_> {
        Preference {
            trees: &self.encoded.trees,
            kinds: &self.encoded.kinds,
            reference: self.reference.as_deref(),
            objective: PreferenceObjective::from(settings),
            kind_weights: settings.kind_weights,
            mismatched: self
                .mismatched
                .as_ref()
                .map(|others| Mismatched { trees: &others.trees, reference: &others.reference }),
        }
    }
}

/// Each tree's prompt with the first answer of the tree before it, or of one further before where that one is too long: the
/// set of answers stays that of the data.
///
/// # Errors
/// A [`Fault`] for a single tree: its own answer would be no other's.
fn mismatch(trees: &[Tree], limit: usize) -> Result<Others> {
    let count = trees.len();
    if count < 2 {
        return Err(Fault::new("the loss `kto` needs answers to at least two prompts")
            .got(count)
            .hint("its baseline is how likely answers to other prompts have become")
            .into());
    }
    let of = |index: usize| {
        let prompt = &trees[index].prompt;
        let answers = (1..count).filter_map(|back| trees[(index + count - back) % count].answers.first());
        let answer = answers.into_iter().find(|answer| prompt.len() + answer.len() <= limit)?;
        Some(Tree {
            row_ids: trees[index].row_ids.iter().take(1).cloned().collect(),
            prompt: prompt.clone(),
            answers: vec![answer.clone()],
        })
    };
    Ok(Others { trees: (0..count).map(of).collect(), reference: Vec::new() })
}
