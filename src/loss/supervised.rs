//! Completion-only cross-entropy.

use candle_core::Tensor;

use crate::error::{Fault, Result};

/// A micro-batch's share of the step's mean negative log-likelihood per answer token:
/// `-(1 / N) sum_t log p(y_t | x, y_<t)`, where N counts the answer tokens of the *whole step*.
///
/// * `log_probabilities`: `[rows]`, one per answer token of this micro-batch.
/// * `step_tokens`: N. Shares of all micro-batches add up to the loss of the big batch, whatever the lengths.
///
/// # Errors
/// A [`Fault`] if the step has no answer tokens: a mean over nothing is not a loss.
///
/// ```
/// use candle_core::{Device, Tensor};
/// let log_probabilities = Tensor::new(&[-1.0_f32, -3.0], &Device::Cpu)?;
/// let share = topalign::loss::negative_log_likelihood(&log_probabilities, 4).unwrap();
/// assert_eq!(share.to_scalar::<f32>()?, 1.0);
/// # Ok::<(), candle_core::Error>(())
/// ```
pub fn negative_log_likelihood(log_probabilities: &Tensor, step_tokens: usize) -> Result<Tensor> {
    if step_tokens == 0 {
        return Err(Fault::new("the step has no answer tokens to train on").into());
    }
    Ok((log_probabilities.sum_all()? * (-1.0 / step_tokens as f64))?)
}
