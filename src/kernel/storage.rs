//! Contiguous f32 slices out of Candle's CPU storage, checked.

use candle_core::{CpuStorage, Layout, Result, Storage, Tensor, bail};

/// The values of a contiguous f32 input.
pub fn slice<'a>(storage: &'a CpuStorage, layout: &Layout) -> Result<&'a [f32]> {
    match layout.contiguous_offsets() {
        Some((start, end)) => Ok(&storage.as_slice::<f32>()?[start..end]),
        None => bail!("a fused operation needs contiguous inputs, got {layout:?}"),
    }
}

/// Runs `work` on the values of a tensor, copying only where it is not contiguous.
pub fn with_values<R>(tensor: &Tensor, work: impl FnOnce(&[f32]) -> Result<R>) -> Result<R> {
    let tensor = tensor.contiguous()?;
    let (storage, layout) = tensor.storage_and_layout();
    match &*storage {
        Storage::Cpu(storage) => work(slice(storage, layout)?),
        _ => bail!("a fused operation reached a tensor outside the CPU"),
    }
}

/// A tensor of the shape and device of `like`.
pub fn tensor_like(values: Vec<f32>, like: &Tensor) -> Result<Tensor> {
    Tensor::from_vec(values, like.shape(), like.device())
}
