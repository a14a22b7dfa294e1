//! A run of TRL with a recipe's settings: data sets in TRL's prompt and completion form, a configuration for `trl sft` and one for
//! `trl dpo`, and one for `accelerate`.
//!
//! The settings are those of TRL 1.16 and transformers 5. YAML is written as keys with JSON values, which YAML includes.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde::Serialize;
use serde_json::{Value, json};

use crate::dataset::{Message, PreferencePair, SftRow};
use crate::error::{Fault, Result};
use crate::recipe::settings::{DpoSettings, LossName, PreferenceLoss, Schedule, StepSize, TrainSettings};
use crate::recipe::{Recipe, SCRATCH};
use crate::run::atomic::{self, Outputs};
use crate::run::jsonl;

/// The files of an exported folder.
pub const OUTPUTS: Outputs = Outputs {
    what: "TRL export",
    mark: "accelerate.yaml",
    names: &[&["accelerate.yaml", "sft.yaml", "dpo.yaml", "sft.jsonl", "dpo.jsonl", "README.md"]],
};

/// What is handed over.
#[derive(Debug, Clone, Copy)]
pub struct Handover<'a> {
    /// The recipe.
    pub recipe: &'a Recipe,
    /// The model as transformers loads it: a folder or a hub id.
    pub model: &'a str,
    /// SFT rows.
    pub sft: &'a [SftRow],
    /// Preference pairs.
    pub dpo: &'a [PreferencePair],
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Exported {
    /// Rows of each data set.
    pub rows: BTreeMap<&'static str, usize>,
    /// What of the recipe TRL has no setting for.
    pub left_out: Vec<String>,
}

/// Writes the folder, replacing what was there.
///
/// # Errors
/// A [`Fault`] for a model that transformers does not load, or a loss that TRL's `dpo` does not have; [`crate::error::Error::Write`].
pub fn write_trl(folder: &Path, handover: &Handover<'_>) -> Result<Exported> {
    let Handover { recipe, model, sft, dpo } = *handover;
    check_model(model)?;
    let mut left_out = Vec::new();
    let mut files = vec![("accelerate.yaml", accelerate(recipe))];
    let mut exported = BTreeMap::new();
    if let Some(settings) = &recipe.sft {
        let mut keys = common(recipe, &settings.train, "sft", model, 1, &mut left_out);
        keys.push(("completion_only_loss", json!(true)));
        files.push(("sft.yaml", yaml(&keys)));
        exported.insert("sft.jsonl", sft.len());
    }
    if let Some(settings) = &recipe.dpo {
        let start = if recipe.sft.is_some() { "sft-merged" } else { model };
        let start = if recipe.sft.is_some() && recipe.model.lora.is_none() { "sft" } else { start };
        let mut keys = common(recipe, &settings.train, "dpo", start, pairs_per_trace(dpo), &mut left_out);
        keys.extend(preference(settings, &mut left_out)?);
        files.push(("dpo.yaml", yaml(&keys)));
        exported.insert("dpo.jsonl", dpo.len());
    }
    let exported = Exported { rows: exported, left_out };
    files.push(("README.md", readme(handover, &exported)));
    atomic::write_folder(folder, |folder| {
        if recipe.sft.is_some() {
            jsonl::write(&folder.join("sft.jsonl"), sft.iter().map(sft_row))?;
        }
        if recipe.dpo.is_some() {
            jsonl::write(&folder.join("dpo.jsonl"), dpo.iter().map(dpo_row))?;
        }
        files.iter().try_for_each(|(name, text)| atomic::write(&folder.join(name), text.as_bytes()))
    })?;
    Ok(exported)
}

fn check_model(model: &str) -> Result<()> {
    let is_gguf = Path::new(model).extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gguf"));
    if is_gguf || model == SCRATCH {
        return Err(Fault::new("TRL cannot train from this model")
            .at("model.source")
            .got(model)
            .expected("a folder or a hub id that transformers loads")
            .hint("name one with --model, for instance the folder that `topalign merge` writes")
            .into());
    }
    Ok(())
}

