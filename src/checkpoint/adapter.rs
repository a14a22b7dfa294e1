//! PEFT adapter folders: `adapter_config.json` and `adapter_model.safetensors`.
//!
//! Tensors are named as PEFT names them: `base_model.model.<module>.lora_A.weight` `[rank, in]` and `.lora_B.weight`
//! `[out, rank]`, where `<module>.weight` is the base's weight, `[out, in]`.

use std::collections::BTreeMap;
use std::path::Path;

use candle_core::{DType, Device, Tensor};
use serde::{Deserialize, Serialize};

use super::card::ModelCard;
use super::tensors::{read_tensors, write_tensors};
use crate::error::{Error, Fault, Result};
use crate::recipe::settings::LoraSettings;
use crate::run::atomic;

const CONFIG: &str = "adapter_config.json";
const WEIGHTS: &str = "adapter_model.safetensors";
const PREFIX: &str = "base_model.model.";
const LORA_A: &str = ".lora_A.weight";
const LORA_B: &str = ".lora_B.weight";

/// The keys of `adapter_config.json` that decide what an adapter computes; PEFT fills in the others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "the file's own keys")]
pub struct AdapterConfig {
    /// `LORA`.
    pub peft_type: String,
    /// `CAUSAL_LM`.
    #[serde(default)]
    pub task_type: Option<String>,
    /// Folder or hub id of the base.
    #[serde(default)]
    pub base_model_name_or_path: Option<String>,
    /// Rank.
    pub r: usize,
    /// The scale is `lora_alpha / r`.
    pub lora_alpha: f64,
    /// Dropout that training used.
    #[serde(default)]
    pub lora_dropout: f64,
    /// Projections: names, or a pattern in adapters made elsewhere.
    #[serde(default)]
    pub target_modules: serde_json::Value,
    /// `none`, or which biases were trained.
    #[serde(default = "no_bias")]
    pub bias: String,
    /// Whether base weights are stored `[in, out]`.
    #[serde(default)]
    pub fan_in_fan_out: bool,
    /// Whether the scale is `lora_alpha / sqrt(r)`.
    #[serde(default)]
    pub use_rslora: bool,
    /// Weight-decomposed adapters.
    #[serde(default)]
    pub use_dora: bool,
    /// Ranks that differ by module.
    #[serde(default)]
    pub rank_pattern: serde_json::Map<String, serde_json::Value>,
    /// Alphas that differ by module.
    #[serde(default)]
    pub alpha_pattern: serde_json::Map<String, serde_json::Value>,
    /// Whole modules trained beside the adapter.
    #[serde(default)]
    pub modules_to_save: Option<Vec<String>>,
    /// Inference only.
    #[serde(default)]
    pub inference_mode: bool,
}

fn no_bias() -> String {
    "none".to_owned()
}

/// An adapter: its configuration and its tensors under PEFT's names.
#[derive(Debug)]
pub struct Adapter {
    /// What it computes.
    pub config: AdapterConfig,
    /// Tensors by PEFT name.
    pub tensors: BTreeMap<String, Tensor>,
}

impl Adapter {
    /// An adapter as training makes it. `tensors` are named `<module>.lora_A.weight` and so on, without PEFT's prefix.
    pub fn new(settings: &LoraSettings, base_model: &str, tensors: BTreeMap<String, Tensor>) -> Self {
        let modules: Vec<&str> = settings.target_modules.iter().map(|projection| projection.name()).collect();
        let config = AdapterConfig {
            peft_type: "LORA".to_owned(),
            task_type: Some("CAUSAL_LM".to_owned()),
            base_model_name_or_path: Some(base_model.to_owned()),
            r: settings.rank.get(),
            lora_alpha: settings.alpha.get(),
            lora_dropout: settings.dropout.get(),
            target_modules: modules.into(),
            bias: no_bias(),
            fan_in_fan_out: false,
            use_rslora: false,
            use_dora: false,
            rank_pattern: serde_json::Map::new(),
            alpha_pattern: serde_json::Map::new(),
            modules_to_save: None,
            inference_mode: true,
        };
        let tensors = tensors.into_iter().map(|(name, tensor)| (format!("{PREFIX}{name}"), tensor)).collect();
        Self { config, tensors }
    }

