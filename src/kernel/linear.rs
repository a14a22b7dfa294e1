//! y = x w^T, without gradient work for frozen weights (Candle's `matmul` always computes both gradients).

use candle_core::{CpuStorage, CustomOp2, Layout, Result, Shape, Tensor};
use rayon::prelude::*;

use super::matrix::{Threads, View, multiply};
use super::storage::{slice, with_values};
use super::{Product, WeightGradient, composed, is_fused};
use crate::recipe::settings::Arithmetic;

struct Linear {
    product: Product,
}

/// `x` `[tokens, input]` times `weight` `[output, input]` transposed: `[tokens, output]`.
///
/// # Errors
/// Shapes that do not fit.
pub fn linear(x: &Tensor, weight: &Tensor, product: impl Into<Product>) -> Result<Tensor> {
    if is_fused(x) {
        x.contiguous()?.apply_op2(weight, Linear { product: product.into() })
    } else {
        composed::linear(x, weight, product.into().weight_gradient)
    }
}

/// Batches of decoding steps. A single row is a matrix-vector product, which `gemm` has a path for.
const FEW_ROWS: std::ops::RangeInclusive<usize> = 2..=16;

/// The product for few rows, as w x^T: `gemm` rearranges its right side, which here must not be the weight, for that would
/// cost more than the product. Each task reads its own rows of the weight once. `[tokens, output]`
fn few_rows(x: &[f32], weight: &[f32], tokens: usize, input: usize) -> Vec<f32> {
    let output = weight.len() / input;
    let mut transposed = vec![0.0; tokens * output];
    let rows = output.div_ceil(2 * rayon::current_num_threads()).max(64);
    transposed.par_chunks_mut(rows * tokens).zip(weight.par_chunks(rows * input)).for_each(|(y, weight)| {
        let left = View::new(weight, weight.len() / input, input, input);
        multiply(y, tokens, left, View::new(x, tokens, input, input).transposed(), 1.0, false, Threads::One);
    });
    let mut y = vec![0.0; tokens * output];
    for (column, values) in transposed.chunks(tokens).enumerate() {
        for (row, value) in values.iter().enumerate() {
            y[row * output + column] = *value;
        }
    }
    y
}

/// x w^T of `x` `[tokens, input]` and `weight` `[output, input]`: `[tokens, output]`.
pub(super) fn product(x: &[f32], weight: &[f32], tokens: usize, input: usize, arithmetic: Arithmetic) -> Vec<f32> {
    if FEW_ROWS.contains(&tokens) && input > 0 {
        return few_rows(x, weight, tokens, input);
    }
    let output = weight.len().checked_div(input).unwrap_or(0);
    let mut y = vec![0.0; tokens * output];
    let right = View::new(weight, output, input, input).transposed();
    multiply(&mut y, output, View::new(x, tokens, input, input), right, 1.0, false, Threads::All(arithmetic));
    y
}

/// The gradient at `x`: `gradient` `[tokens, output]` times `weight` `[output, input]`.
pub(super) fn to_input(
    gradient: &[f32],
    weight: &[f32],
    tokens: usize,
    input: usize,
    arithmetic: Arithmetic,
) -> Vec<f32> {
    let output = weight.len().checked_div(input).unwrap_or(0);
    let mut to_x = vec![0.0; tokens * input];
    let (left, right) = (View::new(gradient, tokens, output, output), View::new(weight, output, input, input));
    multiply(&mut to_x, input, left, right, 1.0, false, Threads::All(arithmetic));
    to_x
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
        let y = product(x, weight, tokens, input, self.product.arithmetic);
        Ok((CpuStorage::F32(y), (tokens, output).into()))
    }

    fn bwd(
        &self,
        x: &Tensor,
        weight: &Tensor,
        _: &Tensor,
        gradient: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let ((tokens, input), (output, _)) = (x.dims2()?, weight.dims2()?);
        with_values(gradient, |gradient| {
            // The first layer of a frozen base reads an embedding that no gradient reaches.
            let to_x = if x.track_op() {
                Some(with_values(weight, |weight| {
                    let to_x = to_input(gradient, weight, tokens, input, self.product.arithmetic);
                    Tensor::from_vec(to_x, (tokens, input), x.device())
                })?)
            } else {
                None
            };
            if self.product.weight_gradient == WeightGradient::Frozen {
                return Ok((to_x, None));
            }
            let to_weight = with_values(x, |x| {
                let mut to_weight = vec![0.0; output * input];
                let right = View::new(x, tokens, input, input);
                multiply(
                    &mut to_weight,
                    input,
                    View::new(gradient, tokens, output, output).transposed(),
                    right,
                    1.0,
                    false,
                    Threads::All(self.product.arithmetic),
                );
                Tensor::from_vec(to_weight, (output, input), weight.device())
            })?;
            Ok((to_x, Some(to_weight)))
        })
    }
}
