//! The gate of the feed-forward block (Shazeer 2020): silu(gate) * up.

use candle_core::{CpuStorage, CustomOp2, Layout, Result, Shape, Tensor};
use rayon::prelude::*;

use super::exponential::exp;
use super::storage::{slice, tensor_like, with_values};
use super::{composed, is_fused};

/// Values handled by one task.
const CHUNK: usize = 16_384;

struct SwiGlu;

/// silu(`gate`) * `up`, both `[tokens, intermediate]`.
///
/// # Errors
/// Shapes that differ.
pub fn swiglu(gate: &Tensor, up: &Tensor) -> Result<Tensor> {
    if is_fused(gate) { gate.contiguous()?.apply_op2(&up.contiguous()?, SwiGlu) } else { composed::swiglu(gate, up) }
}

impl CustomOp2 for SwiGlu {
    fn name(&self) -> &'static str {
        "swiglu"
    }

    fn cpu_fwd(&self, s1: &CpuStorage, l1: &Layout, s2: &CpuStorage, l2: &Layout) -> Result<(CpuStorage, Shape)> {
        if l1.shape() != l2.shape() {
            candle_core::bail!("swiglu: shapes differ: {:?} and {:?}", l1.shape(), l2.shape());
        }
        let (gate, up) = (slice(s1, l1)?, slice(s2, l2)?);
        let mut y = vec![0.0; gate.len()];
        y.par_chunks_mut(CHUNK).zip(gate.par_chunks(CHUNK)).zip(up.par_chunks(CHUNK)).for_each(|((y, gate), up)| {
            for ((y, gate), up) in y.iter_mut().zip(gate).zip(up) {
                *y = gate / (1.0 + exp(-gate)) * up;
            }
        });
        Ok((CpuStorage::F32(y), l1.shape().clone()))
    }

    fn bwd(
        &self,
        gate: &Tensor,
        up: &Tensor,
        _: &Tensor,
        gradient: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let (to_gate, to_up) = with_values(gate, |gate| {
            with_values(up, |up| with_values(gradient, |gradient| Ok(gradients(gate, up, gradient))))
        })?;
        Ok((Some(tensor_like(to_gate, gate)?), Some(tensor_like(to_up, up)?)))
    }
}

fn gradients(gate: &[f32], up: &[f32], gradient: &[f32]) -> (Vec<f32>, Vec<f32>) {
    let mut to_gate = vec![0.0; gate.len()];
    let mut to_up = vec![0.0; gate.len()];
    to_gate
        .par_chunks_mut(CHUNK)
        .zip(to_up.par_chunks_mut(CHUNK))
        .zip(gate.par_chunks(CHUNK))
        .zip(up.par_chunks(CHUNK))
        .zip(gradient.par_chunks(CHUNK))
        .for_each(|((((to_gate, to_up), gate), up), gradient)| {
            for index in 0..gate.len() {
                let sigmoid = 1.0 / (1.0 + exp(-gate[index]));
                let silu = gate[index] * sigmoid;
                to_up[index] = gradient[index] * silu;
                to_gate[index] = gradient[index] * up[index] * (sigmoid * (1.0 - silu) + silu);
            }
        });
    (to_gate, to_up)
}