    /// Writes the folder, whole or not at all.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn write(&self, folder: &Path, card: &ModelCard) -> Result<()> {
        atomic::write_folder(folder, |folder| {
            write_tensors(&folder.join(WEIGHTS), &self.tensors)?;
            let text = serde_json::to_string_pretty(&self.config).map_err(|error| Error::Failed(error.to_string()))?;
            atomic::write(&folder.join(CONFIG), text.as_bytes())?;
            atomic::write(&folder.join("README.md"), card.render().as_bytes())
        })
    }

    /// Whether this folder holds an adapter.
    pub fn is_at(folder: &Path) -> bool {
        folder.join(CONFIG).is_file()
    }

    /// Reads an adapter folder, also one that PEFT wrote.
    ///
    /// # Errors
    /// [`Error::Read`]; [`Fault`]s for a file that is not in the format and for each option that merging cannot honour.
    pub fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(CONFIG);
        let bytes = std::fs::read(&path).map_err(|source| Error::read(&path, source))?;
        let config: AdapterConfig = serde_json::from_slice(&bytes)
            .map_err(|error| Fault::new(format!("not an adapter's configuration: {error}")).at(path.display()))?;
        let faults = config.unsupported(&path);
        if !faults.is_empty() {
            return Err(Error::Invalid(faults));
        }
        Ok(Self { config, tensors: read_tensors(&folder.join(WEIGHTS), &Device::Cpu)? })
    }

    /// Adds `scale * B A` to each weight that the adapter changes; returns how many it changed.
    ///
    /// # Errors
    /// [`Fault`]s naming a tensor without its partner, without a weight in the base, or of a shape that does not fit.
    pub fn merge_into(&self, weights: &mut BTreeMap<String, Tensor>) -> Result<usize> {
        let mut merged = 0;
        for (name, a) in &self.tensors {
            let Some(module) = name.strip_prefix(PREFIX).and_then(|name| name.strip_suffix(LORA_A)) else {
                self.expect_known(name)?;
                continue;
            };
            let partner = format!("{PREFIX}{module}{LORA_B}");
            let b = self.tensors.get(&partner).ok_or_else(|| Fault::new("the adapter lacks a tensor").at(&partner))?;
            let key = format!("{module}.weight");
            let weight = weights
                .get(&key)
                .ok_or_else(|| Fault::new("the adapter changes a weight that the model does not have").at(&key))?;
            let fresh = self.merged(&key, weight, a, b)?;
            weights.insert(key, fresh);
            merged += 1;
        }
        Ok(merged)
    }

    /// `W + scale * B A`, computed in f32 and stored as W was.
    fn merged(&self, key: &str, weight: &Tensor, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        let fits = match (weight.dims(), a.dims(), b.dims()) {
            (&[outputs, inputs], &[a_rank, a_inputs], &[b_outputs, b_rank]) => {
                (outputs, inputs, a_rank) == (b_outputs, a_inputs, b_rank)
            }
            _ => false,
        };
        if !fits {
            return Err(Fault::new("the adapter does not fit the model")
                .at(key)
                .got(format!("A {:?}, B {:?}", a.dims(), b.dims()))
                .expected(format!("factors of {:?}", weight.dims()))
                .into());
        }
        let f32_on_host = |tensor: &Tensor| tensor.to_device(weight.device())?.to_dtype(DType::F32);
        let change = (f32_on_host(b)?.matmul(&f32_on_host(a)?)? * self.config.scale())?; // [out, in]
        Ok((weight.to_dtype(DType::F32)? + change)?.to_dtype(weight.dtype())?)
    }

    fn expect_known(&self, name: &str) -> Result<()> {
        let partner = name.strip_suffix(LORA_B).map(|module| format!("{module}{LORA_A}"));
        match partner {
            Some(partner) if self.tensors.contains_key(&partner) => Ok(()),
            Some(partner) => Err(Fault::new("the adapter lacks a tensor").at(partner).into()),
            None => Err(Fault::new("the adapter holds a tensor that is not of LoRA").at(name).into()),
        }
    }
}

impl AdapterConfig {
    /// Factor on `B A`.
    pub fn scale(&self) -> f64 {
        let rank = self.r as f64;
        self.lora_alpha / if self.use_rslora { rank.sqrt() } else { rank }
    }

    /// Options that change what the adapter computes and that merging does not know: an error each, never ignored.
    fn unsupported(&self, path: &Path) -> Vec<Fault> {
        let fault = |what: &str| Fault::new(format!("merging does not support {what}")).at(path.display());
        let trains_modules = self.modules_to_save.as_ref().is_some_and(|modules| !modules.is_empty());
        [
            (self.peft_type != "LORA", fault("this `peft_type`").got(&self.peft_type).expected("LORA")),
            (self.r == 0, Fault::new("`r` must be above 0").at(path.display()).got(0)),
            (self.use_dora, fault("`use_dora`")),
            (self.fan_in_fan_out, fault("`fan_in_fan_out`")),
            (self.bias != "none", fault("trained biases").got(&self.bias).expected("none")),
            (!self.rank_pattern.is_empty(), fault("`rank_pattern`")),
            (!self.alpha_pattern.is_empty(), fault("`alpha_pattern`")),
            (trains_modules, fault("`modules_to_save`")),
        ]
        .into_iter()
        .filter_map(|(wrong, fault)| wrong.then_some(fault))
        .collect()
    }
}
