//! What training needs of a model.

use std::collections::BTreeMap;

use candle_core::{Tensor, Var};

use crate::error::Result;
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
}

/// What a forward pass is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    /// A step's micro-batch: dropout, where there is any, is drawn for this step and micro-batch and nothing else.
    Training {
        /// Step, from 0.
        step: usize,
        /// Micro-batch of the step, from 0.
        micro_batch: usize,
    },
    /// The frozen reference: no dropout, no adapter.
    Reference,
}