/// Settings that SFT and DPO share. A unit of a step is `rows` rows: a DPO step counts traces, TRL counts pairs.
fn common(
    recipe: &Recipe,
    train: &TrainSettings,
    stage: &'static str,
    model: &str,
    rows: usize,
    left_out: &mut Vec<String>,
) -> Vec<(&'static str, Value)> {
    let accumulation = match train.step_size {
        StepSize::Rows(units) => units.get() * rows,
        StepSize::Tokens(tokens) => {
            left_out.push(format!("{stage}.tokens_per_step = {tokens}: TRL counts rows, 8 are set"));
            8 * rows
        }
    };
    if train.patience.is_some() || train.memory_limit_mib.is_some() || train.tokens_per_pass.is_some() {
        left_out.push(format!("{stage}.patience, {stage}.memory_limit_mib and {stage}.tokens_per_pass"));
    }
    let schedule = match train.schedule {
        Schedule::Cosine => "cosine",
        Schedule::Linear => "linear",
        Schedule::Constant => "constant_with_warmup",
    };
    let length = match train.max_steps {
        Some(steps) => ("max_steps", json!(steps)),
        None => ("num_train_epochs", json!(train.epochs)),
    };
    let mut keys = vec![
        ("model_name_or_path", json!(model)),
        ("datasets", json!([{"path": "json", "data_files": format!("{stage}.jsonl"), "split": "train"}])),
        ("output_dir", json!(stage)),
        ("dtype", json!("float32")),
        length,
        ("per_device_train_batch_size", json!(1)),
        ("gradient_accumulation_steps", json!(accumulation)),
        ("learning_rate", json!(train.learning_rate)),
        ("lr_scheduler_type", json!(schedule)),
        // Below 1, transformers reads a share of the steps.
        ("warmup_steps", json!(train.warmup_share)),
        ("max_grad_norm", json!(train.clip_norm)),
        ("weight_decay", json!(train.weight_decay)),
        ("max_length", json!(train.max_tokens)),
        ("seed", json!(recipe.training_seed().0)),
        ("save_steps", json!(train.save_every)),
        ("logging_steps", json!(1)),
        ("report_to", json!("none")),
    ];
    if let Some(lora) = &recipe.model.lora {
        keys.extend([
            ("use_peft", json!(true)),
            ("lora_r", json!(lora.rank)),
            ("lora_alpha", json!(lora.alpha)),
            ("lora_dropout", json!(lora.dropout)),
            ("lora_target_modules", json!(lora.target_modules)),
            ("use_rslora", json!(lora.scaling == crate::recipe::settings::AdapterScaling::RsLora)),
        ]);
    }
    keys
}

/// TRL's names of a preference loss and its settings.
fn preference(settings: &DpoSettings, left_out: &mut Vec<String>) -> Result<Vec<(&'static str, Value)>> {
    let name = settings.loss.name();
    let smoothing = match settings.loss {
        PreferenceLoss::Sigmoid { label_smoothing } | PreferenceLoss::Robust { label_smoothing } => {
            label_smoothing.get()
        }
        PreferenceLoss::Ipo | PreferenceLoss::Hinge => 0.0,
        PreferenceLoss::Simpo { .. } | PreferenceLoss::Orpo | PreferenceLoss::Kto { .. } => {
            return Err(Fault::new("`trl dpo` has no such loss")
                .at("dpo.loss")
                .got(name.name())
                .expected(
                    [LossName::Sigmoid, LossName::Robust, LossName::Ipo, LossName::Hinge]
                        .map(LossName::name)
                        .join(", "),
                )
                .into());
        }
    };
    if settings.kind_weights.is_some() {
        left_out.push("dpo.kind_weights: every pair counts alike".to_owned());
    }
    let weight = settings.chosen_weight.get();
    let (losses, weights) =
        if weight > 0.0 { (vec![name.name(), "sft"], vec![1.0, weight]) } else { (vec![name.name()], vec![1.0]) };
    let mut keys = vec![("beta", json!(settings.beta)), ("loss_type", json!(losses)), ("loss_weights", json!(weights))];
    if smoothing > 0.0 {
        keys.push(("label_smoothing", json!(smoothing)));
    }
    Ok(keys)
}

