//! Low-rank adapters (Hu et al. 2021) under PEFT's names and files.

use std::collections::BTreeMap;
use std::path::Path;

use candle_core::{Device, Tensor};
use rand::RngExt as _;

use super::layer::module_path;
use super::safetensors_file::read_safetensors;
use super::weights::Weights;
use crate::error::{Error, Fault, Result};
use crate::recipe::settings::{AdapterScaling, LoraSettings, Positive, Projection, Share};
use crate::run::seed::Seed;

/// An adapter of one linear layer: adds `scale` b a to its weight.
#[derive(Debug, Clone)]
pub(super) struct Adapter {
    /// `[rank, input]`
    pub(super) a: Tensor,
    /// `[output, rank]`
    pub(super) b: Tensor,
    pub(super) scale: f64,
    /// PEFT's name of the module.
    pub(super) name: String,
}

impl Adapter {
    pub(super) fn detached(&self) -> Self {
        Self { a: self.a.detach(), b: self.b.detach(), scale: self.scale, name: self.name.clone() }
    }

    pub(super) fn merge_into(&self, weight: &Tensor) -> Result<Tensor> {
        let Self { a, b, scale, .. } = self.detached();
        Ok((weight + (b.matmul(&a)? * scale)?)?)
    }
}

/// PEFT's name of an adapted module, without `.lora_A.weight`.
pub(super) fn name(layer: usize, projection: Projection) -> String {
    format!("base_model.model.model.layers.{layer}.{}", module_path(projection))
}

/// PEFT's start for A: uniform within 1 / sqrt(input). B starts at 0, so the adapter starts as nothing.
pub(super) fn initial_a(name: &str, rank: usize, input: usize, seed: Seed, device: &Device) -> Result<Tensor> {
    let bound = 1.0 / (input as f64).sqrt();
    let mut random = seed.stream(&format!("lora/{name}"));
    let values: Vec<f32> = (0..rank * input).map(|_| ((random.random::<f64>() * 2.0 - 1.0) * bound) as f32).collect();
    Ok(Tensor::from_vec(values, (rank, input), device)?)
}

/// What `adapter_config.json` says, as far as it bears on the result.
#[derive(Debug, Clone, PartialEq)]
pub struct AdapterConfig {
    /// Rank, alpha and modules.
    pub lora: LoraSettings,
    /// The model it was trained on.
    pub base_model: Option<String>,
}

/// Reads a PEFT folder.
///
/// # Errors
/// A [`Fault`] for another kind of adapter or unknown modules; a missing or cut file.
pub fn read_adapter(folder: &Path, device: &Device) -> Result<(AdapterConfig, BTreeMap<String, Tensor>)> {
    let file = folder.join("adapter_config.json");
    let bytes = std::fs::read(&file).map_err(|source| Error::read(&file, source))?;
    let place = file.display().to_string();
    let json: serde_json::Value =
        serde_json::from_slice(&bytes).map_err(|error| Fault::new(format!("not valid JSON: {error}")).at(&place))?;
    let config = parse_config(&json, &place)?;
    Ok((config, read_safetensors(&folder.join("adapter_model.safetensors"), device)?))
}

