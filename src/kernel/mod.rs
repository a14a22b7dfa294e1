//! Custom operations with a backward: linear, adapted linear, RMS norm, `SwiGLU`, rotary, tree attention, chosen-token
//! log-probability.
//!
//! In and out: Candle tensors. On the CPU in f32 each operation is one fused pass with its own backward; elsewhere (another
//! device or dtype) [`composed`] does the same out of Candle's own differentiable operations. The stock decoders'
//! operations (`rope`, `rms_norm`, `softmax_last_dim`) have no backward and drop gradients without an error.

mod adapted;
mod attention;
pub mod composed;
mod exponential;
mod head;
mod linear;
mod matrix;
mod norm;
mod rotary;
mod storage;
mod swiglu;

pub use adapted::adapted_linear;
pub use attention::{AttentionLayout, CachedAttention, attention};
pub use head::chosen_log_probability;
pub use linear::linear;
pub use norm::rms_norm;
pub use rotary::{RotaryTable, rotary};
pub use swiglu::swiglu;

use candle_core::{DType, Tensor};

/// Whether a weight is trained: a frozen one gets no gradient work at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WeightGradient {
    /// Compute it.
    Needed,
    /// Skip it.
    Frozen,
}

/// Whether the fused path applies to this tensor.
fn is_fused(tensor: &Tensor) -> bool {
    tensor.device().is_cpu() && tensor.dtype() == DType::F32
}
