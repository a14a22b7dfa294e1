//! The answers of a micro-batch, counted over all its trees as [`crate::token::pack`] counts them.

use candle_core::Tensor;

use super::log::Means;
use crate::dataset::PairKind;
use crate::error::Result;
use crate::loss::{Desirability, Pairs};
use crate::recipe::settings::KindWeights;
use crate::token::Tree;

/// See the module.
pub(super) struct Answers {
    /// Tokens of each answer.
    pub(super) lengths: Vec<usize>,
    /// Chosen and rejected answers of the trees that have both.
    pub(super) pairs: Pairs,
    /// The kind of each pair.
    pub(super) kinds: Vec<Option<PairKind>>,
    /// Which way each answer is to go.
    pub(super) desirability: Vec<Desirability>,
    /// The kind of each answer; none for a chosen one.
    answer_kinds: Vec<Option<PairKind>>,
    /// Answers that are in no pair.
    alone: Vec<usize>,
}

impl Answers {
    /// `kinds` has one entry for each rejected answer of each tree; an answer before them is the chosen one.
    pub(super) fn of(trees: &[Tree], kinds: &[Vec<Option<PairKind>>], units: &[usize]) -> Self {
        let mut answers = Self {
            lengths: Vec::new(),
            pairs: Pairs::default(),
            kinds: Vec::new(),
            desirability: Vec::new(),
            answer_kinds: Vec::new(),
            alone: Vec::new(),
        };
        for &unit in units {
            answers.add(&trees[unit], &kinds[unit]);
        }
        answers
    }

    fn add(&mut self, tree: &Tree, kinds: &[Option<PairKind>]) {
        let first = self.lengths.len();
        self.lengths.extend(tree.answers.iter().map(Vec::len));
        let chosen = tree.answers.len().saturating_sub(kinds.len());
        self.desirability.extend((0..chosen).map(|_| Desirability::Desirable));
        self.desirability.extend(kinds.iter().map(|_| Desirability::Undesirable));
        self.answer_kinds.extend((0..chosen).map(|_| None).chain(kinds.iter().copied()));
        if chosen == 1 && !kinds.is_empty() {
            let rejected = first as u32 + 1..self.lengths.len() as u32;
            self.pairs.chosen.extend(rejected.clone().map(|_| first as u32));
            self.pairs.rejected.extend(rejected);
            self.kinds.extend_from_slice(kinds);
        } else {
            self.alone.extend(first..self.lengths.len());
        }
    }

    /// The weight of each pair, or of each answer where the loss takes them alone; none where all count alike.
    pub(super) fn weights(&self, by_kind: Option<KindWeights>, paired: bool) -> Option<Vec<f64>> {
        let by_kind = by_kind?;
        let kinds = if paired { &self.kinds } else { &self.answer_kinds };
        Some(kinds.iter().map(|kind| kind.map_or(1.0, |kind| by_kind.of(kind))).collect())
    }

    /// Logs the answers that are in no pair, under the names that pairs have.
    pub(super) fn log_alone(&self, scores: &[f64], totals: &[f64], beta: f64, means: &mut Means) {
        for &answer in &self.alone {
            let side = match self.desirability[answer] {
                Desirability::Desirable => "chosen",
                Desirability::Undesirable => "rejected",
            };
            let kind = self.answer_kinds[answer].map(|kind| format!("/{}", kind.name()));
            for suffix in [Some(String::new()), kind].into_iter().flatten() {
                means.add(format!("rewards/{side}{suffix}"), beta * scores[answer]);
                means.add(format!("logps/{side}{suffix}"), totals[answer]);
            }
        }
    }
}

/// Sums of rows per answer in f64, for the log.
pub(super) fn host_sums(values: &Tensor, answer_of_row: &[usize], answers: usize) -> Result<Vec<f64>> {
    let mut sums = vec![0.0; answers];
    for (value, &answer) in values.to_vec1::<f32>()?.into_iter().zip(answer_of_row) {
        sums[answer] += f64::from(value);
    }
    Ok(sums)
}
