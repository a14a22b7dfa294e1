//! Shape and constants of a decoder, from `config.json` or GGUF metadata; what this program cannot compute is a fault.

use std::path::Path;

use serde_json::Value;

use crate::error::{Error, Fault, Result};

/// Above any model there is, and small enough that products of two sizes cannot overflow.
const LARGEST_SIZE: u64 = 1 << 24;
const MOST_LAYERS: u64 = 1024;

/// A Llama decoder's shape and constants.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct ModelConfig {
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
    /// Longest sequence.
    pub context: usize,
    /// The head is the embedding.
    pub tied: bool,
    /// `config.json` as given (or as made from GGUF metadata), for exports.
    #[serde(skip)]
    pub json: Value,
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
        let mut fields = Fields { json: &json, place, faults: Vec::new() };
        fields.check_architecture();
        let hidden_size = fields.size("hidden_size", None);
        let heads = fields.size("num_attention_heads", None);
        let config = Self {
            hidden_size,
            intermediate_size: fields.size("intermediate_size", None),
            layers: fields.size("num_hidden_layers", None),
            heads,
            key_value_heads: fields.size("num_key_value_heads", Some(heads)),
            head_size: fields.size("head_dim", Some(hidden_size.checked_div(heads).unwrap_or(0))),
            vocabulary: fields.size("vocab_size", None),
            norm_epsilon: fields.number("rms_norm_eps", Some(1e-6)),
            rope_theta: fields.rope_theta(),
            rope_scaling: fields.rope_scaling(),
            context: fields.size("max_position_embeddings", Some(2048)),
            tied: json.get("tie_word_embeddings").and_then(Value::as_bool).unwrap_or(false),
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

    /// The names and shapes of all tensors.
    pub fn tensors(&self) -> std::collections::BTreeMap<String, Vec<usize>> {
        let (hidden, inner, key_value) = (self.hidden_size, self.intermediate_size, self.key_value_size());
        let queries = self.heads * self.head_size;
        let mut tensors = std::collections::BTreeMap::from([
            ("model.embed_tokens.weight".to_owned(), vec![self.vocabulary, hidden]),
            ("model.norm.weight".to_owned(), vec![hidden]),
        ]);
        if !self.tied {
            tensors.insert("lm_head.weight".to_owned(), vec![self.vocabulary, hidden]);
        }
        for layer in 0..self.layers {
            for (name, shape) in [
                ("input_layernorm", vec![hidden]),
                ("post_attention_layernorm", vec![hidden]),
                ("self_attn.q_proj", vec![queries, hidden]),
                ("self_attn.k_proj", vec![key_value, hidden]),
                ("self_attn.v_proj", vec![key_value, hidden]),
                ("self_attn.o_proj", vec![hidden, queries]),
                ("mlp.gate_proj", vec![inner, hidden]),
                ("mlp.up_proj", vec![inner, hidden]),
                ("mlp.down_proj", vec![hidden, inner]),
            ] {
                tensors.insert(format!("model.layers.{layer}.{name}.weight"), shape);
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

/// Typed access to the JSON, faults collected.
struct Fields<'a> {
    json: &'a Value,
    place: &'a str,
    faults: Vec<Fault>,
}

impl Fields<'_> {
    fn fault(&mut self, fault: Fault) {
        self.faults.push(fault.at(self.place));
    }

    fn check_architecture(&mut self) {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
        // Old files name only the class.
        let class = text(self.json.get("architectures").and_then(|list| list.get(0)));
        let kind = text(self.json.get("model_type")).or(class).unwrap_or_else(|| "none".to_owned());
        if kind != "llama" && kind != "LlamaForCausalLM" {
            let fault = Fault::new("unsupported `model_type`").got(kind).expected("`llama`");
            self.fault(fault.hint("Llama, SmolLM and SmolLM2 checkpoints load; other families do not yet"));
        }
        if self.json.get("quantization_config").is_some_and(|value| !value.is_null()) {
            let fault = Fault::new("unsupported `quantization_config`").expected("weights in f32, bf16 or f16");
            self.fault(fault.hint("quantised weights load from a .gguf file"));
        }
        for key in ["attention_bias", "mlp_bias"] {
            if self.json.get(key).and_then(Value::as_bool) == Some(true) {
                self.fault(Fault::new(format!("unsupported `{key}`")).got(true).expected("false"));
            }
        }
        let activation = self.json.get("hidden_act").and_then(Value::as_str).unwrap_or("silu");
        if activation != "silu" {
            self.fault(Fault::new("unsupported `hidden_act`").got(activation).expected("`silu`"));
        }
    }

    fn size(&mut self, key: &str, default: Option<usize>) -> usize {
        match (self.json.get(key).filter(|value| !value.is_null()), default) {
            (None, Some(default)) => default,
            (None, None) => {
                self.fault(Fault::new(format!("`{key}` is missing")).expected("a whole number above 0"));
                0
            }
            (Some(value), _) => {
                let limit = if key == "num_hidden_layers" { MOST_LAYERS } else { LARGEST_SIZE };
                if let Some(size) = value.as_u64().filter(|size| (1..=limit).contains(size)) {
                    return size as usize;
                }
                let fault = Fault::new(format!("`{key}` is not a size")).got(value);
                self.fault(fault.expected(format!("a whole number from 1 to {limit}")));
                0
            }
        }
    }

    fn number(&mut self, key: &str, default: Option<f64>) -> f64 {
        let value = self.json.get(key).cloned();
        self.positive(key, value.as_ref(), default)
    }

    fn positive(&mut self, key: &str, value: Option<&Value>, default: Option<f64>) -> f64 {
        let value = value.filter(|value| !value.is_null());
        let number = if value.is_none() { default } else { value.and_then(Value::as_f64) };
        number.filter(|number| *number > 0.0 && number.is_finite()).unwrap_or_else(|| {
            let got = value.unwrap_or(&Value::Null);
            self.fault(Fault::new(format!("`{key}` is not a number above 0")).got(got));
            1.0
        })
    }

    /// transformers 5 moved the base and the scaling into `rope_parameters`.
    fn rope(&self, key: &str) -> Option<&Value> {
        let from = |table: &str| self.json.get(table).and_then(|table| table.get(key));
        from("rope_parameters").or_else(|| from("rope_scaling")).filter(|value| !value.is_null())
    }

    fn rope_theta(&mut self) -> f64 {
        let value = self.json.get("rope_theta").or_else(|| self.rope("rope_theta")).cloned();
        self.positive("rope_theta", value.as_ref(), Some(10_000.0))
    }

    fn rope_scaling(&mut self) -> Option<RopeScaling> {
        let kind = self.rope("rope_type").or_else(|| self.rope("type")).and_then(Value::as_str)?.to_owned();
        match kind.as_str() {
            "default" => None,
            "llama3" => {
                let mut number = |key: &str| {
                    let value = self.rope(key).cloned();
                    self.positive(key, value.as_ref(), None)
                };
                let scaling = RopeScaling {
                    factor: number("factor"),
                    low_frequency_factor: number("low_freq_factor"),
                    high_frequency_factor: number("high_freq_factor"),
                    original_context: number("original_max_position_embeddings"),
                };
                if scaling.high_frequency_factor <= scaling.low_frequency_factor {
                    let fault = Fault::new("`high_freq_factor` must be above `low_freq_factor`");
                    self.fault(fault.got(scaling.high_frequency_factor));
                }
                Some(scaling)
            }
            other => {
                self.fault(Fault::new("unsupported rope scaling").got(other).expected("`default` or `llama3`"));
                None
            }
        }
    }

    fn check_heads(&mut self, config: &ModelConfig) {
        if config.key_value_heads > 0 && !config.heads.is_multiple_of(config.key_value_heads) {
            let fault = Fault::new("`num_attention_heads` is not a multiple of `num_key_value_heads`");
            self.fault(fault.got(format!("{} and {}", config.heads, config.key_value_heads)));
        }
        if config.head_size == 0 || !config.head_size.is_multiple_of(2) {
            self.fault(Fault::new("the head size must be even and above 0").got(config.head_size));
        }
    }
}