/// Pairs of a trace, rounded.
fn pairs_per_trace(pairs: &[PreferencePair]) -> usize {
    let traces: std::collections::BTreeSet<_> = pairs.iter().map(|pair| &pair.trace_id).collect();
    (pairs.len() as f64 / traces.len().max(1) as f64).round().max(1.0) as usize
}

/// One process a device with `ZeRO` stage 2, to be edited for the cluster.
fn accelerate(recipe: &Recipe) -> String {
    let clip = recipe.dpo.as_ref().map(|dpo| &dpo.train).or(recipe.sft.as_ref().map(|sft| &sft.train));
    let deepspeed = json!({
        "zero_stage": 2,
        "gradient_clipping": clip.map_or(1.0, |train| train.clip_norm.get()),
        "offload_optimizer_device": "none",
        "offload_param_device": "none",
    });
    yaml(&[
        ("compute_environment", json!("LOCAL_MACHINE")),
        ("distributed_type", json!("DEEPSPEED")),
        ("deepspeed_config", deepspeed),
        ("mixed_precision", json!("bf16")),
        ("num_machines", json!(1)),
        ("num_processes", json!(8)),
        ("machine_rank", json!(0)),
        ("main_training_function", json!("main")),
    ])
}

fn yaml(keys: &[(&'static str, Value)]) -> String {
    keys.iter().fold(String::new(), |mut text, (key, value)| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{key}: {value}");
        text
    })
}

#[derive(Serialize)]
struct Prompted<'a> {
    prompt: &'a [Message],
    completion: &'a [Message],
}

fn sft_row(row: &SftRow) -> Prompted<'_> {
    let answer = row.messages.len().saturating_sub(1);
    Prompted { prompt: &row.messages[..answer], completion: &row.messages[answer..] }
}

#[derive(Serialize)]
struct Preferred<'a> {
    prompt: &'a [Message],
    chosen: &'a [Message],
    rejected: &'a [Message],
}

fn dpo_row(pair: &PreferencePair) -> Preferred<'_> {
    Preferred { prompt: &pair.prompt, chosen: &pair.chosen, rejected: &pair.rejected }
}

fn readme(handover: &Handover<'_>, exported: &Exported) -> String {
    let Handover { recipe, model, .. } = handover;
    let mut text =
        format!("# {} for TRL\n\nRun in this folder, with `pip install trl peft accelerate`:\n\n", recipe.name);
    let has_both = recipe.sft.is_some() && recipe.dpo.is_some();
    let merge = (has_both && recipe.model.lora.is_some())
        .then(|| format!("topalign merge --model {model} --adapter sft --out sft-merged"));
    let stages = [recipe.sft.as_ref().map(|_| "trl sft --config sft.yaml".to_owned()), merge]
        .into_iter()
        .chain([recipe.dpo.as_ref().map(|_| "trl dpo --config dpo.yaml".to_owned())]);
    // Writing to a string cannot fail.
    for command in stages.flatten() {
        let _ = writeln!(text, "    {command}");
    }
    let _ = writeln!(
        text,
        "\nOn several devices, with DeepSpeed: `accelerate launch --config_file accelerate.yaml -m trl.scripts.sft --config sft.yaml`\n\
         (and `trl.scripts.dpo`), with `gradient_accumulation_steps` divided by the number of processes.\n"
    );
    for (file, rows) in &exported.rows {
        let _ = writeln!(text, "- `{file}`: {rows} rows");
    }
    for what in &exported.left_out {
        let _ = writeln!(text, "- left out: {what}");
    }
    text
}
