//! What training needs of a model.

use std::collections::BTreeMap;

use candle_core::backprop::GradStore;
use candle_core::{Tensor, Var};

use crate::error::Result;
use crate::model::{Decoder, check_gradients};
use crate::token::Packed;

/// A model whose answers' log-probabilities can be improved.
pub trait Policy {
    /// The trained parameters, f32, by name.
    fn parameters(&self) -> &BTreeMap<String, Var>;

    /// Log-probability of each trained token, `[rows]` in f32, differentiable in [`Policy::parameters`].
    ///
    /// # Errors
    /// Tensor errors.
    fn log_probabilities(&self, packed: &Packed, pass: Pass) -> Result<Tensor>;

    /// Checks the first gradients that a process computes, before anything is updated.
    ///
    /// # Errors
    /// If a trained tensor would not be trained.
    fn check_gradients(&self, gradients: &GradStore) -> Result<()>;
}

/// What a forward pass is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    /// A step's micro-batch: gradients will be asked for.
    Training,
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
    reference: Decoder,
}

impl DecoderPolicy {
    /// A policy that trains what `decoder` was built to train.
    pub fn new(decoder: Decoder) -> Self {
        let reference = decoder.without_adapter();
        Self { decoder, reference }
    }

    /// The decoder, updated with every step.
    pub fn decoder(&self) -> &Decoder {
        &self.decoder
    }

    /// The decoder without adapters.
    pub fn reference(&self) -> &Decoder {
        &self.reference
    }
}

impl Policy for DecoderPolicy {
    fn parameters(&self) -> &BTreeMap<String, Var> {
        self.decoder.parameters()
    }

    fn log_probabilities(&self, packed: &Packed, pass: Pass) -> Result<Tensor> {
        let decoder = match pass {
            Pass::Training => &self.decoder,
            Pass::Reference => &self.reference,
        };
        let hidden = decoder.hidden_states(&packed.sequence)?; // [tokens, hidden]
        decoder.log_probabilities(&hidden, &packed.rows, &packed.targets) // [rows]
    }

    fn check_gradients(&self, gradients: &GradStore) -> Result<()> {
        check_gradients(gradients, &self.decoder)
    }
}
