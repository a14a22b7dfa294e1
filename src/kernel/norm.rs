//! Root-mean-square norm (Zhang and Sennrich 2019): y = x w / sqrt(mean(x^2) + epsilon), over the last dimension.

use candle_core::{CpuStorage, CustomOp2, Layout, Result, Shape, Tensor};
use rayon::prelude::*;

use super::storage::{slice, tensor_like, with_values};
use super::{WeightGradient, composed, is_fused};

/// Rows handled by one task.
const ROWS: usize = 32;

struct RmsNorm {
    epsilon: f32,
    weight_gradient: WeightGradient,
}

/// `x` `[tokens, hidden]` normed row by row and scaled by `weight` `[hidden]`.
///
/// # Errors
/// Shapes that do not fit.
pub fn rms_norm(x: &Tensor, weight: &Tensor, epsilon: f64, weight_gradient: WeightGradient) -> Result<Tensor> {
    if is_fused(x) {
        x.contiguous()?.apply_op2(weight, RmsNorm { epsilon: epsilon as f32, weight_gradient })
    } else {
        composed::rms_norm(x, weight, epsilon, weight_gradient)
    }
}

fn inverse_root(row: &[f32], epsilon: f32) -> f32 {
    let squares: f32 = row.iter().map(|value| value * value).sum();
    1.0 / (squares / row.len() as f32 + epsilon).sqrt()
}

impl CustomOp2 for RmsNorm {
    fn name(&self) -> &'static str {
        "rms-norm"
    }

    fn cpu_fwd(&self, s1: &CpuStorage, l1: &Layout, s2: &CpuStorage, l2: &Layout) -> Result<(CpuStorage, Shape)> {
        let (x, weight) = (slice(s1, l1)?, slice(s2, l2)?);
        let hidden = weight.len();
        if hidden == 0 || l1.shape().dims().last() != Some(&hidden) {
            candle_core::bail!("rms norm: weight has {hidden} values, input is {:?}", l1.shape());
        }
        let mut y = vec![0.0; x.len()];
        y.par_chunks_mut(hidden * ROWS).zip(x.par_chunks(hidden * ROWS)).for_each(|(y, x)| {
            for (y, x) in y.chunks_mut(hidden).zip(x.chunks(hidden)) {
                let scale = inverse_root(x, self.epsilon);
                for ((y, x), weight) in y.iter_mut().zip(x).zip(weight) {
                    *y = x * scale * weight;
                }
            }
        });
        Ok((CpuStorage::F32(y), l1.shape().clone()))
    }

    fn bwd(
        &self,
        x: &Tensor,
        weight: &Tensor,
        _: &Tensor,
        gradient: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let (to_x, to_weight) = with_values(x, |x| {
            with_values(weight, |weight| with_values(gradient, |gradient| Ok(self.gradients(x, weight, gradient))))
        })?;
        let to_weight = match self.weight_gradient {
            WeightGradient::Needed => Some(tensor_like(to_weight, weight)?),
            WeightGradient::Frozen => None,
        };
        Ok((Some(tensor_like(to_x, x)?), to_weight))
    }
}

impl RmsNorm {
    fn gradients(&self, x: &[f32], weight: &[f32], gradient: &[f32]) -> (Vec<f32>, Vec<f32>) {
        let hidden = weight.len();
        let mut to_x = vec![0.0; x.len()];
        let partial: Vec<Vec<f32>> = to_x
            .par_chunks_mut(hidden * ROWS)
            .zip(x.par_chunks(hidden * ROWS))
            .zip(gradient.par_chunks(hidden * ROWS))
            .map(|((to_x, x), gradient)| {
                let mut to_weight = vec![0.0; hidden];
                for ((to_x, x), gradient) in to_x.chunks_mut(hidden).zip(x.chunks(hidden)).zip(gradient.chunks(hidden))
                {
                    let scale = inverse_root(x, self.epsilon);
                    let dot: f32 = gradient.iter().zip(weight).zip(x).map(|((g, w), x)| g * w * x).sum();
                    let pull = dot * scale * scale * scale / hidden as f32;
                    for index in 0..hidden {
                        to_x[index] = gradient[index] * weight[index] * scale - x[index] * pull;
                        to_weight[index] += gradient[index] * x[index] * scale;
                    }
                }
                to_weight
            })
            .collect();
        // Summed in order, so that the result does not depend on which thread finished first.
        let mut to_weight = vec![0.0; hidden];
        for part in partial {
            to_weight.iter_mut().zip(part).for_each(|(sum, value)| *sum += value);
        }
        (to_x, to_weight)
    }
}
