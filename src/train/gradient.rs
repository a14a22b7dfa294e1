//! Gradients of one step: gathered by name, summed over micro-batches, measured and checked.

use std::collections::BTreeMap;

use candle_core::backprop::GradStore;
use candle_core::{Device, Tensor, Var};
use rayon::prelude::*;

use super::memory::with_values;
use crate::error::{Error, Result};
use crate::rank::Group;

/// Values per partial sum of a norm: fixed, so that the sum does not depend on the number of threads.
const CHUNK: usize = 1 << 14;

/// Values that ranks sum together, at least: each sum costs a message's time, and adapters are hundreds of small tensors.
const BUCKET: usize = 1 << 22;

/// The summed gradients of a step's micro-batches.
#[derive(Debug, Default)]
pub struct Accumulator {
    gradients: BTreeMap<String, Tensor>,
}

impl Accumulator {
    /// Adds a micro-batch's gradients. Losses are shares of the step's loss, so the sum is the big batch's gradient.
    ///
    /// # Errors
    /// [`Error::Failed`] naming a parameter that got no gradient; tensor errors.
    pub fn add(&mut self, parameters: &BTreeMap<String, Var>, mut fresh: GradStore) -> Result<()> {
        for (name, parameter) in parameters {
            let gradient = fresh
                .remove(parameter.as_tensor())
                .ok_or_else(|| Error::Failed(format!("`{name}` is trained but gets no gradient from the loss")))?;
            let sum = match self.gradients.remove(name) {
                // A new tensor, never in place: backward may hand one buffer to two parameters.
                Some(sum) => (sum + gradient)?,
                None => gradient,
            };
            self.gradients.insert(name.clone(), sum);
        }
        Ok(())
    }

    /// Adds up what all ranks have, in the order of the parameters' names. A rank that had no micro-batch gives zeros.
    ///
    /// # Errors
    /// As [`Group::sum`].
    pub fn sum_over(&mut self, group: &dyn Group, parameters: &BTreeMap<String, Var>) -> Result<()> {
        if group.is_alone() {
            return Ok(());
        }
        let (mut bucket, mut values) = (Vec::new(), 0);
        for (name, parameter) in parameters {
            let own = match self.gradients.remove(name) {
                Some(own) => own,
                None => parameter.as_tensor().zeros_like()?.detach(),
            };
            values += own.elem_count();
            bucket.push((name.clone(), own));
            if values >= BUCKET {
                self.sum_bucket(group, std::mem::take(&mut bucket))?;
                values = 0;
            }
        }
        if bucket.is_empty() { Ok(()) } else { self.sum_bucket(group, bucket) }
    }

    /// Sums these tensors end to end.
    fn sum_bucket(&mut self, group: &dyn Group, bucket: Vec<(String, Tensor)>) -> Result<()> {
        let flat: Vec<Tensor> = bucket.iter().map(|(_, own)| own.flatten_all()).collect::<candle_core::Result<_>>()?;
        let sums = group.sum(&Tensor::cat(&flat, 0)?)?; // [values of the bucket]
        let mut start = 0;
        for (name, own) in bucket {
            let sum = sums.narrow(0, start, own.elem_count())?.reshape(own.shape())?;
            start += own.elem_count();
            self.gradients.insert(name, sum);
        }
        Ok(())
    }

    /// The sums, by parameter name.
    pub fn gradients(&self) -> &BTreeMap<String, Tensor> {
        &self.gradients
    }
}

/// Euclidean norm over all gradients together, summed in f64 in the order of their names.
///
/// # Errors
/// Tensor errors.
pub fn global_norm(gradients: &BTreeMap<String, Tensor>) -> Result<f64> {
    let mut sum = 0.0;
    for gradient in gradients.values() {
        sum += square_sum(gradient)?;
    }
    Ok(sum.sqrt())
}

fn square_sum(gradient: &Tensor) -> Result<f64> {
    let host = gradient.to_device(&Device::Cpu)?.contiguous()?;
    let partial = |chunk: &[f32]| chunk.iter().map(|&value| f64::from(value) * f64::from(value)).sum::<f64>();
    let partials: Vec<f64> = with_values(&host, |values| values.par_chunks(CHUNK).map(partial).collect())?;
    Ok(partials.iter().sum())
}

/// The factor that brings `norm` down to `limit`; 1 when it is within.
pub fn clip_factor(norm: f64, limit: f64) -> f64 {
    // The small constant is torch's `clip_grad_norm_`, so that the two agree to the last digit.
    (limit / (norm + 1e-6)).min(1.0)
}
