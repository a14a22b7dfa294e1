//! Preference optimisation: direct (Rafailov et al. 2023) and its relatives.
//!
//! Answers, not pairs, are the unit of computation: the pairs of one trace share their chosen answer, so [`Pairs`] holds
//! indices into the answers of a micro-batch.

use candle_core::{DType, Tensor};

use super::logistic::{log_odds, log_sigmoid, log_sigmoids};
use crate::error::{Error, Fault, Result};
use crate::recipe::settings::{DpoSettings, NonNegative, Positive, PreferenceLoss, Smoothing};

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
    /// Which loss.
    pub loss: PreferenceLoss,
    /// beta: how strongly the policy is held to the reference.
    pub beta: Positive,
    /// Weight of the chosen answer's negative log-likelihood per token.
    pub chosen_weight: NonNegative,
}

impl From<&DpoSettings> for PreferenceObjective {
    fn from(settings: &DpoSettings) -> Self {
        Self { loss: settings.loss, beta: settings.beta, chosen_weight: settings.chosen_weight }
    }
}

/// What the answers of a micro-batch score.
#[derive(Debug, Clone, Copy)]
pub struct Scores<'a> {
    /// `log pi(y|x)`, summed over the answer's tokens. `[answers]`
    pub log_probabilities: &'a Tensor,
    /// `log pi(y|x) - log pi_ref(y|x)`, likewise; none where the loss has no reference. `[answers]`
    pub log_ratios: Option<&'a Tensor>,
    /// Tokens of each answer.
    pub lengths: &'a [usize],
}

impl<'a> Scores<'a> {
    /// The log ratios, for a loss that has a reference.
    ///
    /// # Errors
    /// [`Error::Failed`] without.
    pub(super) fn log_ratios(&self) -> Result<&'a Tensor> {
        self.log_ratios.ok_or_else(|| Error::Failed("the loss needs a reference and there is none".to_owned()))
    }

    /// Values of answers divided by their tokens.
    fn per_token(&self, values: &Tensor) -> Result<Tensor> {
        let of = |(answer, &length): (usize, &usize)| inverse(length, answer);
        let inverses = self.lengths.iter().enumerate().map(of).collect::<Result<Vec<f64>>>()?;
        Ok((values * Tensor::new(inverses, values.device())?.to_dtype(values.dtype())?)?)
    }
}

