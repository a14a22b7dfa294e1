//! Log-probability of chosen tokens: log softmax(hidden head^T)`[target]`, in chunks of rows, so that `[rows, vocabulary]` never
//! exists whole. f32 throughout.

use std::sync::{Arc, OnceLock};

use candle_core::{CpuStorage, CustomOp2, Layout, Result, Shape, Tensor, bail};
use rayon::prelude::*;

use super::exponential::{exp, exp_in_place, maximum};
use super::matrix::{Threads, View, multiply};
use super::storage::{slice, with_values};
use super::{Product, WeightGradient, composed, is_fused};
use crate::device::{Compute, NumberFormat};

/// Rows whose logits exist at one time where `device` computes them.
pub fn rows_together(vocabulary: usize, compute: &Compute) -> usize {
    if compute.device.is_cpu() && compute.format == NumberFormat::F32 { ROWS } else { composed::head_rows(vocabulary) }
}

/// Rows whose logits exist at one time.
const ROWS: usize = 256;

struct ChosenLogProbability {
    targets: Arc<Vec<u32>>,
    product: Product,
    /// The hidden rows are tracked, so a backward may come.
    tracked: bool,
    saved: OnceLock<Saved>,
}

/// What the forward keeps for the backward.
enum Saved {
    /// The head is trained: the logits are computed again, and only each row's log-sum is kept. `[rows]`
    LogSums(Vec<f32>),
    /// The head is frozen: d log p / d hidden, which the backward only scales, so no product is done twice.
    /// `[rows, hidden]`
    Derivative(Vec<f32>),
}

/// `hidden` `[rows, hidden]`, `head` `[vocabulary, hidden]`, one target for each row: log-probabilities `[rows]`.
///
/// # Errors
/// Shapes that do not fit, or a target outside the vocabulary.
pub fn chosen_log_probability(
    hidden: &Tensor,
    head: &Tensor,
    targets: &[u32],
    product: impl Into<Product>,
) -> Result<Tensor> {
    let ((rows, width), (vocabulary, head_width)) = (hidden.dims2()?, head.dims2()?);
    if rows != targets.len() || width != head_width {
        bail!(
            "log-probability: hidden {:?}, head {:?}, {} targets do not fit",
            hidden.shape(),
            head.shape(),
            targets.len()
        );
    }
    if let Some(target) = targets.iter().find(|&&target| target as usize >= vocabulary) {
        bail!("log-probability: target {target} is outside the vocabulary of {vocabulary}");
    }
    let product = product.into();
    if is_fused(hidden) {
        let targets = Arc::new(targets.to_vec());
        let tracked = hidden.track_op();
        let operation = ChosenLogProbability { targets, product, tracked, saved: OnceLock::new() };
        hidden.contiguous()?.apply_op2(head, operation)
    } else {
        composed::chosen_log_probability(hidden, head, targets, product.weight_gradient)
    }
}

