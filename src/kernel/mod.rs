//! Custom operations with a backward: linear, adapted linear, bias, RMS norm, `SwiGLU`, rotary, tree attention, chosen-token
//! log-probability.
//!
//! In and out: Candle tensors. On the CPU in f32 each operation is one fused pass with its own backward; elsewhere (another
//! device or number format) [`composed`] does the same out of Candle's own operations, with a backward of ours too. The stock
//! decoders' operations (`rope`, `rms_norm`, `softmax_last_dim`) have no backward and drop gradients without an error.

mod adapted;
mod attention;
mod bias;
pub mod composed;
mod dropout;
mod exponential;
mod frozen;
mod head;
mod linear;
mod matrix;
mod norm;
mod rotary;
mod storage;
mod swiglu;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod tile;
#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
#[path = "tile/absent.rs"]
mod tile;

pub use adapted::{adapted_linear, adapted_linear_with_dropout};
pub use attention::{AttentionLayout, CachedAttention, attention};
pub use bias::add_bias;
pub use dropout::{Dropout, Mask};
pub use frozen::{FrozenWeight, frozen_linear};
pub use head::{chosen_log_probability, rows_together};
pub use linear::linear;
pub use norm::rms_norm;
pub use rotary::{RotaryTable, rotary};
pub use swiglu::swiglu;

use candle_core::{DType, Tensor};

use crate::recipe::settings::Arithmetic;

/// Whether a weight is trained: a frozen one gets no gradient work at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WeightGradient {
    /// Compute it.
    Needed,
    /// Skip it.
    Frozen,
}

/// How a layer's products are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Product {
    /// Whether its weight is trained.
    pub weight_gradient: WeightGradient,
    /// In which arithmetic.
    pub arithmetic: Arithmetic,
}

impl From<WeightGradient> for Product {
    fn from(weight_gradient: WeightGradient) -> Self {
        Self { weight_gradient, arithmetic: Arithmetic::F32 }
    }
}

/// Whether the processor has the tile unit (AMX) that [`Arithmetic::SplitBf16`] and [`Arithmetic::Bf16`] are for; without it
/// they compute in f32.
pub fn has_tiles() -> bool {
    tile::is_available()
}

/// Whether the fused path applies to this tensor.
pub(crate) fn is_fused(tensor: &Tensor) -> bool {
    tensor.device().is_cpu() && tensor.dtype() == DType::F32 && !composed::is_forced()
}
