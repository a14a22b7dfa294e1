//! The writer that asks a model, behind an endpoint or of this machine, for several answers and takes the best.
//!
//! In: a model that chats, how it is asked. Out: drafts. For a worse answer the model is asked for the sentence in which it
//! differs: the rest is the chosen answer's, so that the two differ in nothing else and are of one length.

use crate::dataset::PairKind;
use crate::endpoint::{CallError, Chat};

use super::fit::{fill, length};
use super::propose::{Drawing, Wanted, propose};
use super::scene::Scene;
use super::template::Draft;
use super::writer::{Author, Round};

/// A model that proposes answers.
#[derive(Clone)]
pub struct Proposer<'a> {
    name: String,
    chat: &'a (dyn Chat + Sync),
    workers: usize,
    best_of: usize,
    drawing: Drawing,
}

impl<'a> Proposer<'a> {
    /// A writer named `place` and the model's name, e.g. `endpoint:llama`, that takes the best of `best_of` answers and has
    /// `workers` requests under way together.
    pub fn new(place: &str, chat: &'a (dyn Chat + Sync), (workers, best_of): (usize, usize), drawing: Drawing) -> Self {
        let model = chat.model();
        let name = if model.starts_with(place) { model.to_owned() } else { format!("{place}:{model}") };
        Self { name, chat, workers, best_of: best_of.max(1), drawing }
    }

    /// The answers of one round; those that did not come are left out, unless none came.
    fn ask(&self, wanted: Wanted, scene: &Scene<'_>, round: usize) -> Result<Vec<String>, CallError> {
        let drawing = Drawing { first: round * self.best_of, ..self.drawing };
        let (mut answers, mut failed) = (Vec::new(), None);
        for answer in propose(self.chat, scene.trace, (wanted, self.best_of), drawing) {
            match answer {
                Ok(answer) if !answer.is_empty() && !answers.contains(&answer) => answers.push(answer),
                Ok(_) => {}
                Err(error @ (CallError::GivenUp { .. } | CallError::Interrupted)) => return Err(error),
                Err(error) => failed = Some(error),
            }
        }
        match failed {
            Some(error) if answers.is_empty() => Err(error),
            _ => Ok(answers),
        }
    }
}

impl Author for Proposer<'_> {
    fn name(&self) -> &str {
        &self.name
    }

    fn workers(&self) -> Option<usize> {
        Some(self.workers)
    }

    /// The best tells least that was not asked for, and is short.
    fn chosen(&self, scene: &Scene<'_>, wanted: Option<usize>, round: &mut Round<'_>) -> Result<Vec<Draft>, CallError> {
        let mut answers = self.ask(Wanted::Chosen, scene, round.number)?;
        answers.sort_by_key(|answer| (scene.ground.unasked(answer), length(answer)));
        Ok(answers.iter().map(|answer| Draft::closed(answer, scene, wanted, round.rng)).collect())
    }

    /// The best comes nearest to the chosen one's length.
    fn rejected(
        &self,
        kind: PairKind,
        draft: &Draft,
        scene: &Scene<'_>,
        round: &mut Round<'_>,
    ) -> Result<Vec<String>, CallError> {
        let target = length(&draft.chosen);
        let (stem, pool) = match kind {
            PairKind::OverRefusal => ("", &scene.refusal),
            PairKind::ExplicitLeak | PairKind::OverDisclosure => (draft.stem(), &scene.neutral),
        };
        let mut answers: Vec<String> = Vec::new();
        for said in self.ask(Wanted::Rejected(kind), scene, round.number)? {
            let head = format!("{stem}{}", within(&said, target.saturating_sub(length(stem))));
            answers.push(fill(&head, pool, 0, target, round.rng).text.trim_end().to_owned());
        }
        answers.sort_by_key(|answer| length(answer).abs_diff(target));
        Ok(answers)
    }
}

/// The leading sentences of a text that fit into a length, or all of it where not even the first does.
fn within(text: &str, limit: usize) -> &str {
    let ends = text.match_indices(['.', '!', '?']).map(|(at, stop)| at + stop.len());
    let is_end = |end: &usize| text[*end..].chars().next().is_none_or(char::is_whitespace);
    let fits = |end: &usize| length(&text[..*end]) <= limit + limit / 20;
    ends.filter(is_end).rfind(fits).map_or(text, |end| &text[..end])
}

#[cfg(test)]
mod tests {
    use super::within;

    #[test]
    fn whole_sentences_are_kept_up_to_a_length() {
        let text = "One is 1.5 long. Two is longer! Three?";
        assert_eq!(within(text, 31), "One is 1.5 long. Two is longer!");
        assert_eq!(within(text, 20), "One is 1.5 long.");
        assert_eq!(within(text, 3), text);
        assert_eq!(within("no stop", 3), "no stop");
    }
}
