//! The log in two forms that other tools read: `trainer_state.json` of transformers, and TensorBoard events.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::log::StepRow;
use super::order::Order;
use crate::error::{Error, Result};
use crate::run::atomic;

/// Writes `trainer_state.json`, with only the keys that transformers' `TrainerState` knows: its constructor refuses others.
///
/// # Errors
/// [`Error::Write`].
pub fn write_trainer_state(run_folder: &Path, order: &Order, save_steps: usize, log: &[StepRow]) -> Result<()> {
    let history: Vec<Value> = log.iter().map(history_row).collect();
    let last = log.last();
    let state = json!({
        "epoch": last.map(|row| row.epoch),
        "global_step": last.map_or(0, |row| row.step),
        "max_steps": order.steps(),
        "logging_steps": 1,
        "eval_steps": null,
        "save_steps": save_steps,
        "train_batch_size": order.units_per_step.get(),
        "num_train_epochs": order.epochs.get(),
        "num_input_tokens_seen": last.map_or(0, |row| row.num_tokens),
        "total_flos": 0.0,
        "log_history": history,
        "best_metric": null,
        "best_global_step": null,
        "best_model_checkpoint": null,
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

/// A row without wall time, so that two runs of the same seed write the same file.
fn history_row(row: &StepRow) -> Value {
    let mut entry = Map::new();
    for (name, value) in scalars(row) {
        entry.insert(name, Value::from(value));
    }
    entry.insert("num_tokens".to_owned(), row.num_tokens.into());
    entry.insert("step".to_owned(), row.step.into());
    Value::Object(entry)
}

/// The row's numbers by name, without those that are not finite.
fn scalars(row: &StepRow) -> Vec<(String, f64)> {
    let own = [
        ("epoch", Some(row.epoch)),
        ("loss", row.loss),
        ("grad_norm", row.grad_norm),
        ("learning_rate", Some(row.learning_rate)),
    ];
    let own = own.into_iter().map(|(name, value)| (name.to_owned(), value));
    let metrics = row.metrics.iter().map(|(name, value)| (name.clone(), *value));
    own.chain(metrics).filter_map(|(name, value)| value.map(|value| (name, value))).collect()
}

/// Writes the log as a TensorBoard event file, `events.out.tfevents.0.topalign`.
///
/// The format is a sequence of records (length, its checksum, an `Event` message, its checksum). Events carry the step but
/// no wall time: a log does not know it per step, and equal runs stay equal.
///
/// # Errors
/// [`Error::Write`].
pub fn write_events(run_folder: &Path, log: &[StepRow]) -> Result<()> {
    let mut bytes = Vec::new();
    // Field 3 of Event: the version that every reader checks first.
    append_record(&mut bytes, &length_delimited(3, b"brain.Event:2"));
    for row in log {
        let mut summary = Vec::new();
        for (name, value) in scalars(row) {
            let mut entry = length_delimited(1, format!("train/{name}").as_bytes()); // Value.tag
            entry.push((2 << 3) | 5); // Value.simple_value, a 32-bit float
            entry.extend((value as f32).to_le_bytes());
            summary.extend(length_delimited(1, &entry)); // Summary.value
        }
        let mut event = vec![2 << 3]; // Event.step
        event.extend(varint(row.step as u64));
        event.extend(length_delimited(5, &summary)); // Event.summary
        append_record(&mut bytes, &event);
    }
    atomic::write(&run_folder.join("events.out.tfevents.0.topalign"), &bytes)
}

fn append_record(bytes: &mut Vec<u8>, message: &[u8]) {
    let length = (message.len() as u64).to_le_bytes();
    bytes.extend(length);
    bytes.extend(masked_checksum(&length).to_le_bytes());
    bytes.extend(message);
    bytes.extend(masked_checksum(message).to_le_bytes());
}

/// A protocol-buffer field that holds bytes: tag, length, content.
fn length_delimited(field: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![(field << 3) | 2];
    bytes.extend(varint(content.len() as u64));
    bytes.extend(content);
    bytes
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// CRC-32C, rotated and offset as TensorFlow's record format asks.
fn masked_checksum(bytes: &[u8]) -> u32 {
    let mut remainder = u32::MAX;
    for &byte in bytes {
        remainder ^= u32::from(byte);
        for _ in 0..8 {
            let polynomial = if remainder & 1 == 1 { 0x82f6_3b78 } else { 0 };
            remainder = (remainder >> 1) ^ polynomial;
        }
    }
    (!remainder).rotate_right(15).wrapping_add(0xa282_ead8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_is_crc_32c() {
        // RFC 3720, B.4: 32 bytes of zeros have the CRC 0x8a9136aa.
        let unmasked = masked_checksum(&[0; 32]).wrapping_sub(0xa282_ead8).rotate_left(15);
        assert_eq!(unmasked, 0x8a91_36aa);
    }
}
