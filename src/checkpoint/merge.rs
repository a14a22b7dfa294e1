//! An adapter folded into its base: a plain model folder that needs no PEFT.

use std::path::Path;

use candle_core::Device;

use super::{CardContent, ModelCard, ModelExport, SourceModel};
use crate::error::Result;

/// Writes `out`, the model at `base` (known to the user as `base_name`) with the adapter folder `adapter` merged into its
/// weights, and returns the number of tensors.
///
/// # Errors
/// A [`crate::error::Fault`] for a base or adapter that cannot be read or do not fit each other; write errors.
pub fn merge(base: &Path, base_name: &str, adapter: &Path, out: &Path) -> Result<usize> {
    let model = SourceModel::open(base, &Device::Cpu)?.with_adapter(adapter, &Device::Cpu)?;
    let card = ModelCard {
        base_model: base_name.to_owned(),
        content: CardContent::Model,
        stage: "merged".to_owned(),
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
