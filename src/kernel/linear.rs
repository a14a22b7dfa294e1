//! y = x w^T, without gradient work for frozen weights (Candle's `matmul` always computes both gradients).

use candle_core::{CpuStorage, CustomOp2, Layout, Result, Shape, Tensor};

use super::matrix::{Threads, View, multiply};
use super::storage::{slice, with_values};
use super::{WeightGradient, composed, is_fused};

struct Linear {
    weight_gradient: WeightGradient,
}

/// `x` [tokens, input] times `weight` [output, input] transposed: [tokens, output].
///
/// # Errors
/// Shapes that do not fit.
pub fn linear(x: &Tensor, weight: &Tensor, weight_gradient: WeightGradient) -> Result<Tensor> {
    if is_fused(x) {
        x.contiguous()?.apply_op2(weight, Linear { weight_gradient })
    } else {
        composed::linear(x, weight)
    }
}

impl CustomOp2 for Linear {
    fn name(&self) -> &'static str {
        "linear"
    }

    fn cpu_fwd(&self, s1: &CpuStorage, l1: &Layout, s2: &CpuStorage, l2: &Layout) -> Result<(CpuStorage, Shape)> {
        let ((tokens, input), (output, weight_input)) = (l1.shape().dims2()?, l2.shape().dims2()?);
        if input != weight_input {
            candle_core::bail!("linear: input has width {input}, weight expects {weight_input}");
        }
        let (x, weight) = (slice(s1, l1)?, slice(s2, l2)?);
        let mut y = vec![0.0; tokens * output];
        let right = View::new(weight, output, input, input).transposed();
        multiply(&mut y, output, View::new(x, tokens, input, input), right, 1.0, false, Threads::All);
        Ok((CpuStorage::F32(y), (tokens, output).into()))
    }

    fn bwd(&self, x: &Tensor, weight: &Tensor, _: &Tensor, gradient: &Tensor) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let ((tokens, input), (output, _)) = (x.dims2()?, weight.dims2()?);
        with_values(gradient, |gradient| {
            let gradient = View::new(gradient, tokens, output, output);
            // The first layer of a frozen base reads an embedding that no gradient reaches.
            let to_x = if x.track_op() {
                Some(with_values(weight, |weight| {
                    let mut to_x = vec![0.0; tokens * input];
                    let right = View::new(weight, output, input, input);
                    multiply(&mut to_x, input, gradient, right, 1.0, false, Threads::All);
                    Tensor::from_vec(to_x, (tokens, input), x.device())
                })?)
            } else {
                None
            };
            if self.weight_gradient == WeightGradient::Frozen {
                return Ok((to_x, None));
            }
            let to_weight = with_values(x, |x| {
                let mut to_weight = vec![0.0; output * input];
                let right = View::new(x, tokens, input, input);
                multiply(&mut to_weight, input, gradient.transposed(), right, 1.0, false, Threads::All);
                Tensor::from_vec(to_weight, (output, input), weight.device())
            })?;
            Ok((to_x, Some(to_weight)))
        })
    }
}

