//! Logarithms that stay finite with finite gradients where the plain formulas do not.

use candle_core::{D, DType, Tensor};

use crate::error::Result;

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

/// `log(p / (1 - p))` of the probabilities whose logarithms are given, in f64.
///
/// A probability that rounds to 1 is taken as just below it: its odds would be infinite.
///
/// # Errors
/// A tensor error.
pub(super) fn log_odds(log_probabilities: &Tensor) -> Result<Tensor> {
    const NEAREST_TO_ONE: f64 = -1e-9;
    let log_probabilities = log_probabilities.to_dtype(DType::F64)?.minimum(NEAREST_TO_ONE)?;
    let complement = (1.0 - log_probabilities.exp()?)?;
    Ok((log_probabilities - complement.log()?)?)
}
