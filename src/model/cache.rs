//! Decoding: keys and values of past tokens are kept, so that each new token costs one row. CPU only.

use candle_core::{Device, Tensor};
use rayon::prelude::*;

use super::decoder::Decoder;
use super::layer::Layer;
use crate::error::{Error, Result};
use crate::kernel::{self, CachedAttention, RotaryTable};
use crate::recipe::settings::Projection;

/// Keys and values of one sequence, layer by layer.
#[derive(Debug, Clone, Default)]
pub struct KeyValueCache {
    /// One entry a layer: keys and values, each `[tokens, key_value_heads * head_size]`.
    layers: Vec<(Vec<f32>, Vec<f32>)>,
    tokens: usize,
}

impl KeyValueCache {
    /// Tokens seen so far.
    pub fn tokens(&self) -> usize {
        self.tokens
    }
}

/// New tokens of one sequence and its cache.
#[derive(Debug)]
pub struct Step<'a> {
    /// At least one token.
    pub tokens: &'a [u32],
    /// Extended by the tokens.
    pub cache: &'a mut KeyValueCache,
}

impl Decoder {
    /// Reads the new tokens of every sequence in one pass over the weights, and returns the logits after the last token of
    /// each: a prompt's prefill and single steps alike. `[sequences, vocabulary]`
    ///
    /// # Errors
    /// A token outside the vocabulary, a sequence past the context, an empty step, or a device other than the CPU.
    pub fn decode(&self, steps: &mut [Step<'_>]) -> Result<Tensor> {
        // A decoder in training records what it computes; decoding has no use for that. Detaching copies no values.
        if self.parameters().is_empty() { self.read(steps) } else { self.detached().read(steps) }
    }

    fn read(&self, steps: &mut [Step<'_>]) -> Result<Tensor> {
        if !self.device().is_cpu() {
            return Err(Error::Failed("decoding runs on the CPU only".to_owned()));
        }
        let mut tokens = Vec::new();
        let mut positions = Vec::new();
        let mut last_rows = Vec::new();
        for step in steps.iter_mut() {
            if step.tokens.is_empty() {
                return Err(Error::Failed("a decoding step has no tokens".to_owned()));
            }
            step.cache.layers.resize_with(self.config.layers, Default::default);
            tokens.extend_from_slice(step.tokens);
            positions
                .extend((step.cache.tokens..step.cache.tokens + step.tokens.len()).map(|position| position as u32));
            last_rows.push(tokens.len() as u32 - 1);
        }
        self.check_tokens(&tokens, positions.iter().copied().max().unwrap_or(0))?;
        let rotary = RotaryTable::new(&positions, &self.inverse_frequencies);
        let mut x = self.embedding.embedding(&Tensor::new(tokens.as_slice(), self.device())?)?;
        for (index, layer) in self.layers.iter().enumerate() {
            x = self.cached_layer(index, layer, &x, &rotary, steps)?;
        }
        for step in steps.iter_mut() {
            step.cache.tokens += step.tokens.len();
        }
        let last = x.index_select(&Tensor::new(last_rows, self.device())?, 0)?;
        let last = self.norm(&last, &self.norm)?;
        Ok(kernel::linear(&last, &self.head, kernel::WeightGradient::Frozen)?)
    }

    fn cached_layer(
        &self,
        index: usize,
        layer: &Layer,
        x: &Tensor,
        rotary: &RotaryTable,
        steps: &mut [Step<'_>],
    ) -> Result<Tensor> {
        let normed = self.norm(x, &layer.attention_norm)?;
        let (q, k, v) = self.heads(layer, &normed, rotary)?;
        let (q, k, v) = (values(&q)?, values(&k)?, values(&v)?);
        let (width, key_width) = (self.config.heads * self.config.head_size, self.config.key_value_size());
        let attention = CachedAttention {
            query_heads: self.config.heads,
            key_value_heads: self.config.key_value_heads,
            head_size: self.config.head_size,
        };
        let mut row = 0;
        let tasks: Vec<_> = steps
            .iter_mut()
            .map(|step| {
                let rows = row..row + step.tokens.len();
                row = rows.end;
                (rows, &mut step.cache.layers[index])
            })
            .collect();
        let attended: Vec<Vec<f32>> = tasks
            .into_par_iter()
            .with_max_len(1)
            .map(|(rows, (keys, past_values))| {
                keys.extend_from_slice(&k[rows.start * key_width..rows.end * key_width]);
                past_values.extend_from_slice(&v[rows.start * key_width..rows.end * key_width]);
                attention.attend(&q[rows.start * width..rows.end * width], keys, past_values)
            })
            .collect();
        let attended = Tensor::from_vec(attended.concat(), (row, width), &Device::Cpu)?;
        let x = (x + self.project(layer, Projection::OProj, &attended)?)?;
        self.feed_forward(layer, &x)
    }
}

fn values(tensor: &Tensor) -> Result<Vec<f32>> {
    Ok(tensor.flatten_all()?.to_vec1()?)
}
