//! The sections that say how a model is trained: `[model.lora]`, `[sft]`, `[dpo]`.

use toml::Table;

use super::section::Section;
use super::settings::{
    AdapterScaling, DpoSettings, Export, KindWeights, LoraSettings, LossName, NonNegative, Positive, PreferenceLoss,
    Projection, SftSettings, Share, Smoothing, StepSize, TrainSettings, defaults,
};
use crate::dataset::PairKind;
use crate::error::Fault;

pub(super) fn read_lora(table: Table, faults: &mut Vec<Fault>) -> Option<LoraSettings> {
    let mut section = Section::new("model.lora", table, faults);
    let rank = section.require("rank", "a whole number above 0");
    let alpha = section.require("alpha", "a number above 0");
    let dropout = section.take_or("dropout", Share::ZERO);
    let target_modules = section.take_or("target_modules", Projection::ALL.to_vec());
    let scaling = section.take_or("scaling", AdapterScaling::default());
    if target_modules.is_empty() {
        section.fault(Fault::new("`model.lora.target_modules` must name at least one projection"));
    }
    section.finish();
    Some(LoraSettings { rank: rank?, alpha: alpha?, dropout, target_modules, scaling })
}

fn read_train(name: &str, section: &mut Section<'_>) -> Option<TrainSettings> {
    let learning_rate: Option<Positive> = section.require("learning_rate", "a number above 0, e.g. 1e-4");
    let default = TrainSettings::new(learning_rate.unwrap_or(defaults::CLIP_NORM));
    let settings = TrainSettings {
        epochs: section.take_or("epochs", default.epochs),
        max_steps: section.take("max_steps"),
        step_size: read_step_size(name, section),
        schedule: section.take_or("schedule", default.schedule),
        warmup_share: section.take_or("warmup_share", default.warmup_share),
        clip_norm: section.take_or("clip_norm", default.clip_norm),
        weight_decay: section.take_or("weight_decay", default.weight_decay),
        max_tokens: section.take_or("max_tokens", default.max_tokens),
        save_every: section.take_or("save_every", default.save_every),
        arithmetic: section.take_or("arithmetic", default.arithmetic),
        order: section.take_or("order", default.order),
        evaluate_every: section.take("evaluate_every"),
        patience: section.take("patience"),
        keep_checkpoints: section.take_or("keep_checkpoints", default.keep_checkpoints),
        export: section.take_or("export", default.export),
        memory_limit_mib: section.take("memory_limit_mib"),
        tokens_per_pass: section.take("tokens_per_pass"),
        learning_rate: default.learning_rate,
    };
    check_evaluation(name, section, &settings);
    learning_rate.map(|_| settings)
}

/// What asks for an evaluation must say when there is one.
fn check_evaluation(name: &str, section: &mut Section<'_>, settings: &TrainSettings) {
    let asks = [("patience", settings.patience.is_some()), ("export = \"best\"", settings.export == Export::Best)];
    for (key, _) in asks.into_iter().filter(|(_, asked)| *asked && settings.evaluate_every.is_none()) {
        let fault = Fault::new(format!("`{name}.{key}` needs `{name}.evaluate_every`"));
        section.fault(fault.hint("the loss on the held-out rows decides, so it must be computed during training"));
    }
}

fn read_step_size(name: &str, section: &mut Section<'_>) -> StepSize {
    let both = section.has("rows_per_step") && section.has("tokens_per_step");
    let (rows, tokens) = (section.take("rows_per_step"), section.take("tokens_per_step"));
    if both {
        let fault =
            Fault::new(format!("`{name}.rows_per_step` and `{name}.tokens_per_step` both say how large a step is"));
        section.fault(fault.hint("leave one of them out"));
    }
    match tokens {
        Some(tokens) => StepSize::Tokens(tokens),
        None => StepSize::Rows(rows.unwrap_or(defaults::ROWS_PER_STEP)),
    }
}

pub(super) fn read_sft(table: Table, faults: &mut Vec<Fault>) -> Option<SftSettings> {
    let mut section = Section::new("sft", table, faults);
    let train = read_train("sft", &mut section);
    section.finish();
    Some(SftSettings { train: train? })
}

