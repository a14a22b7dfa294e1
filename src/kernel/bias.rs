//! A bias added to every row, with its gradient summed over the rows where it is trained.

use candle_core::{CpuStorage, CustomOp2, Layout, Result, Shape, Tensor};
use rayon::prelude::*;

use super::storage::{slice, tensor_like, with_values};
use super::{WeightGradient, composed, is_fused};

/// Rows handled by one task.
const ROWS: usize = 32;

struct Bias {
    gradient: WeightGradient,
}

/// `x` `[tokens, width]` plus `bias` `[width]` in each row.
///
/// # Errors
/// Shapes that do not fit.
pub fn add_bias(x: &Tensor, bias: &Tensor, gradient: WeightGradient) -> Result<Tensor> {
    if is_fused(x) { x.contiguous()?.apply_op2(bias, Bias { gradient }) } else { composed::add_bias(x, bias, gradient) }
}

impl CustomOp2 for Bias {
    fn name(&self) -> &'static str {
        "bias"
    }

    fn cpu_fwd(&self, s1: &CpuStorage, l1: &Layout, s2: &CpuStorage, l2: &Layout) -> Result<(CpuStorage, Shape)> {
        let (x, bias) = (slice(s1, l1)?, slice(s2, l2)?);
        let width = bias.len();
        if width == 0 || l1.shape().dims().last() != Some(&width) {
            candle_core::bail!("bias: it has {width} values, input is {:?}", l1.shape());
        }
        let mut y = x.to_vec();
        y.par_chunks_mut(width * ROWS).for_each(|rows| {
            for row in rows.chunks_mut(width) {
                row.iter_mut().zip(bias).for_each(|(value, bias)| *value += bias);
            }
        });
        Ok((CpuStorage::F32(y), l1.shape().clone()))
    }

    fn bwd(
        &self,
        _: &Tensor,
        bias: &Tensor,
        _: &Tensor,
        gradient: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let to_bias = match self.gradient {
            WeightGradient::Frozen => None,
            WeightGradient::Needed => Some(tensor_like(
                with_values(gradient, |gradient| {
                    let mut sums = vec![0.0_f32; bias.elem_count()];
                    for row in gradient.chunks(sums.len().max(1)) {
                        sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
                    }
                    Ok(sums)
                })?,
                bias,
            )?),
        };
        Ok((Some(gradient.clone()), to_bias))
    }
}