fn inverse(length: usize, answer: usize) -> Result<f64> {
    if length == 0 { Err(Fault::new("an answer has no tokens").got(answer).into()) } else { Ok(1.0 / length as f64) }
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

/// The loss of each pair, `[pairs]`; [`PreferenceLoss`] names the equations.
///
/// With d the difference of the log ratios of chosen and rejected, l the logarithm of an answer's probability, n its tokens:
///
/// | loss | per pair |
/// | --- | --- |
/// | sigmoid | `-(1 - e) log sigmoid(beta d) - e log sigmoid(-beta d)` |
/// | robust | `(-(1 - e) log sigmoid(beta d) + e log sigmoid(-beta d)) / (1 - 2e)` |
/// | ipo | `(r_chosen / n_chosen - r_rejected / n_rejected - 1 / (2 beta))^2` |
/// | hinge | `max(0, 1 - beta d)` |
/// | simpo | sigmoid of `beta (l_chosen / n_chosen - l_rejected / n_rejected) - gamma` |
/// | orpo | `-l_chosen / n_chosen - beta log sigmoid(log odds_chosen - log odds_rejected)`, odds of probabilities per token |
///
/// To each but ORPO, which has it, comes `chosen_weight * -l_chosen / n_chosen`.
///
/// # Errors
/// A [`Fault`] without pairs or for an answer without tokens where tokens count; [`Error::Failed`] for KTO, which has no
/// pairs, and without the reference that the loss needs; tensor errors.
pub fn preference_losses(scores: Scores<'_>, pairs: &Pairs, objective: &PreferenceObjective) -> Result<Tensor> {
    if pairs.is_empty() {
        return Err(Fault::new("there is no preference pair to train on").into());
    }
    let beta = objective.beta.get();
    let losses = match objective.loss {
        PreferenceLoss::Sigmoid { label_smoothing } => {
            smoothed(&(difference(scores.log_ratios()?, pairs)? * beta)?, label_smoothing)?
        }
        PreferenceLoss::Robust { label_smoothing } => {
            robust(&(difference(scores.log_ratios()?, pairs)? * beta)?, label_smoothing)?
        }
        PreferenceLoss::Ipo => {
            let margins = difference(&scores.per_token(scores.log_ratios()?)?, pairs)?;
            (margins - 0.5 / beta)?.sqr()?
        }
        PreferenceLoss::Hinge => (1.0 - (difference(scores.log_ratios()?, pairs)? * beta)?)?.relu()?,
        PreferenceLoss::Simpo { target_margin, label_smoothing } => {
            let margins = difference(&scores.per_token(scores.log_probabilities)?, pairs)?;
            smoothed(&((margins * beta)? - target_margin.get())?, label_smoothing)?
        }
        PreferenceLoss::Orpo => return odds_ratio(&scores, pairs, beta),
        PreferenceLoss::Kto { .. } => {
            return Err(Error::Failed("KTO takes answers one by one, not pairs".to_owned()));
        }
    };
    if objective.chosen_weight.get() == 0.0 {
        return Ok(losses);
    }
    let weights = chosen_weights(scores.lengths, pairs, objective.chosen_weight.get())?;
    let weights = Tensor::new(weights, losses.device())?.to_dtype(losses.dtype())?;
    Ok((losses + (select(scores.log_probabilities, &pairs.chosen)? * weights)?)?)
}

fn select(values: &Tensor, answers: &[u32]) -> Result<Tensor> {
    Ok(values.index_select(&Tensor::new(answers, values.device())?, 0)?)
}

/// Chosen minus rejected. `[pairs]`
fn difference(values: &Tensor, pairs: &Pairs) -> Result<Tensor> {
    Ok((select(values, &pairs.chosen)? - select(values, &pairs.rejected)?)?)
}

fn smoothed(logits: &Tensor, smoothing: Smoothing) -> Result<Tensor> {
    let (right, wrong) = log_sigmoids(logits)?;
    let smoothing = smoothing.get();
    let losses = (right * (smoothing - 1.0))?;
    if smoothing > 0.0 { Ok((losses - (wrong * smoothing)?)?) } else { Ok(losses) }
}

fn robust(logits: &Tensor, smoothing: Smoothing) -> Result<Tensor> {
    let (right, wrong) = log_sigmoids(logits)?;
    let smoothing = smoothing.get();
    let losses = ((right * (smoothing - 1.0))? + (wrong * smoothing)?)?;
    Ok((losses * (1.0 / (1.0 - 2.0 * smoothing)))?)
}

fn odds_ratio(scores: &Scores<'_>, pairs: &Pairs, beta: f64) -> Result<Tensor> {
    let per_token = scores.per_token(scores.log_probabilities)?;
    let ratios = difference(&log_odds(&per_token)?, pairs)?; // f64
    let chosen = select(&per_token, &pairs.chosen)?;
    let losses = ((log_sigmoid(&ratios)? * -beta)? - chosen.to_dtype(DType::F64)?)?;
    Ok(losses.to_dtype(per_token.dtype())?)
}

/// `-weight / tokens` of each pair's chosen answer.
fn chosen_weights(lengths: &[usize], pairs: &Pairs, weight: f64) -> Result<Vec<f64>> {
    let of = |&answer: &u32| match lengths.get(answer as usize) {
        Some(&length) if length > 0 => Ok(-weight / length as f64),
        _ => Err(Fault::new("a chosen answer has no tokens").got(answer).into()),
    };
    pairs.chosen.iter().map(of).collect()
}

/// Implicit rewards of one pair: `beta log (pi / pi_ref)` (section 5 of Rafailov et al. 2023), or beta times the
/// log-probability per token where there is no reference.
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

/// Rewards of every pair from what its answers score.
pub fn rewards(scores: &[f64], pairs: &Pairs, beta: Positive) -> Vec<PairReward> {
    let reward = |&answer: &u32| scores.get(answer as usize).map_or(f64::NAN, |score| beta.get() * score);
    pairs
        .chosen
        .iter()
        .zip(&pairs.rejected)
        .map(|(chosen, rejected)| PairReward { chosen: reward(chosen), rejected: reward(rejected) })
        .collect()
}
