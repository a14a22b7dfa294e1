//! Shape of a model made from nothing. It knows no tensors, so that recipes can be read without them.

/// What the weights are before any training.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Start {
    /// Random throughout.
    #[default]
    Random,
    /// Random, but for embeddings and the attention of the first two layers, which are laid out to look values up by their key and
    /// to repeat them (induction heads, arXiv 2209.11895). A model of a few million weights forms them by itself only after
    /// tens of millions of tokens.
    Copying,
}

/// Shape of the decoder.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Shape {
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Width of the feed-forward block.
    pub intermediate_size: usize,
    /// Layers.
    pub layers: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads.
    pub key_value_heads: usize,
    /// Entries of the tokenizer, the 256 bytes and the special tokens included.
    pub vocabulary: usize,
    /// Longest sequence.
    pub context: usize,
    /// What its weights start as.
    pub start: Start,
}

impl Shape {
    /// Base of rotary embeddings: high where attention is laid out, so that most of a head's dimensions hardly turn over a prompt.
    pub(super) fn rotary_base(&self) -> f64 {
        match self.start {
            Start::Random => 10_000.0,
            Start::Copying => 1_000_000.0,
        }
    }

    /// Whether embeddings are the output weights too.
    pub(super) fn is_tied(&self) -> bool {
        self.start == Start::Random
    }

    /// Radians a token by which a pair of a head's dimensions turns.
    pub(super) fn rotation(&self, pair: usize) -> f64 {
        let half = self.hidden_size / self.heads / 2;
        self.rotary_base().powf(-(pair as f64) / half as f64)
    }
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            hidden_size: 128,
            intermediate_size: 384,
            layers: 4,
            heads: 4,
            key_value_heads: 2,
            vocabulary: 2048,
            context: 2048,
            start: Start::Random,
        }
    }
}
