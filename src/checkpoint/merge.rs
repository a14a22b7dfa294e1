//! An adapter folded into its base: a plain model folder that needs no PEFT.

use std::path::Path;

use candle_core::Device;

use super::{CardContent, ModelCard, ModelExport, SourceModel};
use crate::error::Result;

/// Writes `out`, the model at `base` with the adapter folder `adapter` merged into its weights.
///
/// # Errors
/// A [`crate::error::Fault`] for a base or adapter that cannot be read or do not fit each other; write errors.
pub fn merge(base: &Path, adapter: &Path, out: &Path) -> Result<()> {
    let model = SourceModel::open(base, &Device::Cpu)?.with_adapter(adapter, &Device::Cpu)?;
    let card = ModelCard {
        base_model: base.display().to_string(),
        content: CardContent::Model,
        stage: "merged".to_owned(),
        datasets: Vec::new(),
        facts: vec![("adapter".to_owned(), adapter.display().to_string())],
    };
    let export = ModelExport {
        config: &model.config.json,
        generation_config: model.generation_config.as_ref(),
        weights: &model.weights.0,
        tokenizer: &model.tokenizer,
        card: &card,
    };
    export.write(out)
}
