//! A differentiable decoder of the Llama, Qwen 2, Qwen 3 and `SmolLM3` families, its weights (safetensors, GGUF, hub) and adapters.
//!
//! In: a model source and a packed sequence of tokens. Out: hidden states, logits, log-probabilities with gradients, and
//! decoding over a key-value cache. The stock decoders of candle-transformers drop gradients and return the last position only;
//! they serve as the oracle of the parity tests.

mod adapter;
mod cache;
mod config;
mod decoder;
mod family;
mod fields;
mod gguf;
mod kept;
mod layer;
mod recompute;
mod safetensors_file;
mod source;
mod weights;

pub use adapter::{AdapterConfig, read_adapter};
pub use cache::{KeyValueCache, Step};
pub use config::{ModelConfig, Positions, RopeScaling};
pub use decoder::{Decoder, Trainable};
pub use family::Family;
pub use source::{LocalModel, ModelSource};
pub use weights::{Compact, Weights};

use candle_core::backprop::GradStore;
use candle_core::{DType, Tensor};

use crate::error::{Error, Result};

/// Runs `work` on a thread with a big stack: Candle's backward recurses through the graph, and a few thousand operations
/// overflow an ordinary thread's stack, which ends the process.
///
/// # Errors
/// Whatever `work` returns, or [`Error::Failed`] if no thread can be started or it panics.
pub fn with_big_stack<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    const STACK_BYTES: usize = 512 << 20;
    std::thread::scope(|scope| {
        std::thread::Builder::new()
            .name("topalign-training".to_owned())
            .stack_size(STACK_BYTES)
            .spawn_scoped(scope, work)
            .map_err(|error| Error::Failed(format!("cannot start a thread: {error}")))?
            .join()
            .unwrap_or_else(|_| Err(Error::Failed("a training thread panicked".to_owned())))
    })
}

/// Checks that every trainable tensor received a finite gradient that is not all zero, once, before the first step.
///
/// While a `lora_B` is all zero, as it is at the start, its `lora_A` has a zero gradient by right; `lora_B` itself must move.
///
/// # Errors
/// [`Error::Failed`] naming every tensor without a usable gradient: training would go on without it in silence.
pub fn check_gradients(gradients: &GradStore, decoder: &Decoder) -> Result<()> {
    let mut missing = Vec::new();
    for (name, variable) in decoder.parameters() {
        let reason = match gradients.get(variable.as_tensor()) {
            None => Some("no gradient"),
            Some(gradient) => match content(gradient)? {
                Content::NotFinite => Some("a gradient that is not finite"),
                Content::Zero if !has_zero_partner(name, decoder)? => Some("a gradient that is all zero"),
                Content::Zero | Content::Some => None,
            },
        };
        if let Some(reason) = reason {
            missing.push(format!("`{name}` has {reason}"));
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let more = missing.len().saturating_sub(10);
    missing.truncate(10);
    let rest = if more > 0 { format!("; and {more} more") } else { String::new() };
    Err(Error::Failed(format!("not every trainable tensor would be trained: {}{rest}", missing.join("; "))))
}

enum Content {
    Zero,
    Some,
    NotFinite,
}

/// Value by value: a sum of squares would underflow or overflow where the values do not.
fn content(tensor: &Tensor) -> Result<Content> {
    let values: Vec<f32> = tensor.to_dtype(DType::F32)?.flatten_all()?.to_vec1()?;
    Ok(if values.iter().any(|value| !value.is_finite()) {
        Content::NotFinite
    } else if values.iter().all(|value| *value == 0.0) {
        Content::Zero
    } else {
        Content::Some
    })
}

/// Whether this is the A of an adapter whose B is still all zero.
fn has_zero_partner(name: &str, decoder: &Decoder) -> Result<bool> {
    let Some(stem) = name.strip_suffix("lora_A.weight") else { return Ok(false) };
    let partner = decoder.parameters().get(&format!("{stem}lora_B.weight"));
    partner.map_or(Ok(false), |b| Ok(matches!(content(b.as_tensor())?, Content::Zero)))
}
