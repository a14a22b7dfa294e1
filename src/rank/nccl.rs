//! Gradients summed between NVIDIA GPUs by NCCL, one GPU a rank; everything else goes by the group beneath.
//!
//! Nothing here has run: the machines that checked it have no GPU. It is type-checked with the stand-in compiler.

use std::sync::{Mutex, OnceLock, PoisonError};

use candle_core::cuda_backend::cudarc::nccl::{Comm, Id, ReduceOp};
use candle_core::cuda_backend::{CudaStorage, CudaStorageSlice};
use candle_core::{CpuStorage, CudaDevice, CustomOp1, DType, Device, Layout, Shape, Tensor, bail};

use super::Group;
use crate::error::{Error, Fault, Result};

/// See the module.
pub(super) struct Nccl {
    beneath: Box<dyn Group>,
    /// Made at the first sum, when the device is known.
    communicator: OnceLock<Communicator>,
}

struct Communicator(Mutex<Comm>);

// SAFETY: NCCL's communicators may be used from any thread, one at a time; the mutex holds to that.
unsafe impl Send for Communicator {}
// SAFETY: as above.
unsafe impl Sync for Communicator {}

impl Nccl {
    /// NCCL over ranks that can already talk.
    pub(super) fn over(beneath: Box<dyn Group>) -> Self {
        Self { beneath, communicator: OnceLock::new() }
    }

    fn communicator(&self, device: &CudaDevice) -> Result<&Communicator> {
        if let Some(communicator) = self.communicator.get() {
            return Ok(communicator);
        }
        // The first rank's id tells the ranks of this run from all others.
        let own: Vec<u8> = if self.rank() == 0 {
            let id = Id::new().map_err(|error| failed("an id", error))?;
            id.internal().iter().map(|&byte| byte as u8).collect()
        } else {
            Vec::new()
        };
        let told = self.gather(&own)?;
        let bytes = told.first().map(Vec::as_slice).unwrap_or_default();
        let mut internal = [0; 128];
        if bytes.len() != internal.len() {
            return Err(Error::Failed("the first rank's NCCL id is not whole".to_owned()));
        }
        for (place, &byte) in internal.iter_mut().zip(bytes) {
            *place = byte as std::ffi::c_char;
        }
        let communicator = Comm::from_rank(device.cuda_stream(), self.rank(), self.size(), Id::uninit(internal))
            .map_err(|error| failed("a communicator", error))?;
        let _ = self.communicator.set(Communicator(Mutex::new(communicator)));
        self.communicator.get().ok_or_else(|| Error::Failed("NCCL's communicator is lost".to_owned()))
    }
}

impl Group for Nccl {
    fn rank(&self) -> usize {
        self.beneath.rank()
    }

    fn size(&self) -> usize {
        self.beneath.size()
    }

    fn sum_f32(&self, values: &mut [f32]) -> Result<()> {
        self.beneath.sum_f32(values)
    }

    fn gather(&self, own: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.beneath.gather(own)
    }

    fn sum(&self, tensor: &Tensor) -> Result<Tensor> {
        match tensor.device() {
            Device::Cuda(device) => {
                let communicator = self.communicator(device)?;
                Ok(tensor.to_dtype(DType::F32)?.contiguous()?.apply_op1_no_bwd(&SumOverRanks(communicator))?)
            }
            _ => self.beneath.sum(tensor),
        }
    }

    fn leave(&self, status: u8) {
        self.beneath.leave(status);
    }
}

fn failed(what: &str, error: impl std::fmt::Debug) -> Error {
    Fault::new(format!("NCCL gives no {what}: {error:?}"))
        .hint("every rank needs a GPU of its own, and NCCL's ports between machines; NCCL_DEBUG=INFO tells more")
        .into()
}

/// One all-reduce on the device's stream.
struct SumOverRanks<'a>(&'a Communicator);

impl CustomOp1 for SumOverRanks<'_> {
    fn name(&self) -> &'static str {
        "sum-over-ranks"
    }

    fn cpu_fwd(&self, _: &CpuStorage, _: &Layout) -> candle_core::Result<(CpuStorage, Shape)> {
        bail!("NCCL sums on NVIDIA GPUs only")
    }

    fn cuda_fwd(&self, storage: &CudaStorage, layout: &Layout) -> candle_core::Result<(CudaStorage, Shape)> {
        let CudaStorageSlice::F32(values) = &storage.slice else { bail!("expected f32 values") };
        let Some((start, end)) = layout.contiguous_offsets() else { bail!("expected contiguous values") };
        let device = storage.device.clone();
        // SAFETY: the reduction writes every value before anything reads one.
        let mut sums = unsafe { device.alloc::<f32>(end - start) }?;
        let communicator = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        communicator
            .all_reduce(&values.slice(start..end), &mut sums, &ReduceOp::Sum)
            .map_err(|error| candle_core::Error::Msg(format!("NCCL: {error:?}")))?;
        Ok((CudaStorage::wrap_cuda_slice(sums, device), layout.shape().clone()))
    }
}
