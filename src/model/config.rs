//! Shape and constants of a decoder, from `config.json` or GGUF metadata; what this program cannot compute is a fault.

use std::path::Path;

use serde_json::Value;

use super::family::Family;
use super::fields::Fields;
use super::layer::module_path;
use crate::error::{Error, Fault, Result};
use crate::recipe::settings::Projection;

/// A decoder's shape and constants.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct ModelConfig {
    /// What kind of decoder it is.
    pub family: Family,
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
    /// Size of a head.
    pub head_size: usize,
    /// Rows of the embedding.
    pub vocabulary: usize,
    /// Epsilon of the norms.
    pub norm_epsilon: f64,
    /// Base of the rotary frequencies.
    pub rope_theta: f64,
    /// Change of the rotary frequencies for long contexts.
    pub rope_scaling: Option<RopeScaling>,
    /// Whether each layer's heads are turned to their positions. `[layers]`
    pub positions: Vec<Positions>,
    /// Projections that add a bias.
    pub biased: Vec<Projection>,
    /// Longest sequence.
    pub context: usize,
    /// The head is the embedding.
    pub tied: bool,
    /// `config.json` as given (or as made from GGUF metadata), for exports.
    #[serde(skip)]
    pub json: Value,
}

/// What a layer's attention knows of positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Positions {
    /// Queries and keys are turned by their positions.
    Rotary,
    /// Nothing but the order that the mask gives.
    None,
}

/// Llama 3's frequency scaling.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct RopeScaling {
    /// Long waves are slowed by this factor.
    pub factor: f64,
    /// Waves longer than context / this are slowed in full.
    pub low_frequency_factor: f64,
    /// Waves shorter than context / this are left alone.
    pub high_frequency_factor: f64,
    /// Context of the original training.
    pub original_context: f64,
}

impl ModelConfig {
    /// Reads `config.json`.
    ///
    /// # Errors
    /// Every fault of the file at once.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).map_err(|source| Error::read(path, source))?;
        let json: Value = serde_json::from_slice(&bytes)
            .map_err(|error| Fault::new(format!("not valid JSON: {error}")).at(path.display()))?;
        Self::from_json(json, &path.display().to_string())
    }

    /// Interprets the content of a `config.json`; `place` names it in errors.
    ///
    /// # Errors
    /// Every fault at once.
    pub fn from_json(json: Value, place: &str) -> Result<Self> {
        let mut fields = Fields::new(&json, place);
        let family = fields.family();
        let defaults = family.defaults();
        let hidden_size = fields.size("hidden_size", None);
        let heads = fields.size("num_attention_heads", None);
        let layers = fields.size("num_hidden_layers", None);
        let head_size = defaults.head_size.unwrap_or(hidden_size.checked_div(heads).unwrap_or(0));
        fields.check_every_layer_attends_to_all(family, layers);
        let config = Self {
            family,
            hidden_size,
            intermediate_size: fields.size("intermediate_size", None),
            layers,
            heads,
            key_value_heads: fields.size("num_key_value_heads", Some(heads)),
            head_size: fields.size("head_dim", Some(head_size)),
            vocabulary: fields.size("vocab_size", None),
            norm_epsilon: fields.number("rms_norm_eps", Some(1e-6)),
            rope_theta: fields.rope_theta(defaults.rope_theta),
            rope_scaling: fields.rope_scaling(),
            positions: fields.positions(family, layers),
            biased: fields.biased(family),
            context: fields.size("max_position_embeddings", Some(defaults.context)),
            tied: fields.flag("tie_word_embeddings").unwrap_or(defaults.tied),
            json: Value::Null,
        };
        fields.check_heads(&config);
        let faults = fields.faults;
        if faults.is_empty() { Ok(Self { json, ..config }) } else { Err(Error::Invalid(faults)) }
    }

    /// Width of the keys and values of all heads.
    pub fn key_value_size(&self) -> usize {
        self.key_value_heads * self.head_size
    }

    /// Angle per position of each pair of a head. `[head_size / 2]`
    pub fn inverse_frequencies(&self) -> Vec<f64> {
        (0..self.head_size / 2)
            .map(|pair| {
                let frequency = self.rope_theta.powf(-2.0 * pair as f64 / self.head_size as f64);
                self.rope_scaling.map_or(frequency, |scaling| scaling.apply(frequency))
            })
            .collect()
    }

    /// Shape of a projection's weight, `[output, input]`.
    pub(super) fn projection_shape(&self, projection: Projection) -> [usize; 2] {
        let (hidden, inner, queries) = (self.hidden_size, self.intermediate_size, self.heads * self.head_size);
        match projection {
            Projection::QProj => [queries, hidden],
            Projection::KProj | Projection::VProj => [self.key_value_size(), hidden],
            Projection::OProj => [hidden, queries],
            Projection::GateProj | Projection::UpProj => [inner, hidden],
            Projection::DownProj => [hidden, inner],
        }
    }

    /// The names and shapes of all tensors.
    pub fn tensors(&self) -> std::collections::BTreeMap<String, Vec<usize>> {
        let hidden = self.hidden_size;
        let mut tensors = std::collections::BTreeMap::from([
            ("model.embed_tokens.weight".to_owned(), vec![self.vocabulary, hidden]),
            ("model.norm.weight".to_owned(), vec![hidden]),
        ]);
        if !self.tied {
            tensors.insert("lm_head.weight".to_owned(), vec![self.vocabulary, hidden]);
        }
        for layer in 0..self.layers {
            let mut insert = |name: &str, shape: &[usize]| {
                tensors.insert(format!("model.layers.{layer}.{name}"), shape.to_vec());
            };
            insert("input_layernorm.weight", &[hidden]);
            insert("post_attention_layernorm.weight", &[hidden]);
            if self.family.norms_heads() {
                insert("self_attn.q_norm.weight", &[self.head_size]);
                insert("self_attn.k_norm.weight", &[self.head_size]);
            }
            for projection in Projection::ALL {
                let (path, shape) = (module_path(projection), self.projection_shape(projection));
                insert(&format!("{path}.weight"), &shape);
                if self.biased.contains(&projection) {
                    insert(&format!("{path}.bias"), &shape[..1]);
                }
            }
        }
        tensors
    }
}

impl RopeScaling {
    pub(super) fn apply(self, frequency: f64) -> f64 {
        let wave = std::f64::consts::TAU / frequency;
        let (longest, shortest) =
            (self.original_context / self.low_frequency_factor, self.original_context / self.high_frequency_factor);
        if wave < shortest {
            frequency
        } else if wave > longest {
            frequency / self.factor
        } else {
            let smooth = (self.original_context / wave - self.low_frequency_factor)
                / (self.high_frequency_factor - self.low_frequency_factor);
            (1.0 - smooth) * frequency / self.factor + smooth * frequency
        }
    }
}
