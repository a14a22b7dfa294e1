//! The log as `trainer_state.json`, which transformers reads.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::evaluation::Best;
use super::log::{StepRow, scalars};
use super::order::Order;
use crate::error::{Error, Result};
use crate::recipe::settings::TrainSettings;
use crate::run::atomic;

/// Writes `trainer_state.json`, with only the keys that transformers' `TrainerState` knows: its constructor refuses others.
///
/// # Errors
/// [`Error::Write`].
pub fn write_trainer_state(run_folder: &Path, order: &Order, settings: &TrainSettings, log: &[StepRow]) -> Result<()> {
    let history: Vec<Value> = log.iter().flat_map(history_rows).collect();
    let last = log.last();
    let best = Best::of(log);
    let state = json!({
        "epoch": last.map(|row| row.epoch),
        "global_step": last.map_or(0, |row| row.step),
        "max_steps": order.steps(),
        "logging_steps": 1,
        "eval_steps": settings.evaluate_every,
        "save_steps": settings.save_every,
        "train_batch_size": order.most_units_of_a_step(),
        "num_train_epochs": order.epochs(),
        "num_input_tokens_seen": last.map_or(0, |row| row.num_tokens),
        "total_flos": 0.0,
        "log_history": history,
        "best_metric": best.map(|best| best.loss),
        "best_global_step": best.map(|best| best.step),
        "best_model_checkpoint": best.map(|best| format!("checkpoint-{}", best.step)),
        "is_local_process_zero": true,
        "is_world_process_zero": true,
        "is_hyper_param_search": false,
        "trial_name": null,
        "trial_params": null,
        "stateful_callbacks": {},
    });
    let text = serde_json::to_string_pretty(&state).map_err(|error| Error::Failed(error.to_string()))?;
    atomic::write(&run_folder.join("trainer_state.json"), text.as_bytes())
}

/// A row without wall time, so that two runs of the same seed write the same file; an evaluation is a row of its own, as
/// transformers writes it.
fn history_rows(row: &StepRow) -> Vec<Value> {
    let (evaluation, training): (Vec<_>, Vec<_>) =
        scalars(row).into_iter().partition(|(name, _)| name.starts_with("eval_"));
    let entry = |scalars: Vec<(String, f64)>| {
        let mut entry: Map<String, Value> =
            scalars.into_iter().map(|(name, value)| (name, Value::from(value))).collect();
        entry.insert("num_tokens".to_owned(), row.num_tokens.into());
        entry.insert("step".to_owned(), row.step.into());
        entry
    };
    let mut rows = vec![Value::Object(entry(training))];
    if !evaluation.is_empty() {
        let mut evaluation = entry(evaluation);
        evaluation.insert("epoch".to_owned(), row.epoch.into());
        rows.push(Value::Object(evaluation));
    }
    rows
}
