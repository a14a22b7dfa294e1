//! What training needs of a model.

use std::collections::BTreeMap;

use candle_core::backprop::GradStore;
use candle_core::{Tensor, Var};

use super::estimate::{self, Activations};
use super::out_of_memory;
use crate::error::{Error, Result};
use crate::model::{Decoder, check_gradients};
use crate::token::Packed;

/// A loss as a function of the log-probabilities of trained tokens, `[rows]` to a scalar.
pub type LossOf<'a> = dyn FnMut(&Tensor) -> Result<Tensor> + 'a;

/// A model whose answers' log-probabilities can be improved.
pub trait Policy {
    /// The trained parameters, f32, by name.
    fn parameters(&self) -> &BTreeMap<String, Var>;

    /// Log-probability of each trained token, `[rows]` in f32, differentiable in [`Policy::parameters`].
    ///
    /// # Errors
    /// Tensor errors.
    fn log_probabilities(&self, packed: &Packed, pass: Pass<'_>) -> Result<Tensor>;

    /// Gradients of `loss` of the log-probabilities; it is called once.
    ///
    /// # Errors
    /// What `loss` returns; tensor errors.
    fn gradients(&self, packed: &Packed, pass: Pass<'_>, loss: &mut LossOf<'_>) -> Result<GradStore> {
        Ok(loss(&self.log_probabilities(packed, pass)?)?.backward()?)
    }

    /// Checks the first gradients that a process computes, before anything is updated.
    ///
    /// # Errors
    /// If a trained tensor would not be trained.
    fn check_gradients(&self, gradients: &GradStore) -> Result<()>;
}

/// What a forward pass is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass<'a> {
    /// A step's micro-batch: gradients will be asked for, and dropout is on. What is dropped depends on the step and on each
    /// tree's index, so that it is the same after a resume and however the step is cut into passes.
    Training {
        /// Step, from 0.
        step: usize,
        /// Indices of the packed trees.
        units: &'a [usize],
    },
    /// The policy as it stands, outside the graph and without dropout.
    Evaluation,
    /// The frozen reference, outside the graph. Only what [`DecoderPolicy`] says of it holds after the first update.
    Reference,
}

/// A decoder as a policy.
///
/// Its reference is the base under the adapters, at any time; where every weight is trained it is the decoder itself, so
/// that reference passes must come before the first update.
#[derive(Debug)]
pub struct DecoderPolicy {
    decoder: Decoder,
    evaluated: Decoder,
    reference: Decoder,
    memory_limit_bytes: Option<u64>,
}

impl DecoderPolicy {
    /// A policy that trains what `decoder` was built to train.
    pub fn new(decoder: Decoder) -> Self {
        let (evaluated, reference) = (decoder.detached(), decoder.without_adapter());
        Self { decoder, evaluated, reference, memory_limit_bytes: None }
    }

    /// Computes activations again, layer by layer, in passes that are estimated to need more memory than this.
    #[must_use]
    pub fn with_memory_limit(mut self, bytes: Option<u64>) -> Self {
        self.memory_limit_bytes = bytes;
        self
    }

    /// The decoder, updated with every step.
    pub fn decoder(&self) -> &Decoder {
        &self.decoder
    }

    /// The decoder without adapters.
    pub fn reference(&self) -> &Decoder {
        &self.reference
    }

    /// Whether this pass keeps its activations.
    pub fn activations(&self, packed: &Packed) -> Activations {
        let needed = || estimate::memory(&self.decoder, packed, Activations::Kept).total();
        match self.memory_limit_bytes {
            Some(limit) if needed() > limit => Activations::Recomputed,
            _ => Activations::Kept,
        }
    }

    /// A full device in words; any other error as it is.
    fn explained(&self, error: Error, packed: &Packed, pass: Pass<'_>) -> Error {
        let step = match pass {
            Pass::Training { step, .. } => Some(step),
            Pass::Evaluation | Pass::Reference => None,
        };
        out_of_memory::passing(error, &self.decoder, packed, self.activations(packed), step)
    }

    /// The decoder with this pass's dropout, where it has any.
    fn training(&self, packed: &Packed, step: usize, units: &[usize]) -> Decoder {
        self.decoder.with_dropout(step, || dropout_rows(packed, units))
    }
}

impl Policy for DecoderPolicy {
    fn parameters(&self) -> &BTreeMap<String, Var> {
        self.decoder.parameters()
    }

    fn log_probabilities(&self, packed: &Packed, pass: Pass<'_>) -> Result<Tensor> {
        let training;
        let decoder = match pass {
            Pass::Training { step, units } => {
                training = self.training(packed, step, units);
                &training
            }
            Pass::Evaluation => &self.evaluated,
            Pass::Reference => &self.reference,
        };
        let values = || {
            let hidden = decoder.hidden_states(&packed.sequence)?; // [tokens, hidden]
            decoder.log_probabilities(&hidden, &packed.rows, &packed.targets) // [rows]
        };
        values().map_err(|error| self.explained(error, packed, pass))
    }

    fn gradients(&self, packed: &Packed, pass: Pass<'_>, loss: &mut LossOf<'_>) -> Result<GradStore> {
        let gradients = match pass {
            Pass::Training { step, units } if self.activations(packed) == Activations::Recomputed => {
                self.training(packed, step, units).gradients_by_layer(packed, loss)
            }
            _ => self.log_probabilities(packed, pass).and_then(|values| Ok(loss(&values)?.backward()?)),
        };
        gradients.map_err(|error| self.explained(error, packed, pass))
    }

    fn check_gradients(&self, gradients: &GradStore) -> Result<()> {
        check_gradients(gradients, &self.decoder)
    }
}

/// A number for each packed token that tells it from all others of the run: its tree's index and its place in the tree.
fn dropout_rows(packed: &Packed, units: &[usize]) -> Vec<u64> {
    let mut rows = Vec::with_capacity(packed.sequence.tokens.len());
    let mut trees = units.iter();
    let (mut unit, mut first) = (u64::MAX, 0);
    for segment in &packed.sequence.segments {
        if segment.parent.is_none() {
            unit = trees.next().map_or(u64::MAX, |&unit| unit as u64);
            first = segment.start;
        }
        rows.extend((segment.start..segment.end).map(|token| (unit << 32) | (token - first) as u64));
    }
    rows
}
