//! Adam with decoupled weight decay (Loshchilov and Hutter 2019, algorithm 2), `AdamW`, as torch computes it.
//!
//! In: named parameters and their gradients. Out: the parameters, changed in place. Moments are f32 and by name, so that a
//! checkpoint can hold them and a resumed run continues exactly. On the CPU one fused pass over each parameter reads and
//! writes every value once; elsewhere the same formula is composed from tensor operations.

use std::collections::BTreeMap;

use candle_core::{DType, Device, Tensor, Var};
use rayon::prelude::*;

use super::memory::{with_values, with_values_mut};
use crate::error::{Error, Fault, Result};

/// Values that one task of the fused pass updates: large enough to hide its start, small enough to share out evenly.
const CHUNK: usize = 1 << 14;

/// The constants of [`AdamW`] that no recipe changes: torch's and TRL's defaults.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdamConstants {
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// Added to the root of the second moment.
    pub epsilon: f64,
}

impl Default for AdamConstants {
    fn default() -> Self {
        Self { beta1: 0.9, beta2: 0.999, epsilon: 1e-8 }
    }
}

/// What changes from step to step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Update {
    /// Learning rate of this step.
    pub learning_rate: f64,
    /// Every gradient is multiplied by this first: the clipping factor.
    pub gradient_scale: f64,
    /// Decoupled decay, of [`DecayGroup::Decayed`] only.
    pub weight_decay: f64,
}

/// Which parameters decay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecayGroup {
    /// Matrices: projections, embeddings, adapters.
    Decayed,
    /// Weights of norms, biases and whatever else is a vector.
    Plain,
}

impl DecayGroup {
    /// The group of a parameter, by its name and its rank: a bias or a norm's weight does not decay, whatever its shape.
    pub fn of(name: &str, rank: usize) -> Self {
        let is_norm = name.split('.').any(|part| part.ends_with("norm"));
        if rank < 2 || is_norm || name.ends_with("bias") { Self::Plain } else { Self::Decayed }
    }
}

/// First and second moment of one parameter, f32, of the parameter's shape.
#[derive(Debug)]
struct Moments {
    first: Var,
    second: Var,
}

/// The optimizer: moments by parameter name and the number of updates made.
#[derive(Debug)]
pub struct AdamW {
    constants: AdamConstants,
    moments: BTreeMap<String, Moments>,
    updates: usize,
}

impl AdamW {
    /// Zero moments for every parameter.
    ///
    /// # Errors
    /// A [`Fault`] naming a parameter that is not f32 (in bf16 an update of 1e-6 changes nothing); tensor errors.
    pub fn new(parameters: &BTreeMap<String, Var>, constants: AdamConstants) -> Result<Self> {
        let mut moments = BTreeMap::new();
        for (name, parameter) in parameters {
            if parameter.dtype() != DType::F32 {
                return Err(Fault::new("a trained parameter must be f32")
                    .at(name)
                    .got(parameter.dtype().as_str())
                    .into());
            }
            let zeros = || Var::zeros(parameter.shape(), DType::F32, parameter.device());
            moments.insert(name.clone(), Moments { first: zeros()?, second: zeros()? });
        }
        Ok(Self { constants, moments, updates: 0 })
    }

    /// Updates made so far.
    pub fn updates(&self) -> usize {
        self.updates
    }

    /// Makes one update of every parameter, in the order of their names.
    ///
    /// # Errors
    /// [`Error::Failed`] naming a parameter without a gradient or moments; tensor errors.
    pub fn update(
        &mut self,
        parameters: &BTreeMap<String, Var>,
        gradients: &BTreeMap<String, Tensor>,
        update: Update,
    ) -> Result<()> {
        self.updates += 1;
        for (name, parameter) in parameters {
            let gradient = gradients.get(name).ok_or_else(|| Error::Failed(format!("no gradient for `{name}`")))?;
            let moments = self.moments.get(name).ok_or_else(|| Error::Failed(format!("no moments for `{name}`")))?;
            let coefficients =
                Coefficients::new(self.constants, update, self.updates, DecayGroup::of(name, parameter.rank()));
            match parameter.device() {
                Device::Cpu => fused(parameter, moments, gradient, coefficients)?,
                _ => composed(parameter, moments, gradient, coefficients)?,
            }
        }
        Ok(())
    }

    /// Moments as tensors named `first.NAME` and `second.NAME`, for a checkpoint. They share memory with the optimizer.
    pub fn state(&self) -> BTreeMap<String, Tensor> {
        let named = |(name, moments): (&String, &Moments)| {
            [
                (format!("first.{name}"), moments.first.as_tensor().clone()),
                (format!("second.{name}"), moments.second.as_tensor().clone()),
            ]
        };
        self.moments.iter().flat_map(named).collect()
    }

    /// Takes over moments that [`AdamW::state`] gave, and the number of updates they come from.
    ///
    /// # Errors
    /// A [`Fault`] naming a moment that is missing or has another shape.
    pub fn restore(&mut self, state: &BTreeMap<String, Tensor>, updates: usize) -> Result<()> {
        for (name, moments) in &self.moments {
            for (kind, moment) in [("first", &moments.first), ("second", &moments.second)] {
                restore_values(moment, state, &format!("{kind}.{name}"))?;
            }
        }
        self.updates = updates;
        Ok(())
    }
}

