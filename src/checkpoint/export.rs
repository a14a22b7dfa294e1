//! Model folders that transformers loads.

use std::collections::BTreeMap;
use std::path::Path;

use candle_core::Tensor;
use serde_json::{Map, Value};

use super::card::ModelCard;
use super::tensors::write_tensors;
use crate::error::{Error, Fault, Result};
use crate::model::Family;
use crate::run::atomic;
use crate::token::ChatTokenizer;

/// A whole model, ready to be written.
#[derive(Debug)]
pub struct ModelExport<'a> {
    /// `config.json` of the model that was loaded.
    pub config: &'a Value,
    /// `generation_config.json` of the model that was loaded, where it has one.
    pub generation_config: Option<&'a Value>,
    /// Weights under Hugging Face's names.
    pub weights: &'a BTreeMap<String, Tensor>,
    /// Tokenizer and chat template.
    pub tokenizer: &'a ChatTokenizer,
    /// README.md.
    pub card: &'a ModelCard,
}

impl ModelExport<'_> {
    /// Writes the folder, whole or not at all, replacing what was there.
    ///
    /// # Errors
    /// [`Error::Write`]; a [`Fault`] if the configuration names no architecture that can be loaded again.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let config = self.config()?;
        let tied = config.get("tie_word_embeddings").and_then(Value::as_bool).unwrap_or(false);
        let kept = self.weights.iter().filter(|(name, _)| !(tied && name.as_str() == "lm_head.weight"));
        let weights: BTreeMap<String, Tensor> = kept.map(|(name, tensor)| (name.clone(), tensor.clone())).collect();
        atomic::write_folder(folder, |folder| {
            write_tensors(&folder.join("model.safetensors"), &weights)?;
            write_json(&folder.join("config.json"), &Value::Object(config))?;
            write_json(&folder.join("generation_config.json"), &Value::Object(self.generation_config()))?;
            for file in self.tokenizer.files() {
                atomic::write(&folder.join(&file.name), &file.bytes)?;
            }
            atomic::write(&folder.join("README.md"), self.card.render().as_bytes())
        })
    }

    /// The source's configuration with the architecture named and the number format of the weights written.
    fn config(&self) -> Result<Map<String, Value>> {
        let Value::Object(mut config) = self.config.clone() else {
            return Err(Fault::new("`config.json` must be an object").into());
        };
        let named = config.get("architectures").and_then(Value::as_array).is_some_and(|names| !names.is_empty());
        if !named {
            let family = config.get("model_type").and_then(Value::as_str).unwrap_or_default();
            let architecture = Family::named(family).map(Family::architecture).ok_or_else(|| {
                Fault::new("`config.json` names no architecture and none is known for its model type").got(family)
            })?;
            config.insert("architectures".to_owned(), Value::from(vec![architecture]));
        }
        config.remove("quantization_config");
        let dtype = self.weights.values().next().map_or("float32", |tensor| torch_name(tensor.dtype()));
        config.shift_remove("dtype");
        config.insert("torch_dtype".to_owned(), dtype.into());
        Ok(config)
    }

    /// The source's generation settings with every terminator that training teaches: one that is missing here would be
    /// generated past.
    fn generation_config(&self) -> Map<String, Value> {
        let mut settings = match self.generation_config {
            Some(Value::Object(settings)) => settings.clone(),
            _ => Map::from_iter([("_from_model_config".to_owned(), Value::from(true))]),
        };
        for name in ["bos_token_id", "pad_token_id"] {
            if let (None, Some(id)) = (settings.get(name), self.config.get(name).filter(|id| !id.is_null())) {
                settings.insert(name.to_owned(), id.clone());
            }
        }
        settings.insert("eos_token_id".to_owned(), Value::from(self.tokenizer.terminators().to_vec()));
        settings
    }
}

fn torch_name(dtype: candle_core::DType) -> &'static str {
    match dtype {
        candle_core::DType::BF16 => "bfloat16",
        candle_core::DType::F16 => "float16",
        _ => "float32",
    }
}

pub(super) fn write_json(path: &Path, value: &Value) -> Result<()> {
    let mut text = serde_json::to_string_pretty(value).map_err(|error| Error::Failed(error.to_string()))?;
    text.push('\n');
    atomic::write(path, text.as_bytes())
}
