//! The same operations out of Candle's own ones: the path on GPUs and in bf16, and in tests another way to the same values.
//!
//! Each computes its result outside the gradient graph, with Candle's fused forward kernels where there are some, and has a
//! backward of its own (`own_backward`). So only inputs and outputs are kept between forward and backward; the scores of
//! attention and the logits of the head exist tile by tile. Weights come in f32 whatever the number format of the
//! activations, and so do their gradients go out; log-probabilities are f32.

mod attention;
mod head;
mod linear;
mod own_backward;
mod pointwise;
mod uploaded;

use std::cell::Cell;

use candle_core::{DType, Result, Tensor};

pub use attention::CachedTiles;
pub(super) use attention::Tiles;
pub(super) use attention::attention;
pub(super) use head::{chosen_log_probability, rows_together as head_rows};
pub(super) use linear::{adapted_linear, frozen_linear, linear};
pub(super) use pointwise::{add_bias, rms_norm, rotary, swiglu};
pub(super) use uploaded::Uploaded;

thread_local! {
    static IS_FORCED: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work` with every operation composed, as on a GPU, though its tensors are f32 on the CPU: to compare the two paths.
pub fn on_composed_path<R>(work: impl FnOnce() -> R) -> R {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            IS_FORCED.set(self.0);
        }
    }
    let _restore = Restore(IS_FORCED.replace(true));
    work()
}

pub(super) fn is_forced() -> bool {
    IS_FORCED.get()
}

/// The type that sums are taken in.
fn wide(dtype: DType) -> DType {
    if dtype == DType::F64 { DType::F64 } else { DType::F32 }
}

fn widened(tensor: &Tensor) -> Result<Tensor> {
    tensor.to_dtype(wide(tensor.dtype()))
}

/// A weight in the activations' number format; itself where that is its own.
fn like(weight: &Tensor, x: &Tensor) -> Result<Tensor> {
    weight.to_dtype(x.dtype())
}
