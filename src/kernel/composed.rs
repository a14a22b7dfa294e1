//! The same operations out of Candle's own differentiable ones: the reference in tests, and the path on devices and dtypes
//! that have no fused kernel. Log-probabilities are in f32 whatever the dtype.

use candle_core::{D, DType, Result, Tensor};

use super::attention::AttentionLayout;
use super::rotary::RotaryTable;

/// See [`super::linear`].
///
/// # Errors
/// Shapes that do not fit.
pub fn linear(x: &Tensor, weight: &Tensor) -> Result<Tensor> {
    x.matmul(&weight.t()?)
}

/// See [`super::adapted_linear`].
///
/// # Errors
/// Shapes that do not fit.
pub fn adapted_linear(x: &Tensor, weight: &Tensor, a: &Tensor, b: &Tensor, scale: f64) -> Result<Tensor> {
    let adapted = (linear(&linear(x, a)?, b)? * scale)?;
    linear(x, weight)? + adapted
}

/// See [`super::add_bias`].
///
/// # Errors
/// Shapes that do not fit.
pub fn add_bias(x: &Tensor, bias: &Tensor) -> Result<Tensor> {
    x.broadcast_add(bias)
}

/// See [`super::adapted_linear_with_dropout`]; `factors` is [`super::Mask::factors`].
///
/// # Errors
/// Shapes that do not fit.
pub fn adapted_linear_with_dropout(
    x: &Tensor,
    weight: &Tensor,
    a: &Tensor,
    b: &Tensor,
    scale: f64,
    factors: &Tensor,
) -> Result<Tensor> {
    let adapted = (linear(&linear(&(x * factors)?, a)?, b)? * scale)?;
    linear(x, weight)? + adapted
}

/// See [`super::rms_norm`].
///
/// # Errors
/// Shapes that do not fit.
pub fn rms_norm(x: &Tensor, weight: &Tensor, epsilon: f64) -> Result<Tensor> {
    let root = (x.sqr()?.mean_keepdim(D::Minus1)? + epsilon)?.sqrt()?;
    x.broadcast_div(&root)?.broadcast_mul(weight)
}

/// See [`super::swiglu`].
///
/// # Errors
/// Shapes that differ.
pub fn swiglu(gate: &Tensor, up: &Tensor) -> Result<Tensor> {
    gate.silu()? * up
}

/// See [`super::rotary`].
///
/// # Errors
/// Shapes that do not fit.
pub fn rotary(x: &Tensor, table: &RotaryTable) -> Result<Tensor> {
    let (tokens, width) = x.dims2()?;
    let half = table.head_size / 2;
    let shape = (tokens, 1, half);
    let cosines = Tensor::from_slice(&table.cosines, shape, x.device())?.to_dtype(x.dtype())?;
    let sines = Tensor::from_slice(&table.sines, shape, x.device())?.to_dtype(x.dtype())?;
    let x = x.reshape((tokens, width / table.head_size, table.head_size))?;
    let (first, second) = (x.narrow(2, 0, half)?, x.narrow(2, half, half)?);
    let turned = Tensor::cat(
        &[
            &(first.broadcast_mul(&cosines)? - second.broadcast_mul(&sines)?)?,
            &(second.broadcast_mul(&cosines)? + first.broadcast_mul(&sines)?)?,
        ],
        2,
    )?;
    turned.reshape((tokens, width))
}

/// See [`super::attention`]; holds `[heads, tokens, tokens]`.
///
/// # Errors
/// Shapes that do not fit.
pub fn attention(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    layout: &AttentionLayout,
    query_heads: usize,
    key_value_heads: usize,
) -> Result<Tensor> {
    let (tokens, width) = q.dims2()?;
    let size = width / query_heads;
    let heads = |x: &Tensor, count: usize| x.reshape((tokens, count, size))?.transpose(0, 1)?.contiguous();
    let group = query_heads / key_value_heads;
    // Each key head stands next to the queries of its group. [heads, tokens, size]
    let spread = |x: &Tensor| -> Result<Tensor> {
        let x = heads(x, key_value_heads)?.unsqueeze(1)?;
        x.broadcast_as((key_value_heads, group, tokens, size))?.contiguous()?.reshape((query_heads, tokens, size))
    };
    let (q, k, v) = (heads(q, query_heads)?, spread(k)?, spread(v)?);
    let scores = (q.matmul(&k.t()?)? * (1.0 / (size as f64).sqrt()))?;
    let mask = Tensor::from_vec(dense_mask(layout), (1, tokens, tokens), q.device())?.to_dtype(q.dtype())?;
    let weights = candle_nn::ops::softmax(&scores.broadcast_add(&mask)?, D::Minus1)?;
    weights.matmul(&v)?.transpose(0, 1)?.contiguous()?.reshape((tokens, width))
}

/// 0 where a query sees a key, minus infinity elsewhere. Every token sees itself, so no row is fully masked.
fn dense_mask(layout: &AttentionLayout) -> Vec<f32> {
    let mut mask = vec![f32::NEG_INFINITY; layout.tokens * layout.tokens];
    for run in &layout.runs {
        for token in run.own.clone() {
            let row = &mut mask[token * layout.tokens..(token + 1) * layout.tokens];
            row[run.own.start..=token].fill(0.0);
            for range in &run.before {
                row[range.clone()].fill(0.0);
            }
        }
    }
    mask
}

/// See [`super::chosen_log_probability`].
///
/// # Errors
/// Shapes that do not fit.
pub fn chosen_log_probability(hidden: &Tensor, head: &Tensor, targets: &[u32]) -> Result<Tensor> {
    let logits = linear(hidden, head)?.to_dtype(DType::F32)?;
    let targets = Tensor::new(targets, hidden.device())?.unsqueeze(1)?;
    candle_nn::ops::log_softmax(&logits, D::Minus1)?.gather(&targets, 1)?.squeeze(1)
}
