//! Decoding: keys and values of past tokens are kept, so that each new token costs one row.

use candle_core::{DType, Device, Tensor};
use rayon::prelude::*;

use super::decoder::Decoder;
use super::kept::Kept;
use crate::error::{Error, Result};
use crate::kernel::composed::CachedTiles;
use crate::kernel::{self, CachedAttention, RotaryTable};
use crate::recipe::settings::Projection;

/// Keys and values of one sequence, layer by layer.
#[derive(Debug, Clone, Default)]
pub struct KeyValueCache {
    layers: Vec<Kept>,
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
    /// each, f32: a prompt's prefill and single steps alike. `[sequences, vocabulary]`
    ///
    /// # Errors
    /// A token outside the vocabulary, a sequence past the context, an empty step.
    pub fn decode(&self, steps: &mut [Step<'_>]) -> Result<Tensor> {
        // A decoder in training records what it computes; decoding has no use for that. Detaching copies no values.
        if self.parameters().is_empty() { self.read(steps) } else { self.detached().read(steps) }
    }

    fn read(&self, steps: &mut [Step<'_>]) -> Result<Tensor> {
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
        let mut x = self.embed(&tokens)?;
        let tiles = if kernel::is_fused(&x) { None } else { Some(self.tiles(steps)?) };
        for (index, layer) in self.layers.iter().enumerate() {
            let normed = self.norm(&x, &layer.attention_norm)?;
            let (q, k, v) = self.heads(layer, &normed, &rotary)?;
            let attended = match &tiles {
                None => self.attend_on_host(index, [&q, &k, &v], steps)?,
                Some(tiles) => attend_on_device(index, [&q, &k, &v], steps, tiles)?,
            };
            x = (x + self.project(layer, Projection::OProj, &attended)?)?;
            x = self.feed_forward(layer, &x)?;
        }
        for step in steps.iter_mut() {
            step.cache.tokens += step.tokens.len();
        }
        let last = x.index_select(&Tensor::new(last_rows, self.device())?, 0)?;
        let last = self.norm(&last, &self.norm)?.to_dtype(DType::F32)?;
        Ok(kernel::linear(&last, &self.head, kernel::WeightGradient::Frozen)?)
    }

    /// What the new tokens see of all sequences' keys, one sequence after the other.
    fn tiles(&self, steps: &[Step<'_>]) -> Result<CachedTiles> {
        let sequences: Vec<_> = steps.iter().map(|step| (step.cache.tokens, step.tokens.len())).collect();
        let heads = (self.config.heads, self.config.key_value_heads, self.config.head_size);
        Ok(CachedTiles::new(&sequences, heads, self.compute().format.dtype(), self.device())?)
    }

    fn attend_on_host(&self, index: usize, heads: [&Tensor; 3], steps: &mut [Step<'_>]) -> Result<Tensor> {
        let [q, k, v] = heads.map(values);
        let (q, k, v) = (q?, k?, v?);
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
                (rows, step.cache.layers[index].on_host())
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
        Ok(Tensor::from_vec(attended.concat(), (row, width), &Device::Cpu)?)
    }
}

fn attend_on_device(
    index: usize,
    [q, k, v]: [&Tensor; 3],
    steps: &mut [Step<'_>],
    tiles: &CachedTiles,
) -> Result<Tensor> {
    let mut row = 0;
    let (mut all_keys, mut all_values) = (Vec::new(), Vec::new());
    for step in steps.iter_mut() {
        let count = step.tokens.len();
        let (keys, values) = step.cache.layers[index].on_device();
        all_keys.push(keys.append(&k.narrow(0, row, count)?)?);
        all_values.push(values.append(&v.narrow(0, row, count)?)?);
        row += count;
    }
    Ok(tiles.attend(q, &Tensor::cat(&all_keys, 0)?, &Tensor::cat(&all_values, 0)?)?)
}

fn values(tensor: &Tensor) -> Result<Vec<f32>> {
    Ok(tensor.flatten_all()?.to_vec1()?)
}