pub(super) fn read_dpo(table: Table, faults: &mut Vec<Fault>) -> Option<DpoSettings> {
    let mut section = Section::new("dpo", table, faults);
    let weights = section.table("kind_weights");
    let train = read_train("dpo", &mut section);
    let loss: LossName = section.take_or("loss", LossName::default());
    let usual_beta = if loss == LossName::Simpo { defaults::SIMPO_BETA } else { defaults::BETA };
    let beta = section.take_or("beta", usual_beta);
    let loss = read_loss(loss, &mut section);
    let chosen_weight = only_for(CHOSEN_WEIGHT, loss.name(), &mut section).unwrap_or(NonNegative::ZERO);
    let kinds: Option<Vec<PairKind>> = section.take("kinds");
    if kinds.as_ref().is_some_and(Vec::is_empty) {
        section.fault(Fault::new("`dpo.kinds` names no kind of pair").hint("leave it out to train on every pair"));
    }
    section.finish();
    let kind_weights = weights.map(|table| read_kind_weights(table, faults));
    Some(DpoSettings { train: train?, loss, beta, chosen_weight, kind_weights, kinds })
}

/// A key and the losses that honour it.
type Own = (&'static str, &'static [LossName]);

const LABEL_SMOOTHING: Own = ("label_smoothing", &[LossName::Sigmoid, LossName::Robust, LossName::Simpo]);
const TARGET_MARGIN: Own = ("target_margin", &[LossName::Simpo]);
const DESIRABLE_WEIGHT: Own = ("desirable_weight", &[LossName::Kto]);
const UNDESIRABLE_WEIGHT: Own = ("undesirable_weight", &[LossName::Kto]);
const CHOSEN_WEIGHT: Own =
    ("chosen_weight", &[LossName::Sigmoid, LossName::Robust, LossName::Ipo, LossName::Hinge, LossName::Simpo]);

fn read_loss(loss: LossName, section: &mut Section<'_>) -> PreferenceLoss {
    let smoothing: Option<Smoothing> = only_for(LABEL_SMOOTHING, loss, section);
    let target_margin = only_for(TARGET_MARGIN, loss, section);
    let desirable_weight = only_for(DESIRABLE_WEIGHT, loss, section).unwrap_or(defaults::KTO_WEIGHT);
    let undesirable_weight = only_for(UNDESIRABLE_WEIGHT, loss, section).unwrap_or(defaults::KTO_WEIGHT);
    let label_smoothing = smoothing.unwrap_or(Smoothing::NONE);
    match loss {
        LossName::Sigmoid => PreferenceLoss::Sigmoid { label_smoothing },
        LossName::Robust => {
            if smoothing.is_none_or(|smoothing| smoothing.get() == 0.0) {
                let fault = Fault::new("the loss `robust` needs `dpo.label_smoothing` above 0");
                section.fault(fault.hint("it is the share of labels taken to be wrong; without it, use `sigmoid`"));
            }
            PreferenceLoss::Robust { label_smoothing }
        }
        LossName::Ipo => PreferenceLoss::Ipo,
        LossName::Hinge => PreferenceLoss::Hinge,
        LossName::Simpo => {
            PreferenceLoss::Simpo { target_margin: target_margin.unwrap_or(defaults::TARGET_MARGIN), label_smoothing }
        }
        LossName::Orpo => PreferenceLoss::Orpo,
        LossName::Kto => PreferenceLoss::Kto { desirable_weight, undesirable_weight },
    }
}

/// Takes a key that only some losses honour; with another loss it is a fault, never ignored.
fn only_for<T: serde::de::DeserializeOwned>(
    (key, losses): Own,
    loss: LossName,
    section: &mut Section<'_>,
) -> Option<T> {
    let is_there = section.has(key);
    let value = section.take(key);
    if is_there && !losses.contains(&loss) {
        let names: Vec<String> = losses.iter().map(|loss| format!("`{}`", loss.name())).collect();
        let fault = Fault::new(format!("the loss `{}` does not honour `dpo.{key}`", loss.name()));
        section.fault(fault.hint(format!("leave it out; it is for {}", names.join(", "))));
        return None;
    }
    value
}

fn read_kind_weights(table: Table, faults: &mut Vec<Fault>) -> KindWeights {
    let mut section = Section::new("dpo.kind_weights", table, faults);
    let weights = KindWeights {
        explicit_leak: section.take_or("explicit-leak", defaults::KIND_WEIGHT),
        over_disclosure: section.take_or("over-disclosure", defaults::KIND_WEIGHT),
        over_refusal: section.take_or("over-refusal", defaults::KIND_WEIGHT),
    };
    section.finish();
    weights
}
