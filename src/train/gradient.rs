//! Gradients of one step: gathered by name, summed over micro-batches, measured and checked.

use std::collections::BTreeMap;

use candle_core::backprop::GradStore;
use candle_core::{D, Device, Tensor, Var};
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
    if let Some(gradient) = gradients.values().find(|gradient| !gradient.device().is_cpu()) {
        let device = gradient.device().clone();
        return on_device(gradients, &device);
    }
    let mut sum = 0.0;
    for gradient in gradients.values() {
        sum += square_sum(gradient)?;
    }
    Ok(sum.sqrt())
}

fn square_sum(gradient: &Tensor) -> Result<f64> {
    let gradient = gradient.contiguous()?;
    let partial = |chunk: &[f32]| chunk.iter().map(|&value| f64::from(value) * f64::from(value)).sum::<f64>();
    let partials: Vec<f64> = with_values(&gradient, |values| values.par_chunks(CHUNK).map(partial).collect())?;
    Ok(partials.iter().sum())
}

/// The norm where gradients are on a GPU: rows are summed there in f32, their sums in f64 here, and only those are moved.
fn on_device(gradients: &BTreeMap<String, Tensor>, device: &Device) -> Result<f64> {
    let row_sums = |gradient: &Tensor| gradient.to_device(device)?.sqr()?.sum(D::Minus1)?.flatten_all();
    let sums = gradients.values().map(row_sums).collect::<candle_core::Result<Vec<_>>>()?;
    let sums = Tensor::cat(&sums, 0)?.to_vec1::<f32>()?;
    Ok(sums.iter().map(|&sum| f64::from(sum)).sum::<f64>().sqrt())
}

/// The factor that brings `norm` down to `limit`; 1 when it is within.
pub fn clip_factor(norm: f64, limit: f64) -> f64 {
    // The small constant is torch's `clip_grad_norm_`, so that the two agree to the last digit.
    (limit / (norm + 1e-6)).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_norm_on_a_device_is_the_norm_on_the_host() {
        let tensor = |shape: &[usize]| {
            let count = shape.iter().product::<usize>();
            let values: Vec<f32> = (0..count).map(|value| (value as f32 * 0.7).sin() * 3.0).collect();
            Tensor::from_vec(values, shape, &Device::Cpu).unwrap()
        };
        let gradients = BTreeMap::from([
            ("matrix".to_owned(), tensor(&[70, 33])),
            ("turned".to_owned(), tensor(&[5, 8]).t().unwrap()),
            ("vector".to_owned(), tensor(&[33])),
        ]);
        let (host, device) = (global_norm(&gradients).unwrap(), on_device(&gradients, &Device::Cpu).unwrap());
        assert!((host - device).abs() < 1e-5 * host && host > 50.0, "{host} {device}");
    }
}
