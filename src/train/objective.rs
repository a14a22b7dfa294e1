//! What a step's loss is: the seam between the loop, which SFT and DPO share, and the losses.

use candle_core::Tensor;

use super::answers::{Answers, host_sums};
use super::batch::MicroBatch;
use super::log::{Means, finite};
use super::policy::{Pass, Policy};
use crate::dataset::PairKind;
use crate::error::{Fault, Result};
use crate::loss::{self, PairReward, PreferenceObjective, Scores};
use crate::rank::{self, Group};
use crate::recipe::settings::KindWeights;
use crate::token::{Tree, pack};

/// What all micro-batches of one step share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepScale {
    /// [`Objective::weight`] of all trees of the step: what the mean is taken over.
    pub weight: f64,
    /// [`Objective::baseline`] of the step.
    pub baseline: f64,
}

/// A loss that is a mean over a countable thing of the whole step, so that micro-batches can each give their share.
pub trait Objective {
    /// What the mean of these trees is taken over: answer tokens, pairs or answers, each with its weight.
    fn weight(&self, units: &[usize]) -> f64;

    /// What the loss must know of the policy before the step's first micro-batch, the work dealt out to the ranks; most need nothing.
    ///
    /// # Errors
    /// Tensor errors; as [`Group::gather`].
    fn baseline(&self, _: &dyn Policy, _: &[usize], _: &dyn Group) -> Result<f64> {
        Ok(0.0)
    }

    /// A micro-batch's share of the step's loss.
    ///
    /// * `log_probabilities`: `[rows]`, of each trained token under the policy.
    /// * `step`: what all micro-batches of the step share.
    /// * `means`: takes what is logged.
    ///
    /// # Errors
    /// As the loss.
    fn share(
        &self,
        batch: &MicroBatch,
        log_probabilities: &Tensor,
        step: StepScale,
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
    fn weight(&self, units: &[usize]) -> f64 {
        units.iter().map(|&unit| self.trees[unit].answers.iter().map(Vec::len).sum::<usize>()).sum::<usize>() as f64
    }

    fn share(&self, _: &MicroBatch, log_probabilities: &Tensor, step: StepScale, _: &mut Means) -> Result<Tensor> {
        loss::negative_log_likelihood(log_probabilities, step.weight as usize)
    }
}

/// A preference loss over the answers of each tree.
#[derive(Debug)]
pub struct Preference<'a> {
    /// All trees of the run: answer 0 is chosen, the others are rejected; KTO's may lack the chosen one.
    pub trees: &'a [Tree],
    /// Kinds of each tree's rejected answers.
    pub kinds: &'a [Vec<Option<PairKind>>],
    /// The reference's log-probability of each trained token, by tree, in the order of [`crate::token::pack`]; none for a
    /// loss without reference.
    pub reference: Option<&'a [Vec<f32>]>,
    /// Which loss, beta and their companions.
    pub objective: PreferenceObjective,
    /// Weights by kind.
    pub kind_weights: Option<KindWeights>,
    /// What KTO's baseline is computed from.
    pub mismatched: Option<Mismatched<'a>>,
}

/// Each tree's prompt with an answer to another one, and the reference's log-probabilities of it.
#[derive(Debug, Clone, Copy)]
pub struct Mismatched<'a> {
    /// By tree; none where no other answer fits the length limit.
    pub trees: &'a [Option<Tree>],
    /// By tree; empty where there is none.
    pub reference: &'a [Vec<f32>],
}

