//! PEFT adapter folders: `adapter_config.json` and `adapter_model.safetensors`. [`crate::model::read_adapter`] reads them.

use std::collections::BTreeMap;
use std::path::Path;

use candle_core::Tensor;
use serde_json::{Value, json};

use super::card::ModelCard;
use super::export::write_json;
use super::tensors::write_tensors;
use crate::error::Result;
use crate::recipe::settings::{AdapterScaling, LoraSettings};
use crate::run::atomic;
use crate::token::ChatTokenizer;

/// An adapter, ready to be written.
#[derive(Debug)]
pub struct AdapterExport<'a> {
    /// Rank, alpha and modules.
    pub settings: &'a LoraSettings,
    /// Folder or hub id of the base.
    pub base_model: &'a str,
    /// Tensors under PEFT's names, `base_model.model.<module>.lora_A.weight` `[rank, in]` and `.lora_B.weight`
    /// `[out, rank]`, as [`crate::model::Decoder::parameters`] has them.
    pub tensors: &'a BTreeMap<String, Tensor>,
    /// Tokenizer and chat template, so that the folder can be used without asking the base for them.
    pub tokenizer: &'a ChatTokenizer,
    /// README.md.
    pub card: &'a ModelCard,
}

impl AdapterExport<'_> {
    /// Writes the folder, whole or not at all, replacing what was there.
    ///
    /// # Errors
    /// [`crate::error::Error::Write`].
    pub fn write(&self, folder: &Path) -> Result<()> {
        atomic::write_folder(folder, |folder| {
            write_tensors(&folder.join("adapter_model.safetensors"), self.tensors)?;
            write_json(&folder.join("adapter_config.json"), &self.config())?;
            for file in self.tokenizer.files() {
                atomic::write(&folder.join(&file.name), &file.bytes)?;
            }
            atomic::write(&folder.join("README.md"), self.card.render().as_bytes())
        })
    }

    /// The keys that PEFT writes for an adapter without variations.
    fn config(&self) -> Value {
        let modules: Vec<&str> = self.settings.target_modules.iter().map(|projection| projection.name()).collect();
        json!({
            "peft_type": "LORA",
            "task_type": "CAUSAL_LM",
            "base_model_name_or_path": self.base_model,
            "revision": null,
            "r": self.settings.rank.get(),
            "lora_alpha": whole(self.settings.alpha.get()),
            "lora_dropout": self.settings.dropout.get(),
            "target_modules": modules,
            "bias": "none",
            "fan_in_fan_out": false,
            "inference_mode": true,
            "init_lora_weights": true,
            "layers_to_transform": null,
            "layers_pattern": null,
            "modules_to_save": null,
            "rank_pattern": {},
            "alpha_pattern": {},
            "use_dora": false,
            "use_rslora": self.settings.scaling == AdapterScaling::RsLora,
        })
    }
}

/// PEFT declares alpha as an integer; a whole number is written as one.
fn whole(alpha: f64) -> Value {
    if alpha.fract() == 0.0 && alpha < 1e15 { Value::from(alpha as u64) } else { Value::from(alpha) }
}
