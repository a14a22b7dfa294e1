//! What a step's loss is: the seam between the loop, which SFT and DPO share, and the two losses.

use candle_core::Tensor;

use super::batch::MicroBatch;
use super::log::Means;
use crate::dataset::PairKind;
use crate::error::{Fault, Result};
use crate::loss::{self, PairReward, Pairs, PreferenceObjective};
use crate::token::Tree;

/// A loss that is a mean over a countable thing of the whole step, so that micro-batches can each give their share.
pub trait Objective {
    /// What the mean of these trees is taken over: answer tokens, or pairs.
    fn count(&self, units: &[usize]) -> usize;

    /// A micro-batch's share of the step's loss.
    ///
    /// * `log_probabilities`: `[rows]`, of each trained token under the policy.
    /// * `step_count`: [`Objective::count`] of all trees of the step.
    /// * `means`: takes what is logged.
    ///
    /// # Errors
    /// As the loss.
    fn share(
        &self,
        batch: &MicroBatch,
        log_probabilities: &Tensor,
        step_count: usize,
        means: &mut Means,
    ) -> Result<Tensor>;
}

/// Mean negative log-likelihood per answer token.
#[derive(Debug)]
pub struct Supervised<'a> {
    /// All trees of the run.
    pub trees: &'a [Tree],
}

impl Objective for Supervised<'_> {
    fn count(&self, units: &[usize]) -> usize {
        units.iter().map(|&unit| self.trees[unit].answers.iter().map(Vec::len).sum::<usize>()).sum()
    }

    fn share(&self, _: &MicroBatch, log_probabilities: &Tensor, step_count: usize, _: &mut Means) -> Result<Tensor> {
        loss::negative_log_likelihood(log_probabilities, step_count)
    }
}

/// DPO over the pairs of each tree.
#[derive(Debug)]
pub struct Preference<'a> {
    /// All trees of the run: answer 0 is chosen, the others are rejected.
    pub trees: &'a [Tree],
    /// Kinds of each tree's rejected answers.
    pub kinds: &'a [Vec<Option<PairKind>>],
    /// The reference's log-probability of each trained token, by tree, in the order of [`crate::token::pack`].
    pub reference: &'a [Vec<f32>],
    /// beta and its companions.
    pub objective: PreferenceObjective,
}

impl Objective for Preference<'_> {
    fn count(&self, units: &[usize]) -> usize {
        units.iter().map(|&unit| self.trees[unit].answers.len().saturating_sub(1)).sum()
    }

    fn share(
        &self,
        batch: &MicroBatch,
        log_probabilities: &Tensor,
        step_count: usize,
        means: &mut Means,
    ) -> Result<Tensor> {
        let answers = Answers::of(self, &batch.units);
        let reference: Vec<f32> = batch.units.iter().flat_map(|&unit| self.reference[unit].iter().copied()).collect();
        let reference = Tensor::new(reference, log_probabilities.device())?; // [rows]
        if reference.dims() != log_probabilities.dims() {
            return Err(Fault::new("the reference's log-probabilities do not fit the data").into());
        }
        // Token by token first: at the start every difference is 0, and later sums stay small and exact.
        let per_token = (log_probabilities - &reference)?;
        let rows = &batch.packed.answer_of_row;
        let log_ratios = loss::sum_per_answer(&per_token, rows, answers.lengths.len())?; // [answers]
        let totals = loss::sum_per_answer(log_probabilities, rows, answers.lengths.len())?; // [answers]
        let losses = loss::preference_losses(&log_ratios, &totals, &answers.lengths, &answers.pairs, &self.objective)?; // [pairs]
        self.log(&answers, &per_token, log_probabilities, rows, means)?;
        Ok((losses.sum_all()? * (1.0 / step_count.max(1) as f64))?)
    }
}

impl Preference<'_> {
    fn log(
        &self,
        answers: &Answers,
        per_token: &Tensor,
        log_probabilities: &Tensor,
        rows: &[usize],
        means: &mut Means,
    ) -> Result<()> {
        let log_ratios = host_sums(per_token, rows, answers.lengths.len())?;
        let totals = host_sums(log_probabilities, rows, answers.lengths.len())?;
        let rewards = loss::rewards(&log_ratios, &answers.pairs, self.objective.beta);
        for (index, reward) in rewards.into_iter().enumerate() {
            let chosen = totals[answers.pairs.chosen[index] as usize];
            let rejected = totals[answers.pairs.rejected[index] as usize];
            log_pair(means, "", reward, chosen, rejected);
            if let Some(kind) = answers.kinds[index] {
                log_pair(means, &format!("/{}", kind.name()), reward, chosen, rejected);
            }
        }
        Ok(())
    }
}

fn log_pair(means: &mut Means, suffix: &str, reward: PairReward, chosen: f64, rejected: f64) {
    means.add(format!("rewards/chosen{suffix}"), reward.chosen);
    means.add(format!("rewards/rejected{suffix}"), reward.rejected);
    means.add(format!("rewards/margins{suffix}"), reward.margin());
    means.add(format!("rewards/accuracies{suffix}"), f64::from(u8::from(reward.is_right())));
    means.add(format!("logps/chosen{suffix}"), chosen);
    means.add(format!("logps/rejected{suffix}"), rejected);
}

/// The answers of a micro-batch, counted over all its trees as [`crate::token::pack`] counts them.
struct Answers {
    lengths: Vec<usize>,
    pairs: Pairs,
    kinds: Vec<Option<PairKind>>,
}

impl Answers {
    fn of(data: &Preference<'_>, units: &[usize]) -> Self {
        let mut answers = Self { lengths: Vec::new(), pairs: Pairs::default(), kinds: Vec::new() };
        for &unit in units {
            let first = answers.lengths.len() as u32;
            answers.lengths.extend(data.trees[unit].answers.iter().map(Vec::len));
            let rejected = first + 1..answers.lengths.len() as u32;
            answers.pairs.chosen.extend(rejected.clone().map(|_| first));
            answers.kinds.extend(rejected.clone().zip(0..).map(|(_, index)| data.kind(unit, index)));
            answers.pairs.rejected.extend(rejected);
        }
        answers
    }
}

impl Preference<'_> {
    fn kind(&self, unit: usize, index: usize) -> Option<PairKind> {
        self.kinds.get(unit).and_then(|kinds| kinds.get(index)).copied().flatten()
    }
}

/// Sums of rows per answer in f64, for the log.
fn host_sums(values: &Tensor, answer_of_row: &[usize], answers: usize) -> Result<Vec<f64>> {
    let mut sums = vec![0.0; answers];
    for (value, &answer) in values.to_vec1::<f32>()?.into_iter().zip(answer_of_row) {
        sums[answer] += f64::from(value);
    }
    Ok(sums)
}