impl Objective for Preference<'_> {
    fn weight(&self, units: &[usize]) -> f64 {
        let answers = self.answers(units);
        let paired = self.objective.loss.is_paired();
        match (answers.weights(self.kind_weights, paired), paired) {
            (Some(weights), _) => weights.iter().sum(),
            (None, true) => answers.pairs.len() as f64,
            (None, false) => answers.lengths.len() as f64,
        }
    }

    fn baseline(&self, policy: &dyn Policy, units: &[usize], group: &dyn Group) -> Result<f64> {
        let Some(mismatched) = self.mismatched else { return Ok(0.0) };
        let others: Vec<(usize, &Tree)> =
            units.iter().filter_map(|&unit| Some((unit, mismatched.trees[unit].as_ref()?))).collect();
        let weights: Vec<usize> = others.iter().map(|(_, tree)| tree.packed_tokens()).collect();
        let log_ratios = rank::dealt(group, &weights, |index| {
            let (unit, tree) = others[index];
            let values = policy.log_probabilities(&pack(&[tree]), Pass::Evaluation)?.to_vec1::<f32>()?;
            let pairs = values.iter().zip(&mismatched.reference[unit]);
            Ok(finite(pairs.map(|(policy, reference)| f64::from(policy - reference)).sum()))
        })?;
        let log_ratios: Vec<f64> = log_ratios.into_iter().map(|ratio| ratio.unwrap_or(f64::NAN)).collect();
        Ok(loss::unpaired_baseline(&log_ratios))
    }

    fn share(
        &self,
        batch: &MicroBatch,
        log_probabilities: &Tensor,
        step: StepScale,
        means: &mut Means,
    ) -> Result<Tensor> {
        let answers = self.answers(&batch.units);
        let per_token = self.per_token(&batch.units, log_probabilities)?;
        let rows = &batch.packed.answer_of_row;
        let sum = |values: &Tensor| loss::sum_per_answer(values, rows, answers.lengths.len()); // [answers]
        let log_ratios = per_token.as_ref().map(sum).transpose()?;
        let totals = sum(log_probabilities)?;
        let scores = Scores { log_probabilities: &totals, log_ratios: log_ratios.as_ref(), lengths: &answers.lengths };
        let paired = self.objective.loss.is_paired();
        let losses = if paired {
            loss::preference_losses(scores, &answers.pairs, &self.objective)? // [pairs]
        } else {
            loss::unpaired_losses(scores, &answers.desirability, step.baseline, &self.objective)? // [answers]
        };
        self.log(&answers, per_token.as_ref(), log_probabilities, rows, means)?;
        if !paired {
            means.add("kl", step.baseline);
        }
        loss::weighted_share(&losses, answers.weights(self.kind_weights, paired).as_deref(), step.weight)
    }
}

impl Preference<'_> {
    fn answers(&self, units: &[usize]) -> Answers {
        Answers::of(self.trees, self.kinds, units)
    }

    /// Policy minus reference, token by token first: at the start every difference is 0, and later sums stay small and exact.
    fn per_token(&self, units: &[usize], log_probabilities: &Tensor) -> Result<Option<Tensor>> {
        let Some(reference) = self.reference else { return Ok(None) };
        let reference: Vec<f32> = units.iter().flat_map(|&unit| reference[unit].iter().copied()).collect();
        let reference = Tensor::new(reference, log_probabilities.device())?; // [rows]
        if reference.dims() != log_probabilities.dims() {
            return Err(Fault::new("the reference's log-probabilities do not fit the data").into());
        }
        Ok(Some((log_probabilities - &reference)?))
    }

    fn log(
        &self,
        answers: &Answers,
        per_token: Option<&Tensor>,
        log_probabilities: &Tensor,
        rows: &[usize],
        means: &mut Means,
    ) -> Result<()> {
        let totals = host_sums(log_probabilities, rows, answers.lengths.len())?;
        let scores = match per_token {
            Some(per_token) => host_sums(per_token, rows, answers.lengths.len())?,
            // Without a reference: log-probabilities per token, as the loss compares them.
            None => totals.iter().zip(&answers.lengths).map(|(total, &length)| total / length.max(1) as f64).collect(),
        };
        let rewards = loss::rewards(&scores, &answers.pairs, self.objective.beta);
        for (index, reward) in rewards.into_iter().enumerate() {
            let chosen = totals[answers.pairs.chosen[index] as usize];
            let rejected = totals[answers.pairs.rejected[index] as usize];
            log_pair(means, "", reward, chosen, rejected);
            if let Some(kind) = answers.kinds[index] {
                log_pair(means, &format!("/{}", kind.name()), reward, chosen, rejected);
            }
        }
        answers.log_alone(&scores, &totals, self.objective.beta.get(), means);
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
