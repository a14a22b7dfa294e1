//! Direct preference optimisation (Rafailov et al. 2023) with the options that keep its form.
//!
//! Answers, not pairs, are the unit of computation: the pairs of one trace share their chosen answer, so [`Pairs`] holds
//! indices into the answers of a micro-batch.

use candle_core::{D, Tensor};

use crate::error::{Fault, Result};
use crate::recipe::settings::{DpoSettings, Positive, Share};

/// Which answers of a micro-batch are compared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pairs {
    /// Answer index of the better one, per pair.
    pub chosen: Vec<u32>,
    /// Answer index of the worse one, per pair.
    pub rejected: Vec<u32>,
}

impl Pairs {
    /// Number of pairs.
    pub fn len(&self) -> usize {
        self.chosen.len()
    }

    /// Whether there is nothing to compare.
    pub fn is_empty(&self) -> bool {
        self.chosen.is_empty()
    }
}

/// The loss of one pair, as a recipe states it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PreferenceObjective {
    /// beta: how strongly the policy is held to the reference.
    pub beta: Positive,
    /// epsilon of conservative DPO: the share of labels taken to be wrong.
    pub label_smoothing: Share,
    /// Weight of the chosen answer's negative log-likelihood per token.
    pub chosen_weight: f64,
}

impl From<&DpoSettings> for PreferenceObjective {
    fn from(settings: &DpoSettings) -> Self {
        Self { beta: settings.beta, label_smoothing: settings.label_smoothing, chosen_weight: settings.chosen_weight }
    }
}

/// `log sigmoid(z)` and `log sigmoid(-z)`, both `[pairs]`.
///
/// As a log-softmax of `[z, 0]`: the gradient at 0, where DPO starts, is 0.5, and both are finite at any finite z. The form
/// `min(z, 0) - log(1 + exp(-|z|))` has gradient 1 at 0 here, and `log(sigmoid(z))` is NaN at -200.
///
/// # Errors
/// A tensor error.
pub fn log_sigmoids(logits: &Tensor) -> Result<(Tensor, Tensor)> {
    let both = Tensor::stack(&[logits, &logits.zeros_like()?], D::Minus1)?; // [pairs, 2]
    let both = candle_nn::ops::log_softmax(&both, D::Minus1)?;
    let side = |index: usize| both.narrow(D::Minus1, index, 1)?.squeeze(D::Minus1);
    Ok((side(0)?, side(1)?))
}

/// `log sigmoid(z)`, `[pairs]`; see [`log_sigmoids`].
///
/// # Errors
/// A tensor error.
pub fn log_sigmoid(logits: &Tensor) -> Result<Tensor> {
    Ok(log_sigmoids(logits)?.0)
}

/// Sums rows into their answers: `values` `[rows]`, `answer_of_row` the answer of each, result `[answers]`.
///
/// # Errors
/// A tensor error, also for an answer index out of range.
pub fn sum_per_answer(values: &Tensor, answer_of_row: &[usize], answers: usize) -> Result<Tensor> {
    let index: Vec<u32> = answer_of_row.iter().map(|&answer| answer as u32).collect();
    let index = Tensor::new(index, values.device())?;
    Ok(Tensor::zeros(answers, values.dtype(), values.device())?.index_add(&index, values, 0)?)
}

/// The loss of each pair, `[pairs]`.
///
/// * `log_ratios`: `[answers]`, `log pi(y|x) - log pi_ref(y|x)`, summed over the answer's tokens.
/// * `log_probabilities`: `[answers]`, `log pi(y|x)`; read only when `chosen_weight` is not 0.
/// * `lengths`: tokens of each answer.
///
/// With `z = beta (r_chosen - r_rejected)` this is `-log sigmoid(z)` (equation 7 of Rafailov et al. 2023), under label
/// smoothing epsilon `-(1 - epsilon) log sigmoid(z) - epsilon log sigmoid(-z)` (Mitchell 2023, equation 3), plus
/// `chosen_weight * -log pi(chosen) / tokens(chosen)`.
///
/// # Errors
/// A [`Fault`] without pairs or for a chosen answer without tokens; tensor errors.
pub fn preference_losses(
    log_ratios: &Tensor,
    log_probabilities: &Tensor,
    lengths: &[usize],
    pairs: &Pairs,
    objective: &PreferenceObjective,
) -> Result<Tensor> {
    if pairs.is_empty() {
        return Err(Fault::new("there is no preference pair to train on").into());
    }
    let device = log_ratios.device();
    let chosen = Tensor::new(pairs.chosen.as_slice(), device)?;
    let rejected = Tensor::new(pairs.rejected.as_slice(), device)?;
    let margins = (log_ratios.index_select(&chosen, 0)? - log_ratios.index_select(&rejected, 0)?)?; // [pairs]
    let (right, wrong) = log_sigmoids(&(margins * objective.beta.get())?)?;
    let smoothing = objective.label_smoothing.get();
    let mut losses = (right * (smoothing - 1.0))?;
    if smoothing > 0.0 {
        losses = (losses - (wrong * smoothing)?)?;
    }
    if objective.chosen_weight != 0.0 {
        let weights = chosen_weights(lengths, pairs, objective.chosen_weight)?;
        let weights = Tensor::new(weights, device)?.to_dtype(log_probabilities.dtype())?;
        losses = (losses + (log_probabilities.index_select(&chosen, 0)? * weights)?)?;
    }
    Ok(losses)
}

/// `-weight / tokens` of each pair's chosen answer.
fn chosen_weights(lengths: &[usize], pairs: &Pairs, weight: f64) -> Result<Vec<f64>> {
    let of = |&answer: &u32| match lengths.get(answer as usize) {
        Some(&length) if length > 0 => Ok(-weight / length as f64),
        _ => Err(Fault::new("a chosen answer has no tokens").got(answer).into()),
    };
    pairs.chosen.iter().map(of).collect()
}

/// Implicit rewards of one pair, `beta log (pi / pi_ref)` (section 5 of Rafailov et al. 2023).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PairReward {
    /// Of the chosen answer.
    pub chosen: f64,
    /// Of the rejected answer.
    pub rejected: f64,
}

impl PairReward {
    /// Chosen minus rejected.
    pub fn margin(self) -> f64 {
        self.chosen - self.rejected
    }

    /// Whether the chosen answer has the strictly higher reward: a tie, as at the start, is not right.
    pub fn is_right(self) -> bool {
        self.chosen > self.rejected
    }
}

/// Rewards of every pair from the answers' log ratios.
pub fn rewards(log_ratios: &[f64], pairs: &Pairs, beta: Positive) -> Vec<PairReward> {
    let reward = |&answer: &u32| log_ratios.get(answer as usize).map_or(f64::NAN, |ratio| beta.get() * ratio);
    pairs
        .chosen
        .iter()
        .zip(&pairs.rejected)
        .map(|(chosen, rejected)| PairReward { chosen: reward(chosen), rejected: reward(rejected) })
        .collect()
}
