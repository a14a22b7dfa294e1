//! What a run will need: memory from the model's shape, before anything is computed.

use serde::Serialize;

use crate::device::NumberFormat;
use crate::kernel;
use crate::model::Decoder;
use crate::token::Packed;

/// What the backward pass reads of the layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Activations {
    /// Kept from the forward pass.
    Kept,
    /// Computed again, layer by layer.
    Recomputed,
}

/// Bytes that one forward and backward pass has at hand at its peak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct MemoryEstimate {
    /// All weights, as they are held.
    pub weights: u64,
    /// Gradients of the trained ones, and their two moments.
    pub training: u64,
    /// What the layers keep for the backward pass, and the gradients that pass through them.
    pub activations: u64,
    /// Logits of a chunk of rows, and what is kept of the head.
    pub head: u64,
}

impl MemoryEstimate {
    /// All of it.
    pub fn total(&self) -> u64 {
        self.weights + self.training + self.activations + self.head
    }
}

const F32_BYTES: u64 = 4;
/// Queries times keys of a tile of attention on a device, for each head.
const TILE: u64 = 1 << 19;

/// Peak memory of a training pass over `packed`, with gradients of an earlier micro-batch already held.
///
/// Counted are the tensors that the operations of [`crate::model`] keep; the allocator's slack and the tokenizer are not.
pub fn memory(decoder: &Decoder, packed: &Packed, activations: Activations) -> MemoryEstimate {
    let config = decoder.config();
    let (tokens, rows) = (packed.sequence.tokens.len() as u64, packed.rows.len() as u64);
    let is_full = decoder.parameters().contains_key("model.norm.weight");
    let width = config.hidden_size as u64;
    let layer = values_of_a_layer(decoder);
    let kept = match activations {
        Activations::Kept => tokens * layer * config.layers as u64,
        Activations::Recomputed => tokens * (layer + width * config.layers as u64),
    };
    // On the way back, gradients of the widest places of a layer.
    let passing = tokens * (3 * config.intermediate_size as u64 + 2 * width);
    let compute = decoder.compute();
    let is_fused = compute.device.is_cpu() && compute.format == NumberFormat::F32;
    let head_rows = rows.min(kernel::rows_together(config.vocabulary, compute) as u64);
    // Fused, the logits are turned into their gradient in place; composed, logits, exponentials and gradients stand together.
    let buffers = match (is_fused, is_full) {
        (true, false) => 1,
        (true, true) => 2,
        (false, _) => 3,
    };
    let head_values = head_rows * config.vocabulary as u64 * buffers + rows * width * 2;
    // Composed, a tile's scores and weights with their gradients: four buffers in f32, three in the format.
    let tiles = if is_fused { 0 } else { config.heads as u64 * TILE.min(tokens * tokens) };
    let bytes = compute.format.bytes();
    MemoryEstimate {
        weights: decoder.weight_bytes() as u64,
        training: training_bytes(decoder),
        activations: (kept + passing) * bytes + tiles * (4 * F32_BYTES + 3 * bytes),
        head: head_values * F32_BYTES,
    }
}

/// Gradients of the trained weights and their two moments. Gradients of two micro-batches stand beside each other while they
/// are added.
pub(super) fn training_bytes(decoder: &Decoder) -> u64 {
    let trained: u64 = decoder.parameters().values().map(|parameter| parameter.elem_count() as u64).sum();
    trained * (2 + 2) * F32_BYTES
}

/// Values a token that one layer keeps: norms, sums and branches at full width, queries before and after rotation and the
/// attended values, keys and values, and gate, up and their product.
fn values_of_a_layer(decoder: &Decoder) -> u64 {
    let config = decoder.config();
    let (width, queries) = (config.hidden_size as u64, (config.heads * config.head_size) as u64);
    let keys = (config.key_value_heads * config.head_size) as u64;
    6 * width + 3 * queries + 3 * keys + 3 * config.intermediate_size as u64
}
