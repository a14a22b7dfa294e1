//! The weights of a model made from nothing.
//!
//! In: a shape, the texts of the vocabulary, a seed. Out: `model.safetensors` with the names that transformers uses.

use std::collections::BTreeMap;
use std::path::Path;

use candle_core::{Device, Tensor};
use rand::RngExt as _;

use super::copying;
use super::shape::{Shape, Start};
use crate::error::{Error, Result};
use crate::run::atomic;
use crate::run::seed::Seed;

/// Deviation of embeddings.
const EMBEDDING_DEVIATION: f64 = 0.05;
/// What adds to the residual stream starts this much smaller than its inputs would give: else the branches of the first layers
/// drown the embeddings, and with them which token stands where.
const BRANCH: f64 = 0.1;

/// A matrix in row-major order, [rows, columns], or a vector of one row.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Matrix {
    pub rows: usize,
    pub columns: usize,
    pub values: Vec<f32>,
}

impl Matrix {
    pub fn row_mut(&mut self, row: usize) -> &mut [f32] {
        &mut self.values[row * self.columns..(row + 1) * self.columns]
    }
}

/// Weights by name.
pub(super) type Weights = BTreeMap<String, Matrix>;

/// The name of a layer's matrix.
pub(super) fn name(layer: usize, part: &str) -> String {
    format!("model.layers.{layer}.{part}.weight")
}

/// Writes the file.
///
/// # Errors
/// [`Error::Write`], or [`Error::Failed`] if the weights have no such form.
pub(super) fn write(path: &Path, shape: &Shape, tokens: &[String], seed: Seed) -> Result<()> {
    let tensors = initial(shape, tokens, seed)
        .into_iter()
        .map(|(name, matrix)| {
            let is_vector = name.ends_with("norm.weight");
            let dims = if is_vector { vec![matrix.columns] } else { vec![matrix.rows, matrix.columns] };
            Ok((name, Tensor::from_vec(matrix.values, dims, &Device::Cpu)?))
        })
        .collect::<Result<BTreeMap<_, _>>>()?;
    let metadata = std::collections::HashMap::from([("format".to_owned(), "pt".to_owned())]);
    let bytes =
        safetensors::serialize(&tensors, Some(metadata)).map_err(|error| Error::Failed(format!("weights: {error}")))?;
    atomic::write(path, &bytes)
}

/// Normal with deviation 1/sqrt(inputs) for matrices, smaller for those that add to the residual stream; ones for norms. Llama's
/// 0.02 is meant for widths in the thousands: at a width of 192 attention starts almost uniform, and learning is several times
/// slower.
pub(super) fn initial(shape: &Shape, tokens: &[String], seed: Seed) -> Weights {
    let mut weights = Weights::new();
    for (name, rows, columns) in layout(shape, tokens.len()) {
        let values = if name.ends_with("norm.weight") {
            vec![1.0; columns]
        } else {
            normal(rows * columns, deviation(&name, columns, shape.layers), seed, &name)
        };
        weights.insert(name, Matrix { rows, columns, values });
    }
    if shape.start == Start::Copying {
        copying::lay_out(&mut weights, shape, tokens, seed);
    }
    weights
}

fn layout(shape: &Shape, entries: usize) -> Vec<(String, usize, usize)> {
    let head_size = shape.hidden_size / shape.heads;
    let (hidden, inner) = (shape.hidden_size, shape.intermediate_size);
    let key_value = shape.key_value_heads * head_size;
    let mut all =
        vec![("model.embed_tokens.weight".to_owned(), entries, hidden), ("model.norm.weight".to_owned(), 1, hidden)];
    if !shape.is_tied() {
        all.push(("lm_head.weight".to_owned(), entries, hidden));
    }
    for layer in 0..shape.layers {
        for (part, rows, columns) in [
            ("input_layernorm", 1, hidden),
            ("post_attention_layernorm", 1, hidden),
            ("self_attn.q_proj", hidden, hidden),
            ("self_attn.k_proj", key_value, hidden),
            ("self_attn.v_proj", key_value, hidden),
            ("self_attn.o_proj", hidden, hidden),
            ("mlp.gate_proj", inner, hidden),
            ("mlp.up_proj", inner, hidden),
            ("mlp.down_proj", hidden, inner),
        ] {
            all.push((name(layer, part), rows, columns));
        }
    }
    all
}

fn deviation(name: &str, inputs: usize, layers: usize) -> f64 {
    let adds_to_residual = ["o_proj", "down_proj"].iter().any(|projection| name.contains(projection));
    match name {
        "model.embed_tokens.weight" => EMBEDDING_DEVIATION,
        _ if adds_to_residual => BRANCH / (inputs as f64 * 2.0 * layers as f64).sqrt(),
        _ => (inputs as f64).sqrt().recip(),
    }
}

/// Box and Muller's transform over the named stream, so that a tensor's values depend on its name and the seed alone.
pub(super) fn normal(count: usize, deviation: f64, seed: Seed, name: &str) -> Vec<f32> {
    let mut random = seed.stream(&format!("scratch/{name}"));
    (0..count)
        .map(|_| {
            let radius = (-2.0 * (1.0 - random.random::<f64>()).ln()).sqrt();
            let angle = std::f64::consts::TAU * random.random::<f64>();
            (deviation * radius * angle.cos()) as f32
        })
        .collect()
}
