//! KTO (Ethayarajh et al. 2024): each answer is judged alone, against a baseline that all answers of a step share.

use candle_core::Tensor;

use super::logistic::log_sigmoids;
use super::preference::{PreferenceObjective, Scores};
use crate::error::{Error, Fault, Result};
use crate::recipe::settings::PreferenceLoss;

/// Whether an answer is to become more likely or less.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Desirability {
    /// A chosen answer.
    Desirable,
    /// A rejected answer.
    Undesirable,
}

/// `max(0, mean)` of log ratios of answers that belong to other prompts (equation 7's z): how far the policy has moved in
/// general. A constant of the step: no gradient goes through it. 0 without any.
pub fn unpaired_baseline(log_ratios: &[f64]) -> f64 {
    let count = log_ratios.len().max(1) as f64;
    (log_ratios.iter().sum::<f64>() / count).max(0.0)
}

/// The loss of each answer, `[answers]`: `desirable_weight (1 - sigmoid(beta (r - z)))` of a chosen answer,
/// `undesirable_weight (1 - sigmoid(beta (z - r)))` of a rejected one, where r is its log ratio and z the baseline.
///
/// # Errors
/// A [`Fault`] without answers; [`Error::Failed`] for another loss or without a reference; tensor errors.
pub fn unpaired_losses(
    scores: Scores<'_>,
    answers: &[Desirability],
    baseline: f64,
    objective: &PreferenceObjective,
) -> Result<Tensor> {
    let PreferenceLoss::Kto { desirable_weight, undesirable_weight } = objective.loss else {
        return Err(Error::Failed(format!("`{}` compares pairs", objective.loss.name().name())));
    };
    if answers.is_empty() {
        return Err(Fault::new("there is no answer to train on").into());
    }
    let log_ratios = scores.log_ratios()?;
    let constant = |values: Vec<f64>| Tensor::new(values, log_ratios.device())?.to_dtype(log_ratios.dtype());
    let sign = |answer: &Desirability| if *answer == Desirability::Desirable { 1.0 } else { -1.0 };
    let weight = |answer: &Desirability| match answer {
        Desirability::Desirable => desirable_weight.get(),
        Desirability::Undesirable => undesirable_weight.get(),
    };
    let signs = constant(answers.iter().map(sign).collect())?;
    let weights = constant(answers.iter().map(weight).collect())?;
    let values = (((log_ratios - baseline)? * objective.beta.get())? * signs)?;
    // 1 - sigmoid(v) = sigmoid(-v), as the exponential of its finite logarithm.
    let losses = log_sigmoids(&values)?.1.exp()?;
    Ok((losses * weights)?)
}

/// The mean of losses with these weights as a share of a step: `sum(weight * loss) / step_weight`.
///
/// # Errors
/// A [`Fault`] if the step has no weight; tensor errors.
pub fn weighted_share(losses: &Tensor, weights: Option<&[f64]>, step_weight: f64) -> Result<Tensor> {
    if step_weight <= 0.0 {
        return Err(Fault::new("the step has nothing to train on").into());
    }
    let sum = match weights {
        None => losses.sum_all()?,
        Some(weights) => {
            let weights = Tensor::new(weights, losses.device())?.to_dtype(losses.dtype())?;
            (losses * weights)?.sum_all()?
        }
    };
    Ok((sum * (1.0 / step_weight))?)
}
