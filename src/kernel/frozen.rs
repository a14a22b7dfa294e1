//! Weights that are not trained, held as their file stores them and widened to f32 for each use.
//!
//! A frozen base in bf16 takes half of f32's memory, one in 4-bit blocks a sixth; one layer's projection is wide at a time.

use std::sync::Arc;

use candle_core::quantized::{QStorage, QTensor};
use candle_core::{CpuStorage, CustomOp1, DType, Layout, Result, Shape, Tensor};

use super::linear::{product, to_input};
use super::storage::{slice, with_values};
use super::{composed, is_fused};
use crate::device::Compute;
use crate::recipe::settings::Arithmetic;

/// A frozen `[output, input]` weight.
#[derive(Debug, Clone)]
pub enum FrozenWeight {
    /// In f32, ready for use.
    Wide(Tensor),
    /// In bf16 or f16.
    Half(Tensor),
    /// In GGUF's blocks along the input.
    Blocks(Arc<QTensor>),
}

impl FrozenWeight {
    /// A tensor that is kept in its own precision, outside the gradient graph.
    pub fn new(tensor: &Tensor) -> Self {
        let tensor = tensor.detach();
        if matches!(tensor.dtype(), DType::BF16 | DType::F16) { Self::Half(tensor) } else { Self::Wide(tensor) }
    }

    /// Its shape, `[output, input]`.
    pub fn dims(&self) -> &[usize] {
        match self {
            Self::Wide(tensor) | Self::Half(tensor) => tensor.dims(),
            Self::Blocks(blocks) => blocks.shape().dims(),
        }
    }

    /// Bytes that it occupies.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Wide(tensor) | Self::Half(tensor) => tensor.elem_count() * tensor.dtype().size_in_bytes(),
            Self::Blocks(blocks) => blocks.storage_size_in_bytes(),
        }
    }

    /// The weight in f32; a copy unless it already is.
    ///
    /// # Errors
    /// Tensor errors.
    pub fn widened(&self) -> Result<Tensor> {
        match self {
            Self::Wide(tensor) => Ok(tensor.clone()),
            Self::Half(tensor) => tensor.to_dtype(DType::F32),
            Self::Blocks(blocks) => blocks.dequantize(&blocks.device()),
        }
    }

    /// The weight on a device that computes in this number format: f32 becomes the format, what is held in fewer bytes stays so.
    ///
    /// # Errors
    /// Tensor errors.
    pub fn moved(&self, compute: &Compute) -> Result<Self> {
        let device = &compute.device;
        Ok(match self {
            Self::Wide(tensor) => Self::new(&tensor.to_device(device)?.to_dtype(compute.format.dtype())?),
            Self::Half(tensor) => Self::Half(tensor.to_device(device)?),
            Self::Blocks(blocks) if blocks.device().same_device(device) => self.clone(),
            Self::Blocks(blocks) => {
                let storage = QStorage::from_data(blocks.data()?, device, blocks.dtype())?;
                Self::Blocks(Arc::new(QTensor::new(storage, blocks.shape())?))
            }
        })
    }

    pub(super) fn with_values<R>(&self, work: impl FnOnce(&[f32]) -> Result<R>) -> Result<R> {
        with_values(&self.widened()?, work)
    }

    /// The weight where and as `like` is, for the composed path; a copy unless it already is.
    pub(super) fn beside(&self, like: &Tensor) -> Result<Tensor> {
        let tensor = match self {
            Self::Wide(tensor) | Self::Half(tensor) => tensor.clone(),
            Self::Blocks(_) => self.widened()?,
        };
        tensor.to_device(like.device())?.to_dtype(like.dtype())
    }
}

struct FrozenLinear {
    weight: FrozenWeight,
    arithmetic: Arithmetic,
}

/// `x` `[tokens, input]` times a frozen `weight` `[output, input]` transposed: `[tokens, output]`.
///
/// # Errors
/// Shapes that do not fit.
pub fn frozen_linear(x: &Tensor, weight: &FrozenWeight, arithmetic: Arithmetic) -> Result<Tensor> {
    if is_fused(x) {
        x.contiguous()?.apply_op1(FrozenLinear { weight: weight.clone(), arithmetic })
    } else {
        composed::frozen_linear(x, weight)
    }
}

impl CustomOp1 for FrozenLinear {
    fn name(&self) -> &'static str {
        "frozen-linear"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let (tokens, input) = layout.shape().dims2()?;
        let [output, expected] = *self.weight.dims() else {
            candle_core::bail!("frozen linear: weight has shape {:?}", self.weight.dims());
        };
        if input != expected {
            candle_core::bail!("frozen linear: input has width {input}, weight expects {expected}");
        }
        let x = slice(storage, layout)?;
        let y = self.weight.with_values(|weight| Ok(product(x, weight, tokens, input, self.arithmetic)))?;
        Ok((CpuStorage::F32(y), (tokens, output).into()))
    }

    fn bwd(&self, x: &Tensor, _: &Tensor, gradient: &Tensor) -> Result<Option<Tensor>> {
        let (tokens, input) = x.dims2()?;
        let to_x = self.weight.with_values(|weight| {
            with_values(gradient, |gradient| Ok(to_input(gradient, weight, tokens, input, self.arithmetic)))
        })?;
        Ok(Some(Tensor::from_vec(to_x, (tokens, input), x.device())?))
    }
}
