//! Who writes the answers: templates, a model of this machine or one behind an endpoint, behind one trait.
//!
//! In: a [`Scene`]. Out: drafts. Nothing that a writer says is trusted: each draft goes through the same audit, and the caller
//! asks again for as many rounds as it likes.

use std::fmt;

use rand_chacha::ChaCha8Rng;

use crate::dataset::PairKind;
use crate::endpoint::CallError;
use crate::run::seed::Seed;

use super::fit::length;
use super::proposed::Proposer;
use super::scene::Scene;
use super::template::Draft;

/// Who writes the answers.
#[derive(Clone)]
pub enum Writer<'a> {
    /// Deterministic templates.
    Template,
    /// A model proposes.
    Model(Proposer<'a>),
}

impl fmt::Debug for Writer<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl Writer<'_> {
    /// The name in rows and manifests.
    pub fn name(&self) -> &str {
        self.author().name()
    }

    pub(super) fn author(&self) -> &dyn Author {
        match self {
            Self::Template => &Template,
            Self::Model(proposer) => proposer,
        }
    }
}

/// One attempt at a trace's answers.
pub(super) struct Round<'r> {
    /// From 0; a writer gives other drafts in another round.
    pub number: usize,
    pub seed: Seed,
    /// Depends on the seed and the trace.
    pub rng: &'r mut ChaCha8Rng,
}

/// Writes drafts.
pub(super) trait Author: Sync {
    /// The name in rows and manifests.
    fn name(&self) -> &str;

    /// Traces that are written together; absent leaves it to the machine.
    fn workers(&self) -> Option<usize>;

    /// Drafts with a chosen answer, the best first, of a length where one is wanted and can be reached.
    ///
    /// # Errors
    /// No answer came at all; whether that ends the whole build is the caller's to say.
    fn chosen(&self, scene: &Scene<'_>, wanted: Option<usize>, round: &mut Round<'_>) -> Result<Vec<Draft>, CallError>;

    /// Worse answers of the chosen one's length, the best first.
    ///
    /// # Errors
    /// As [`Author::chosen`].
    fn rejected(
        &self,
        kind: PairKind,
        draft: &Draft,
        scene: &Scene<'_>,
        round: &mut Round<'_>,
    ) -> Result<Vec<String>, CallError>;
}

/// Fills templates.
struct Template;

impl Author for Template {
    fn name(&self) -> &'static str {
        "template"
    }

    fn workers(&self) -> Option<usize> {
        None
    }

    /// One frame a round; where a length is wanted, all of them in the first.
    fn chosen(&self, scene: &Scene<'_>, wanted: Option<usize>, round: &mut Round<'_>) -> Result<Vec<Draft>, CallError> {
        let frames = scene.frames(&mut round.seed.stream(&format!("frames/{}", scene.trace.trace_id)));
        let Some(wanted) = wanted else {
            let frame = frames.get(round.number);
            return Ok(frame.and_then(|frame| Draft::chosen(scene, *frame, None, round.rng)).into_iter().collect());
        };
        if round.number > 0 {
            return Ok(Vec::new());
        }
        let mut drafts: Vec<Draft> =
            frames.iter().filter_map(|frame| Draft::chosen(scene, *frame, Some(wanted), round.rng)).collect();
        drafts.sort_by_key(|draft| length(&draft.chosen).abs_diff(wanted));
        Ok(drafts)
    }

    fn rejected(
        &self,
        kind: PairKind,
        draft: &Draft,
        scene: &Scene<'_>,
        round: &mut Round<'_>,
    ) -> Result<Vec<String>, CallError> {
        Ok(draft.rejected(kind, scene, round.rng).into_iter().collect())
    }
}
