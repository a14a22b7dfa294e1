//! A full device in words: what was being done, what it is estimated to need, and what to lower.

use super::estimate::{self, Activations, MemoryEstimate};
use crate::device::{Compute, NumberFormat, is_out_of_memory};
use crate::error::Error;
use crate::model::{Decoder, ModelConfig};
use crate::token::Packed;

/// A failure while weights are moved to the device.
pub(super) fn loading(error: Error, config: &ModelConfig, compute: &Compute) -> Error {
    explain(error, compute, || {
        let values: u64 = config.tensors().values().map(|shape| shape.iter().product::<usize>() as u64).sum();
        let mut ways = vec!["take another device with --device"];
        if compute.format == NumberFormat::F32 {
            ways.push("hold a frozen base in half the bytes (`model.dtype = \"bf16\"` with `[model.lora]`)");
        }
        format!("moving the weights, {} MiB in f32, did not fit; {}", mebibytes(values * 4), ways.join("; "))
    })
}

/// A failure in a forward or backward pass, of this step where it is one of a step's.
pub(super) fn passing(
    error: Error,
    decoder: &Decoder,
    packed: &Packed,
    activations: Activations,
    step: Option<usize>,
) -> Error {
    let compute = decoder.compute();
    explain(error, compute, || {
        let tokens = packed.sequence.tokens.len();
        let of_step = step.map_or_else(String::new, |step| format!("step {}, ", step + 1));
        let needed = in_words(&estimate::memory(decoder, packed, activations));
        format!("{of_step}a pass of {tokens} tokens is estimated to need {needed}; {}", lower(decoder, activations))
    })
}

/// A failure while moments are made or weights updated.
pub(super) fn updating(error: Error, decoder: &Decoder) -> Error {
    explain(error, decoder.compute(), || {
        let (weights, training) = (decoder.weight_bytes() as u64, estimate::training_bytes(decoder));
        format!(
            "weights of {} MiB, with gradients and moments of {} MiB, did not fit; {}",
            mebibytes(weights),
            mebibytes(training),
            lower(decoder, Activations::Recomputed)
        )
    })
}

fn explain(error: Error, compute: &Compute, message: impl FnOnce() -> String) -> Error {
    match &error {
        Error::Tensor(cause) if is_out_of_memory(cause) => {
            Error::Failed(format!("{} is out of memory: {}", compute.device_name(), message()))
        }
        _ => error,
    }
}

fn in_words(memory: &MemoryEstimate) -> String {
    let MemoryEstimate { weights, training, activations, head } = *memory;
    let [weights, training, activations, head] = [weights, training, activations, head].map(mebibytes);
    format!(
        "{} MiB: weights {weights}, gradients and moments {training}, activations {activations}, head {head}",
        mebibytes(memory.total())
    )
}

/// What a recipe can still lower.
fn lower(decoder: &Decoder, activations: Activations) -> String {
    let is_full = decoder.parameters().contains_key("model.norm.weight");
    let mut ways = vec!["lower `tokens_per_pass` or `max_tokens`"];
    if activations == Activations::Kept {
        ways.push("set `memory_limit_mib`, so that activations are computed again");
    }
    if decoder.compute().format == NumberFormat::F32 {
        ways.push("set `model.dtype = \"bf16\"`");
    }
    if is_full {
        ways.push("train adapters (`[model.lora]`)");
    }
    ways.join("; ")
}

fn mebibytes(bytes: u64) -> u64 {
    bytes.div_ceil(1 << 20)
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;
    use crate::model::{LocalModel, Trainable};
    use crate::run::seed::Seed;
    use crate::scratch::{self, Shape};
    use crate::token::{Tree, pack};

    fn full_device() -> Error {
        candle_core::Error::Cuda("DriverError(CUDA_ERROR_OUT_OF_MEMORY, \"out of memory\")".into()).into()
    }

    fn decoder() -> Decoder {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model");
        let shape = Shape { hidden_size: 32, intermediate_size: 64, layers: 2, vocabulary: 300, ..Shape::default() };
        let shape = Shape { heads: 4, key_value_heads: 2, ..shape };
        scratch::write(&path, &["words to merge, words".to_owned()], &shape, Seed(1)).unwrap();
        let (config, weights) = LocalModel { path }.read(&Device::Cpu).unwrap();
        Decoder::new(config, weights, &Trainable::Full, Seed(1), &Device::Cpu).unwrap()
    }

    #[test]
    fn a_full_device_is_told_with_the_estimate_the_tokens_and_what_to_lower() {
        let decoder = decoder();
        let packed = pack(&[&Tree { row_ids: vec![], prompt: vec![11; 40], answers: vec![vec![12; 20]] }]);
        let tokens = packed.sequence.tokens.len();
        let of_pass = passing(full_device(), &decoder, &packed, Activations::Kept, Some(2)).to_string();
        for part in [
            "cpu is out of memory: step 3, ",
            &format!("a pass of {tokens} tokens is estimated to need "),
            "MiB: weights ",
            "gradients and moments",
            "`tokens_per_pass`",
            "`memory_limit_mib`",
            "bf16",
            "`[model.lora]`",
        ] {
            assert!(of_pass.contains(part), "`{part}` is not in: {of_pass}");
        }
        let again = passing(full_device(), &decoder, &packed, Activations::Recomputed, None).to_string();
        assert!(!again.contains("memory_limit_mib") && !again.contains("step "), "{again}");
        let update = updating(full_device(), &decoder).to_string();
        assert!(update.contains("gradients and moments of 1 MiB"), "{update}");
        let load = loading(full_device(), decoder.config(), decoder.compute());
        assert!(load.to_string().contains("moving the weights, 1 MiB in f32"), "{load}");
        assert_eq!(load.exit_status(), 1);
    }

    #[test]
    fn any_other_failure_stays_as_it_is() {
        let decoder = decoder();
        let other = || Error::Tensor(candle_core::Error::Msg("shape mismatch".to_owned()));
        assert_eq!(updating(other(), &decoder).to_string(), other().to_string());
        assert!(matches!(updating(Error::Interrupted, &decoder), Error::Interrupted));
    }
}
