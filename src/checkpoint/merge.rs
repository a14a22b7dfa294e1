//! An adapter folded into its base: a plain model folder that needs no PEFT. Weights can be stored in half the bytes.

use std::path::Path;

use candle_core::{DType, Device};

use super::{CardContent, ModelCard, ModelExport, SourceModel};
use crate::error::Result;
use crate::run::atomic::Outputs;
use crate::token::TOKENIZER_FILES;

/// The files of a merged model's folder.
pub const MERGED: Outputs = Outputs {
    what: "model",
    mark: "config.json",
    names: &[&["config.json", "generation_config.json", "model.safetensors", "README.md"], &TOKENIZER_FILES],
};

/// Writes `out`, the model at `base` (known to the user as `base_name`) with the adapter folder `adapter`, where given, merged into
/// its weights, which are stored as `dtype`; returns the number of tensors.
///
/// # Errors
/// A [`crate::error::Fault`] for a base or adapter that cannot be read or do not fit each other; write errors.
pub fn merge(base: &Path, base_name: &str, adapter: Option<&Path>, dtype: DType, out: &Path) -> Result<usize> {
    let source = SourceModel::open(base, &Device::Cpu)?;
    let mut model = match adapter {
        Some(adapter) => source.with_adapter(adapter, &Device::Cpu)?,
        None => source,
    };
    for tensor in model.weights.0.values_mut() {
        *tensor = tensor.to_dtype(dtype)?;
    }
    let card = ModelCard {
        base_model: base_name.to_owned(),
        content: CardContent::Model,
        stage: if adapter.is_some() { "merged" } else { "stored" }.to_owned(),
        datasets: Vec::new(),
        facts: vec![("tensors".to_owned(), model.weights.0.len().to_string())],
    };
    let export = ModelExport {
        config: &model.config.json,
        generation_config: model.generation_config.as_ref(),
        weights: &model.weights.0,
        tokenizer: &model.tokenizer,
        card: &card,
    };
    export.write(out)?;
    Ok(model.weights.0.len())
}