impl CustomOp2 for ChosenLogProbability {
    fn name(&self) -> &'static str {
        "chosen-log-probability"
    }

    fn cpu_fwd(&self, s1: &CpuStorage, l1: &Layout, s2: &CpuStorage, l2: &Layout) -> Result<(CpuStorage, Shape)> {
        let (hidden, head) = (slice(s1, l1)?, slice(s2, l2)?);
        let ((rows, width), (vocabulary, _)) = (l1.shape().dims2()?, l2.shape().dims2()?);
        let keeps_derivative = self.tracked && self.product.weight_gradient == WeightGradient::Frozen;
        let mut values = vec![0.0; rows];
        let mut log_sums = vec![0.0; rows];
        let mut derivative = vec![0.0; if keeps_derivative { rows * width } else { 0 }];
        let head = View::new(head, vocabulary, width, width);
        let mut logits = vec![0.0; ROWS.min(rows) * vocabulary];
        for start in (0..rows).step_by(ROWS) {
            let count = ROWS.min(rows - start);
            let logits = &mut logits[..count * vocabulary];
            let input = View::new(&hidden[start * width..], count, width, width);
            multiply(logits, vocabulary, input, head.transposed(), 1.0, false, Threads::All(self.product.arithmetic));
            logits
                .par_chunks_mut(vocabulary)
                .zip(&mut values[start..start + count])
                .zip(&mut log_sums[start..start + count])
                .zip(&self.targets[start..start + count])
                .for_each(|(((logits, value), log_sum), &target)| {
                    let largest = maximum(logits);
                    let chosen = logits[target as usize];
                    let sum = exp_in_place(logits, largest);
                    *log_sum = largest + sum.ln();
                    *value = chosen - *log_sum;
                    if keeps_derivative {
                        // d log p / d logits = one-hot(target) - softmax.
                        let scale = -1.0 / sum;
                        for value in logits.iter_mut() {
                            *value *= scale;
                        }
                        logits[target as usize] += 1.0;
                    }
                });
            if keeps_derivative {
                let output = &mut derivative[start * width..(start + count) * width];
                multiply(
                    output,
                    width,
                    View::new(logits, count, vocabulary, vocabulary),
                    head,
                    1.0,
                    false,
                    Threads::All(self.product.arithmetic),
                );
            }
        }
        let saved = if keeps_derivative { Saved::Derivative(derivative) } else { Saved::LogSums(log_sums) };
        let _ = self.saved.set(saved);
        Ok((CpuStorage::F32(values), rows.into()))
    }

    fn bwd(
        &self,
        hidden: &Tensor,
        head: &Tensor,
        _: &Tensor,
        gradient: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let shape = hidden.dims2()?;
        match self.saved.get() {
            None => bail!("log-probability: backward before forward"),
            Some(Saved::Derivative(derivative)) => {
                let to_hidden = with_values(gradient, |gradient| {
                    let rows = derivative.chunks(shape.1).zip(gradient);
                    Ok(rows
                        .flat_map(|(row, gradient)| row.iter().map(move |value| value * gradient))
                        .collect::<Vec<_>>())
                })?;
                Ok((Some(Tensor::from_vec(to_hidden, shape, hidden.device())?), None))
            }
            Some(Saved::LogSums(log_sums)) => self.recompute(hidden, head, log_sums, gradient),
        }
    }
}

impl ChosenLogProbability {
    fn recompute(
        &self,
        hidden: &Tensor,
        head: &Tensor,
        log_sums: &[f32],
        gradient: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let ((rows, width), (vocabulary, _)) = (hidden.dims2()?, head.dims2()?);
        let trains_head = self.product.weight_gradient == WeightGradient::Needed;
        let mut to_hidden = vec![0.0; rows * width];
        let mut to_head = vec![0.0; if trains_head { vocabulary * width } else { 0 }];
        with_values(hidden, |hidden| {
            with_values(head, |head| {
                with_values(gradient, |gradient| {
                    let head = View::new(head, vocabulary, width, width);
                    let mut logits = vec![0.0; ROWS.min(rows) * vocabulary];
                    for start in (0..rows).step_by(ROWS) {
                        let count = ROWS.min(rows - start);
                        let logits = &mut logits[..count * vocabulary];
                        let input = View::new(&hidden[start * width..], count, width, width);
                        multiply(
                            logits,
                            vocabulary,
                            input,
                            head.transposed(),
                            1.0,
                            false,
                            Threads::All(self.product.arithmetic),
                        );
                        logits.par_chunks_mut(vocabulary).enumerate().for_each(|(row, logits)| {
                            let (log_sum, gradient) = (log_sums[start + row], gradient[start + row]);
                            for value in logits.iter_mut() {
                                *value = -gradient * exp(*value - log_sum);
                            }
                            logits[self.targets[start + row] as usize] += gradient;
                        });
                        let at_logits = View::new(logits, count, vocabulary, vocabulary);
                        let output = &mut to_hidden[start * width..(start + count) * width];
                        multiply(output, width, at_logits, head, 1.0, false, Threads::All(self.product.arithmetic));
                        if trains_head {
                            multiply(
                                &mut to_head,
                                width,
                                at_logits.transposed(),
                                input,
                                1.0,
                                start > 0,
                                Threads::All(self.product.arithmetic),
                            );
                        }
                    }
                    Ok(())
                })
            })
        })?;
        let to_hidden = Tensor::from_vec(to_hidden, (rows, width), hidden.device())?;
        let to_head = trains_head.then(|| Tensor::from_vec(to_head, (vocabulary, width), head.device())).transpose()?;
        Ok((Some(to_hidden), to_head))
    }
}
