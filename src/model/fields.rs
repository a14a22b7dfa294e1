//! A `config.json` field by field: values where they can be honoured, and a fault for each that cannot.

use serde_json::Value;

use super::config::{ModelConfig, Positions, RopeScaling};
use super::family::{ATTENTION, Biases, FEED_FORWARD, Family};
use crate::error::Fault;
use crate::recipe::settings::Projection;

/// Above any model there is, and small enough that products of two sizes cannot overflow.
const LARGEST_SIZE: u64 = 1 << 24;
const MOST_LAYERS: u64 = 1024;

/// Typed access to the JSON, faults collected.
pub(super) struct Fields<'a> {
    json: &'a Value,
    place: &'a str,
    pub(super) faults: Vec<Fault>,
}

impl<'a> Fields<'a> {
    pub(super) fn new(json: &'a Value, place: &'a str) -> Self {
        Self { json, place, faults: Vec::new() }
    }
}

impl Fields<'_> {
    fn fault(&mut self, fault: Fault) {
        self.faults.push(fault.at(self.place));
    }

    /// The family, and a fault for whatever this program cannot compute in any of them.
    pub(super) fn family(&mut self) -> Family {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
        // Old files name only the class.
        let class = text(self.json.get("architectures").and_then(|list| list.get(0)));
        let kind = text(self.json.get("model_type")).or(class).unwrap_or_else(|| "none".to_owned());
        let family = Family::named(&kind);
        if family.is_none() {
            let fault = Fault::new("unsupported `model_type`").got(kind).expected(Family::listed());
            self.fault(fault.hint("Llama, SmolLM 1 to 3, and dense Qwen 2, 2.5 and 3 load; other families do not"));
        }
        if self.json.get("quantization_config").is_some_and(|value| !value.is_null()) {
            let fault = Fault::new("unsupported `quantization_config`").expected("weights in f32, bf16 or f16");
            self.fault(fault.hint("quantised weights load from a .gguf file"));
        }
        let activation = self.json.get("hidden_act").and_then(Value::as_str).unwrap_or("silu");
        if activation != "silu" {
            self.fault(Fault::new("unsupported `hidden_act`").got(activation).expected("`silu`"));
        }
        let share = self.json.get("partial_rotary_factor").or_else(|| self.rope("partial_rotary_factor")).cloned();
        if let Some(share) = share.filter(|share| !share.is_null() && share.as_f64() != Some(1.0)) {
            self.fault(Fault::new("unsupported `partial_rotary_factor`").got(share).expected("1"));
        }
        family.unwrap_or(Family::Llama)
    }

    pub(super) fn flag(&self, key: &str) -> Option<bool> {
        self.json.get(key).and_then(Value::as_bool)
    }

    /// Projections with a bias.
    pub(super) fn biased(&self, family: Family) -> Vec<Projection> {
        let mut biased = Vec::new();
        let configured = match family.biases() {
            Biases::Fixed(projections) => return projections.to_vec(),
            Biases::ConfiguredAttention => vec![("attention_bias", &ATTENTION[..])],
            Biases::Configured => vec![("attention_bias", &ATTENTION[..]), ("mlp_bias", &FEED_FORWARD[..])],
        };
        for (key, projections) in configured {
            if self.flag(key) == Some(true) {
                biased.extend_from_slice(projections);
            }
        }
        biased
    }

    /// What each layer knows of positions: `no_rope_layers` (1 for rotary, 0 for none), or every fourth layer none.
    pub(super) fn positions(&mut self, family: Family, layers: usize) -> Vec<Positions> {
        if family != Family::SmolLm3 {
            return vec![Positions::Rotary; layers];
        }
        let Some(list) = self.json.get("no_rope_layers").filter(|list| !list.is_null()) else {
            let interval = self.size("no_rope_layer_interval", Some(4)).max(1);
            let without = |layer: usize| (layer + 1).is_multiple_of(interval);
            return (0..layers).map(|at| if without(at) { Positions::None } else { Positions::Rotary }).collect();
        };
        let read = |entry: &Value| match entry.as_u64() {
            Some(1) => Some(Positions::Rotary),
            Some(0) => Some(Positions::None),
            _ => None,
        };
        let read: Option<Vec<Positions>> = list.as_array().and_then(|entries| entries.iter().map(read).collect());
        if let Some(mut positions) = read.filter(|positions| positions.len() >= layers) {
            positions.truncate(layers);
            return positions;
        }
        let got = list.as_array().map_or_else(|| list.to_string(), |entries| format!("{} entries", entries.len()));
        let fault = Fault::new("`no_rope_layers` does not fit the layers").got(got);
        self.fault(fault.expected(format!("{layers} entries, each 0 or 1")));
        vec![Positions::Rotary; layers]
    }

    /// No layer may attend to a window only: the window would be ignored in silence.
    pub(super) fn check_every_layer_attends_to_all(&mut self, family: Family, layers: usize) {
        let other =
            self.json.get("layer_types").and_then(Value::as_array).and_then(|kinds| {
                kinds.iter().take(layers).find(|kind| kind.as_str() != Some("full_attention")).cloned()
            });
        if let Some(kind) = other {
            self.fault(Fault::new("unsupported attention in `layer_types`").got(kind).expected("`full_attention`"));
            return;
        }
        let windowed = self.flag("use_sliding_window") == Some(true)
            && family != Family::Llama
            && self.json.get("layer_types").is_none_or(Value::is_null)
            && self.json.get("sliding_window").is_some_and(|window| !window.is_null())
            && self.json.get("max_window_layers").and_then(Value::as_u64).unwrap_or(0) < layers as u64;
        if windowed {
            let fault = Fault::new("unsupported `use_sliding_window`").got(true).expected("false");
            self.fault(fault.hint("attention over a sliding window is not computed here"));
        }
    }

    pub(super) fn size(&mut self, key: &str, default: Option<usize>) -> usize {
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

    pub(super) fn number(&mut self, key: &str, default: Option<f64>) -> f64 {
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

    pub(super) fn rope_theta(&mut self, default: f64) -> f64 {
        let value = self.json.get("rope_theta").or_else(|| self.rope("rope_theta")).cloned();
        self.positive("rope_theta", value.as_ref(), Some(default))
    }

    pub(super) fn rope_scaling(&mut self) -> Option<RopeScaling> {
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

    pub(super) fn check_heads(&mut self, config: &ModelConfig) {
        if config.key_value_heads > 0 && !config.heads.is_multiple_of(config.key_value_heads) {
            let fault = Fault::new("`num_attention_heads` is not a multiple of `num_key_value_heads`");
            self.fault(fault.got(format!("{} and {}", config.heads, config.key_value_heads)));
        }
        if config.head_size == 0 || !config.head_size.is_multiple_of(2) {
            self.fault(Fault::new("the head size must be even and above 0").got(config.head_size));
        }
    }
}
