//! The operations as their definitions have them, out of Candle's differentiable ones: what both paths are held to.

use std::ops::Range;

use candle_core::{D, DType, Result, Tensor};

pub fn linear(x: &Tensor, weight: &Tensor) -> Result<Tensor> {
    x.matmul(&weight.t()?)
}

pub fn adapted_linear(x: &Tensor, weight: &Tensor, a: &Tensor, b: &Tensor, scale: f64) -> Result<Tensor> {
    let adapted = (linear(&linear(x, a)?, b)? * scale)?;
    linear(x, weight)? + adapted
}

pub fn add_bias(x: &Tensor, bias: &Tensor) -> Result<Tensor> {
    x.broadcast_add(bias)
}

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

pub fn rms_norm(x: &Tensor, weight: &Tensor, epsilon: f64) -> Result<Tensor> {
    let root = (x.sqr()?.mean_keepdim(D::Minus1)? + epsilon)?.sqrt()?;
    x.broadcast_div(&root)?.broadcast_mul(weight)
}

pub fn swiglu(gate: &Tensor, up: &Tensor) -> Result<Tensor> {
    gate.silu()? * up
}

pub fn rotary(x: &Tensor, positions: &[u32], frequencies: &[f64]) -> Result<Tensor> {
    let (tokens, width) = x.dims2()?;
    let half = frequencies.len();
    let of = |turn: fn(f64) -> f64| -> Result<Tensor> {
        let angles = positions.iter().flat_map(|at| frequencies.iter().map(move |f| turn(f64::from(*at) * f) as f32));
        Tensor::from_vec(angles.collect::<Vec<f32>>(), (tokens, 1, half), x.device())?.to_dtype(x.dtype())
    };
    let (cosines, sines) = (of(f64::cos)?, of(f64::sin)?);
    let x = x.reshape((tokens, width / (2 * half), 2 * half))?;
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

/// A run's own tokens, and the ranges before it that it sees whole.
pub type Run = (Range<usize>, Vec<Range<usize>>);

pub fn attention(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    runs: &[Run],
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
    let mask = Tensor::from_vec(dense_mask(runs, tokens), (1, tokens, tokens), q.device())?.to_dtype(q.dtype())?;
    let weights = candle_nn::ops::softmax(&scores.broadcast_add(&mask)?, D::Minus1)?;
    weights.matmul(&v)?.transpose(0, 1)?.contiguous()?.reshape((tokens, width))
}

/// 0 where a query sees a key, minus infinity elsewhere. Every token sees itself, so no row is fully masked.
fn dense_mask(runs: &[Run], tokens: usize) -> Vec<f32> {
    let mut mask = vec![f32::NEG_INFINITY; tokens * tokens];
    for (own, before) in runs {
        for token in own.clone() {
            let row = &mut mask[token * tokens..(token + 1) * tokens];
            row[own.start..=token].fill(0.0);
            for range in before {
                row[range.clone()].fill(0.0);
            }
        }
    }
    mask
}

pub fn chosen_log_probability(hidden: &Tensor, head: &Tensor, targets: &[u32]) -> Result<Tensor> {
    let logits = linear(hidden, head)?.to_dtype(DType::F32)?;
    let targets = Tensor::new(targets, hidden.device())?.unsqueeze(1)?;
    candle_nn::ops::log_softmax(&logits, D::Minus1)?.gather(&targets, 1)?.squeeze(1)
}
