//! A tensor's own memory as a slice, for updates in place on the CPU.
//!
//! Candle's tensors are immutable except through in-place operations; these helpers are such an operation whose body is a
//! closure, so that one fused pass may hold a parameter, its moments and its gradient at once. They may only be called
//! between a backward and the next forward: a graph that still needs the old values would silently be wrong.

use std::cell::RefCell;

use candle_core::{CpuStorage, InplaceOp1, Layout, Storage, Tensor, Var, bail};

/// Runs `body` on the variable's values.
///
/// # Errors
/// If the variable is not a contiguous f32 tensor on the CPU.
pub fn with_values_mut<R>(variable: &Var, body: impl FnOnce(&mut [f32]) -> R) -> candle_core::Result<R> {
    let operation = InPlace { body: RefCell::new(Some(body)), outcome: RefCell::new(None) };
    variable.as_tensor().inplace_op1(&operation)?;
    match operation.outcome.into_inner() {
        Some(outcome) => Ok(outcome),
        None => bail!("the in-place update did not run"),
    }
}

/// Runs `body` on the tensor's values without copying them.
///
/// # Errors
/// If the tensor is not a contiguous f32 tensor on the CPU.
pub fn with_values<R>(tensor: &Tensor, body: impl FnOnce(&[f32]) -> R) -> candle_core::Result<R> {
    let (storage, layout) = tensor.storage_and_layout();
    let Storage::Cpu(CpuStorage::F32(values)) = &*storage else {
        bail!("expected f32 values on the CPU, got {:?}", tensor.dtype());
    };
    match layout.contiguous_offsets() {
        Some((start, end)) => Ok(body(&values[start..end])),
        None => bail!("expected contiguous values"),
    }
}

struct InPlace<F, R> {
    body: RefCell<Option<F>>,
    outcome: RefCell<Option<R>>,
}

impl<R, F: FnOnce(&mut [f32]) -> R> InplaceOp1 for InPlace<F, R> {
    fn name(&self) -> &'static str {
        "update-in-place"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> candle_core::Result<()> {
        let CpuStorage::F32(values) = storage else { bail!("expected f32 values") };
        let Some((start, end)) = layout.contiguous_offsets() else { bail!("expected contiguous values") };
        if let Some(body) = self.body.borrow_mut().take() {
            *self.outcome.borrow_mut() = Some(body(&mut values[start..end]));
        }
        Ok(())
    }
}