/// Copies `state[name]` into `variable`.
///
/// # Errors
/// A [`Fault`] if it is missing or has another shape or type.
pub fn restore_values(variable: &Var, state: &BTreeMap<String, Tensor>, name: &str) -> Result<()> {
    let tensor = state.get(name).ok_or_else(|| Fault::new("the checkpoint lacks a tensor").at(name))?;
    if tensor.shape() != variable.shape() || tensor.dtype() != variable.dtype() {
        return Err(Fault::new("a tensor of the checkpoint does not fit the model")
            .at(name)
            .got(format!("{:?} {}", tensor.dims(), tensor.dtype().as_str()))
            .expected(format!("{:?} {}", variable.dims(), variable.dtype().as_str()))
            .into());
    }
    Ok(variable.set(tensor)?)
}

/// One step's factors, with the bias corrections folded in.
#[derive(Debug, Clone, Copy)]
struct Coefficients {
    gradient_scale: f64,
    beta1: f64,
    beta2: f64,
    epsilon: f64,
    keep: f64,
    step_size: f64,
    second_correction: f64,
}

impl Coefficients {
    fn new(constants: AdamConstants, update: Update, updates: usize, group: DecayGroup) -> Self {
        let count = i32::try_from(updates).unwrap_or(i32::MAX);
        let decay = if group == DecayGroup::Decayed { update.weight_decay } else { 0.0 };
        Self {
            gradient_scale: update.gradient_scale,
            beta1: constants.beta1,
            beta2: constants.beta2,
            epsilon: constants.epsilon,
            keep: 1.0 - update.learning_rate * decay,
            step_size: update.learning_rate / (1.0 - constants.beta1.powi(count)),
            second_correction: 1.0 / (1.0 - constants.beta2.powi(count)).sqrt(),
        }
    }
}

/// One pass over parameter, moments and gradient, shared out over threads. Values do not interact, so the result does not
/// depend on the number of threads.
fn fused(parameter: &Var, moments: &Moments, gradient: &Tensor, coefficients: Coefficients) -> Result<()> {
    let gradient = gradient.contiguous()?;
    with_values_mut(parameter, |parameter| {
        with_values_mut(&moments.first, |first| {
            with_values_mut(&moments.second, |second| {
                with_values(&gradient, |gradient| fused_values(parameter, first, second, gradient, coefficients))
            })
        })
    })????;
    Ok(())
}

fn fused_values(parameter: &mut [f32], first: &mut [f32], second: &mut [f32], gradient: &[f32], c: Coefficients) {
    let (scale, keep, step_size) = (c.gradient_scale as f32, c.keep as f32, c.step_size as f32);
    let (beta1, beta2) = (c.beta1 as f32, c.beta2 as f32);
    // 1 - beta in f64 first: 1 - 0.999_f32 has only four right digits.
    let (fresh1, fresh2) = ((1.0 - c.beta1) as f32, (1.0 - c.beta2) as f32);
    let (correction, epsilon) = (c.second_correction as f32, c.epsilon as f32);
    parameter
        .par_chunks_mut(CHUNK)
        .zip(first.par_chunks_mut(CHUNK))
        .zip(second.par_chunks_mut(CHUNK))
        .zip(gradient.par_chunks(CHUNK))
        .for_each(|(((parameter, first), second), gradient)| {
            for (((parameter, first), second), gradient) in
                parameter.iter_mut().zip(first.iter_mut()).zip(second.iter_mut()).zip(gradient)
            {
                let gradient = gradient * scale;
                *first = beta1 * *first + fresh1 * gradient;
                *second = beta2 * *second + fresh2 * gradient * gradient;
                *parameter = keep * *parameter - step_size * *first / (second.sqrt() * correction + epsilon);
            }
        });
}

/// The same formula where values are not in this process's memory.
fn composed(parameter: &Var, moments: &Moments, gradient: &Tensor, c: Coefficients) -> Result<()> {
    let gradient = (gradient.detach() * c.gradient_scale)?;
    let first = ((moments.first.as_detached_tensor() * c.beta1)? + (&gradient * (1.0 - c.beta1))?)?;
    let second = ((moments.second.as_detached_tensor() * c.beta2)? + (gradient.sqr()? * (1.0 - c.beta2))?)?;
    let denominator = ((second.sqrt()? * c.second_correction)? + c.epsilon)?;
    let next = ((parameter.as_detached_tensor() * c.keep)? - ((&first * c.step_size)? / denominator)?)?;
    moments.first.set(&first)?;
    moments.second.set(&second)?;
    Ok(parameter.set(&next)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn composed_and_fused_updates_agree() {
        let gradient = Tensor::new(&[[0.5_f32, -2.0], [1e-4, 3.0]], &Device::Cpu).unwrap();
        let run = |kernel: fn(&Var, &Moments, &Tensor, Coefficients) -> Result<()>| -> Vec<f32> {
            let parameter = Var::new(&[[1.0_f32, -1.0], [0.3, 0.0]], &Device::Cpu).unwrap();
            let zeros = || Var::zeros((2, 2), DType::F32, &Device::Cpu).unwrap();
            let moments = Moments { first: zeros(), second: zeros() };
            let update = Update { learning_rate: 0.1, gradient_scale: 0.7, weight_decay: 0.2 };
            for count in 1..=5 {
                let coefficients = Coefficients::new(AdamConstants::default(), update, count, DecayGroup::Decayed);
                kernel(&parameter, &moments, &gradient, coefficients).unwrap();
            }
            parameter.flatten_all().unwrap().to_vec1().unwrap()
        };
        for (fused, composed) in run(fused).into_iter().zip(run(composed)) {
            assert!((fused - composed).abs() < 1e-6, "{fused} {composed}");
        }
    }
}