fn parse_config(json: &serde_json::Value, place: &str) -> Result<AdapterConfig> {
    let fault = |what: &str, got: &str| Fault::new(what).at(place).got(got);
    let kind = json["peft_type"].as_str().unwrap_or("none");
    if kind != "LORA" {
        return Err(fault("unsupported `peft_type`", kind).expected("`LORA`").into());
    }
    let unsupported = unsupported_options(json, place);
    if !unsupported.is_empty() {
        return Err(Error::Invalid(unsupported));
    }
    let rank = json["r"].as_u64().and_then(|rank| std::num::NonZeroUsize::new(rank as usize));
    let alpha = json["lora_alpha"].as_f64().and_then(|alpha| Positive::try_from(alpha).ok());
    let (Some(rank), Some(alpha)) = (rank, alpha) else {
        return Err(fault("`r` and `lora_alpha` must be numbers above 0", "neither or one").into());
    };
    let Some(modules) = json["target_modules"].as_array().filter(|modules| !modules.is_empty()) else {
        let got = json["target_modules"].to_string();
        return Err(fault("`target_modules` must list the adapted projections", &got).into());
    };
    let target_modules = modules
        .iter()
        .cloned()
        .map(|module| {
            let shown = module.to_string();
            serde_json::from_value::<Projection>(module).map_err(|_| fault("unknown target module", &shown).into())
        })
        .collect::<Result<Vec<_>>>()?;
    let base_model = json["base_model_name_or_path"].as_str().map(str::to_owned);
    let is_rank_stabilised = json["use_rslora"].as_bool().unwrap_or(false);
    let scaling = if is_rank_stabilised { AdapterScaling::RsLora } else { AdapterScaling::Lora };
    Ok(AdapterConfig { lora: LoraSettings { rank, alpha, dropout: Share::ZERO, target_modules, scaling }, base_model })
}

/// Options that change what the adapter computes and that are not computed here: an error each, never ignored.
fn unsupported_options(json: &serde_json::Value, place: &str) -> Vec<Fault> {
    let is_set = |key: &str| match &json[key] {
        serde_json::Value::Bool(flag) => *flag,
        serde_json::Value::String(text) => text != "none",
        serde_json::Value::Array(items) => !items.is_empty(),
        serde_json::Value::Object(map) => !map.is_empty(),
        _ => false,
    };
    let keys = [
        "use_dora",
        "fan_in_fan_out",
        "bias",
        "modules_to_save",
        "rank_pattern",
        "alpha_pattern",
        "layer_replication",
        "trainable_token_indices",
    ];
    keys.into_iter()
        .filter(|key| is_set(key))
        .map(|key| {
            Fault::new(format!("unsupported `{key}`")).at(place).got(&json[key]).expected("a plain LoRA adapter")
        })
        .collect()
}

impl Weights {
    /// Adds a PEFT adapter to the weights.
    ///
    /// # Errors
    /// A [`Fault`] naming every tensor of the adapter that has no partner or place in this model.
    pub fn merge_adapter(
        mut self,
        adapter: &AdapterConfig,
        tensors: &BTreeMap<String, Tensor>,
        place: &str,
    ) -> Result<Self> {
        let scale = adapter.lora.scale();
        let mut faults = Vec::new();
        let mut used = 0;
        for (name, a) in tensors.iter().filter(|(name, _)| name.ends_with(".lora_A.weight")) {
            let stem = name.trim_end_matches(".lora_A.weight");
            let target = format!("{}.weight", stem.trim_start_matches("base_model.model."));
            let partner = tensors.get(&format!("{stem}.lora_B.weight"));
            let (Some(b), Some(weight)) = (partner, self.0.get(&target)) else {
                faults.push(
                    Fault::new(format!("adapter tensor `{name}` has no partner or no place in this model")).at(place),
                );
                continue;
            };
            let ranks_agree = a.dims().first() == Some(&adapter.lora.rank.get());
            let merged = Adapter { a: a.clone(), b: b.clone(), scale, name: stem.to_owned() }.merge_into(weight);
            match merged {
                Ok(merged) if ranks_agree && merged.dims() == weight.dims() => {
                    self.0.insert(target, merged);
                    used += 2;
                }
                _ => faults.push(
                    Fault::new(format!("adapter tensor `{name}` does not fit this model"))
                        .at(place)
                        .got(format!("A {:?}, B {:?}", a.dims(), b.dims()))
                        .expected(format!("rank {} for a weight of {:?}", adapter.lora.rank, weight.dims()))
                        .hint("the adapter was trained on another model"),
                ),
            }
        }
        if faults.is_empty() && used != tensors.len() {
            faults.push(Fault::new("the adapter holds tensors that are not LoRA matrices").at(place));
        }
        faults.truncate(10);
        if faults.is_empty() { Ok(self) } else { Err(Error::Invalid(faults)) }
    }
}
