//! The decoder as a source of next tokens.

use super::NextToken;
use crate::device::{Compute, is_out_of_memory};
use crate::error::{Error, Result};
use crate::model::{Decoder, KeyValueCache, Step};

impl NextToken for Decoder {
    type Cache = KeyValueCache;

    fn context_length(&self) -> usize {
        self.config().context
    }

    fn start(&self, prompt: &[u32]) -> Result<(KeyValueCache, Vec<f32>)> {
        let mut cache = KeyValueCache::default();
        let logits = self.decode(&mut [Step { tokens: prompt, cache: &mut cache }]); // [1, vocabulary]
        let logits = logits.map_err(|error| explain(error, self.compute(), self.weight_bytes(), 1))?;
        Ok((cache, logits.flatten_all()?.to_vec1()?))
    }

    fn advance(&self, caches: &mut [&mut KeyValueCache], tokens: &[u32]) -> Result<Vec<Vec<f32>>> {
        let sequences = caches.len();
        let steps = caches.iter_mut().zip(tokens);
        let mut steps: Vec<Step<'_>> =
            steps.map(|(cache, token)| Step { tokens: std::slice::from_ref(token), cache }).collect();
        let logits = self.decode(&mut steps); // [sequences, vocabulary]
        let logits = logits.map_err(|error| explain(error, self.compute(), self.weight_bytes(), sequences))?;
        Ok(logits.to_vec2()?)
    }
}

/// A full device in words; any other error as it is.
fn explain(error: Error, compute: &Compute, weight_bytes: usize, sequences: usize) -> Error {
    match &error {
        Error::Tensor(cause) if is_out_of_memory(cause) => Error::Failed(format!(
            "{} is out of memory: {sequences} sequences are decoded together beside {} MiB of weights; lower \
             `generate.batch` (--batch), or hold the model in bf16 (`model.dtype`, --dtype)",
            compute.device_name(),
            weight_bytes.div_ceil(1 << 20)
        )),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_is_full_while_decoding_is_told_with_what_to_lower() {
        let full = candle_core::Error::Cuda("DriverError(CUDA_ERROR_OUT_OF_MEMORY, \"out of memory\")".into());
        let text = explain(full.into(), &Compute::cpu(), 3 << 20, 16).to_string();
        assert!(text.starts_with("cpu is out of memory: 16 sequences") && text.contains("3 MiB of weights"), "{text}");
        assert!(text.contains("--batch") && text.contains("bf16"), "{text}");
        let other = explain(Error::Failed("an empty step".to_owned()), &Compute::cpu(), 1, 1);
        assert_eq!(other.to_string(), "an empty step");
    }
}
