//! Where a model computes, and in which number format. The one place where a device is chosen and opened.
//!
//! In: what was typed (`--device`, `model.dtype`) and a rank. Out: an open device, or a fault that says what is missing.

mod choice;
mod machine;

use candle_core::{DType, Device, DeviceLocation};
use serde::{Deserialize, Serialize};

pub use choice::{DeviceChoice, ordinal_of_rank};
pub use machine::{Machine, Missing, ThisMachine};

use crate::error::Result;

/// The number format of activations and matrix products on a device.
///
/// Trained weights, their moments, norms of gradients, log-probabilities and losses are f32 in both.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum NumberFormat {
    /// Four bytes a value.
    #[default]
    F32,
    /// Two bytes a value, with the range of f32 and eight bits of precision.
    Bf16,
}

impl NumberFormat {
    /// The tensors' type.
    pub fn dtype(self) -> DType {
        match self {
            Self::F32 => DType::F32,
            Self::Bf16 => DType::BF16,
        }
    }

    /// Bytes of one value.
    pub fn bytes(self) -> u64 {
        self.dtype().size_in_bytes() as u64
    }

    /// The name in recipes and manifests.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
        }
    }
}

/// Where and in which number format a model computes.
#[derive(Debug, Clone)]
pub struct Compute {
    /// The open device.
    pub device: Device,
    /// The number format.
    pub format: NumberFormat,
}

impl Compute {
    /// The default and the reference: the CPU in f32.
    pub fn cpu() -> Self {
        Self { device: Device::Cpu, format: NumberFormat::F32 }
    }

    /// What was chosen, opened for a rank; the CPU where nothing was.
    ///
    /// # Errors
    /// As [`DeviceChoice::open`].
    pub fn open(choice: Option<DeviceChoice>, format: NumberFormat, rank: usize) -> Result<Self> {
        let device = choice.unwrap_or_default().open(rank)?;
        if device.is_cpu() && format == NumberFormat::Bf16 {
            tracing::warn!("bf16 on the CPU is for comparing with a GPU: it is slower than f32 here");
        }
        Ok(Self { device, format })
    }

    /// The same device in another number format.
    #[must_use]
    pub fn in_format(&self, format: NumberFormat) -> Self {
        Self { device: self.device.clone(), format }
    }

    /// Sets what the device's matrix library keeps for the whole process: with bf16, products of f32 tensors (those of the head)
    /// may use the tensor cores' 10-bit factors (TF32), whose rounding is far below that of bf16; in f32 they are f32's.
    pub fn prepare(&self) {
        if self.device.is_cuda() {
            candle_core::cuda::set_gemm_reduced_precision_f32(self.format == NumberFormat::Bf16);
        }
    }

    /// `cpu`, `cuda:0`, ...
    pub fn device_name(&self) -> String {
        match self.device.location() {
            DeviceLocation::Cpu => "cpu".to_owned(),
            DeviceLocation::Cuda { gpu_id } => format!("cuda:{gpu_id}"),
            DeviceLocation::Metal { gpu_id } => format!("metal:{gpu_id}"),
        }
    }
}

impl From<&Device> for Compute {
    fn from(device: &Device) -> Self {
        Self { device: device.clone(), format: NumberFormat::F32 }
    }
}

impl From<&Compute> for Compute {
    fn from(compute: &Compute) -> Self {
        compute.clone()
    }
}

/// Whether a tensor operation failed because the device's memory is full.
///
/// Candle hands the drivers' errors on as text: the CUDA driver's and cuBLAS's names of it, and Metal's.
pub fn is_out_of_memory(error: &candle_core::Error) -> bool {
    let text = error.to_string().to_ascii_lowercase();
    ["out of memory", "out_of_memory", "alloc_failed"].iter().any(|sign| text.contains(sign))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_device_is_told_from_other_failures_by_the_drivers_own_words() {
        let full = [
            "DriverError(CUDA_ERROR_OUT_OF_MEMORY, \"out of memory\")",
            "CublasError(CUBLAS_STATUS_ALLOC_FAILED)",
            "Insufficient Memory: kIOGPUCommandBufferCallbackErrorOutOfMemory (out of memory)",
        ];
        for text in full {
            assert!(is_out_of_memory(&candle_core::Error::Cuda(text.into())), "{text}");
        }
        for text in ["DriverError(CUDA_ERROR_NO_DEVICE)", "shape mismatch in matmul", "memory is aligned"] {
            assert!(!is_out_of_memory(&candle_core::Error::Cuda(text.into())), "{text}");
        }
    }
}
