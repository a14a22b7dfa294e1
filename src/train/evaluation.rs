//! Evaluation on held-out rows while training, and what follows from it: the best step, and when to stop.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use super::batch::MicroBatch;
use super::log::{Means, StepRow, finite};
use super::objective::{Objective, StepScale};
use super::policy::{Pass, Policy};
use crate::error::{Error, Result};
use crate::rank::{self, Group};
use crate::token::Tree;

/// Name of the held-out loss in a log row.
pub const EVALUATION_LOSS: &str = "eval_loss";

/// Held-out rows and the loss over them.
pub struct Evaluation<'a> {
    /// The loss, over [`Evaluation::trees`].
    pub objective: &'a dyn Objective,
    /// Held-out trees.
    pub trees: &'a [Tree],
    /// Steps between evaluations; there is one after the last step in any case.
    pub every: Option<NonZeroUsize>,
    /// Evaluations without a lower loss after which training ends.
    pub patience: Option<NonZeroUsize>,
}

impl Evaluation<'_> {
    /// Whether step number `step` of `last` is followed by an evaluation.
    pub(super) fn is_due(&self, step: usize, last: usize) -> bool {
        step == last || self.every.is_some_and(|every| step.is_multiple_of(every.get()))
    }

    /// Loss and metrics over all held-out rows, under the log's names with `eval_` before them.
    ///
    /// Each tree is computed alone, so that no figure depends on how many are computed together; trees are dealt out to the ranks.
    ///
    /// # Errors
    /// [`Error::Failed`] naming the rows of a loss that is not finite; tensor errors; as [`Group::gather`].
    pub fn run(&self, policy: &dyn Policy, group: &dyn Group) -> Result<BTreeMap<String, Option<f64>>> {
        let units: Vec<usize> = (0..self.trees.len()).collect();
        let baseline = self.objective.baseline(policy, &units, group)?;
        let step = StepScale { weight: self.objective.weight(&units), baseline };
        let mut means = Means::default();
        let weights: Vec<usize> = self.trees.iter().map(Tree::packed_tokens).collect();
        let shares = rank::dealt(group, &weights, |unit| {
            let batch = MicroBatch::new(self.trees, vec![unit]);
            let log_probabilities = policy.log_probabilities(&batch.packed, Pass::Evaluation)?;
            let share = self.objective.share(&batch, &log_probabilities, step, &mut means)?;
            let share = f64::from(share.to_scalar::<f32>()?);
            if !share.is_finite() {
                let rows = self.trees[unit].row_ids.join(", ");
                return Err(Error::Failed(format!("the loss on held-out rows is not finite; rows: {rows}")));
            }
            Ok(share)
        })?;
        let loss = shares.iter().sum();
        let means = merged(group.exchange(means)?);
        let mut metrics: BTreeMap<String, Option<f64>> =
            means.finish().into_iter().map(|(name, value)| (format!("eval_{name}"), value)).collect();
        metrics.insert(EVALUATION_LOSS.to_owned(), finite(loss));
        Ok(metrics)
    }
}

/// The means of all ranks together.
pub(super) fn merged(ranks: Vec<Means>) -> Means {
    ranks.into_iter().fold(Means::default(), |mut all, means| {
        all.merge(means);
        all
    })
}

/// The lowest held-out loss so far. A function of the log alone, so that a resumed run knows it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Best {
    /// The step after which it was computed.
    pub step: usize,
    /// The loss.
    pub loss: f64,
    /// Evaluations since.
    pub since: usize,
}

impl Best {
    /// The best of these log rows; of equal ones the first.
    pub fn of(log: &[StepRow]) -> Option<Self> {
        log.iter().fold(None, Self::after)
    }

    /// The best after one more row.
    pub(super) fn after(best: Option<Self>, row: &StepRow) -> Option<Self> {
        let Some(loss) = row.metrics.get(EVALUATION_LOSS).copied().flatten() else { return best };
        match best {
            Some(best) if loss >= best.loss => Some(Self { since: best.since + 1, ..best }),
            _ => Some(Self { step: row.step, loss, since: 0 }),
        }
    }
}
