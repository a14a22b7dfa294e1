//! The families of decoders that are computed here, and what sets each apart.

use crate::recipe::settings::Projection;

/// A family of decoders, by the `model_type` of its `config.json`; GGUF names its architectures alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// Llama, `SmolLM` and `SmolLM2`.
    Llama,
    /// Qwen 2 and 2.5: queries, keys and values have biases.
    Qwen2,
    /// Qwen 3: each head's queries and keys are normed.
    Qwen3,
    /// `SmolLM3`: some layers see no positions.
    SmolLm3,
}

/// What a family's `config.json` means where it is silent, as transformers reads it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Defaults {
    pub(super) context: usize,
    pub(super) rope_theta: f64,
    pub(super) tied: bool,
    /// `None`: the width over the number of heads.
    pub(super) head_size: Option<usize>,
}

/// Which projections a family gives biases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Biases {
    /// These, always.
    Fixed(&'static [Projection]),
    /// Those that `attention_bias` and `mlp_bias` say.
    Configured,
    /// Those that `attention_bias` says.
    ConfiguredAttention,
}

/// The projections of attention.
pub(super) const ATTENTION: [Projection; 4] =
    [Projection::QProj, Projection::KProj, Projection::VProj, Projection::OProj];
/// The projections of the feed-forward block.
pub(super) const FEED_FORWARD: [Projection; 3] = [Projection::GateProj, Projection::UpProj, Projection::DownProj];

impl Family {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Llama, Self::Qwen2, Self::Qwen3, Self::SmolLm3];

    /// The family of a `model_type`, or of a class name, which old files have alone.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|family| name == family.model_type() || name == family.architecture())
    }

    /// Its `model_type`.
    pub fn model_type(self) -> &'static str {
        match self {
            Self::Llama => "llama",
            Self::Qwen2 => "qwen2",
            Self::Qwen3 => "qwen3",
            Self::SmolLm3 => "smollm3",
        }
    }

    /// Its class in transformers, for `architectures`.
    pub fn architecture(self) -> &'static str {
        match self {
            Self::Llama => "LlamaForCausalLM",
            Self::Qwen2 => "Qwen2ForCausalLM",
            Self::Qwen3 => "Qwen3ForCausalLM",
            Self::SmolLm3 => "SmolLM3ForCausalLM",
        }
    }

    /// The model types as a sentence lists them.
    pub(super) fn listed() -> String {
        Self::ALL.map(|family| format!("`{}`", family.model_type())).join(", ")
    }

    pub(super) fn defaults(self) -> Defaults {
        let defaults = Defaults { context: 32_768, rope_theta: 10_000.0, tied: false, head_size: None };
        match self {
            Self::Llama => Defaults { context: 2048, ..defaults },
            Self::Qwen2 => defaults,
            Self::Qwen3 => Defaults { head_size: Some(128), ..defaults },
            Self::SmolLm3 => Defaults { rope_theta: 2_000_000.0, tied: true, ..defaults },
        }
    }

    pub(super) fn biases(self) -> Biases {
        match self {
            Self::Llama | Self::SmolLm3 => Biases::Configured,
            Self::Qwen2 => Biases::Fixed(&[Projection::QProj, Projection::KProj, Projection::VProj]),
            Self::Qwen3 => Biases::ConfiguredAttention,
        }
    }

    /// Whether each head's queries and keys are normed.
    pub(super) fn norms_heads(self) -> bool {
        self == Self::Qwen3
    }

    /// Whether GGUF files hold the rows of queries and keys in another order: llama.cpp's converter turns them for the
    /// classes that descend from its Llama.
    pub(super) fn is_turned_in_gguf(self) -> bool {
        matches!(self, Self::Llama | Self::SmolLm3)
    }
}
