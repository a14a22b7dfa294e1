//! The reference's cache and the forms of the log that other tools read.

use topalign::rank::Alone;
use topalign::run::seed::Seed;
use topalign::train::{EVENTS, Events, Order, StepRow, read_cached, reference, write_cached, write_trainer_state};

use super::toy;

#[test]
fn cached_reference_values_are_used_only_for_the_same_digest_and_when_whole() {
    let (policy, trees, folder) = (toy::Bigram::new(1), toy::trees(5, 2), tempfile::tempdir().unwrap());
    let values = reference(&policy, &trees, &Alone, |_| Ok(())).unwrap();
    assert_eq!(values, reference(&policy, &trees, &Alone, |_| Ok(())).unwrap(), "bit-equal when repeated");
    assert_eq!(read_cached(folder.path(), "key", &trees), None);
    write_cached(folder.path(), "key", &values).unwrap();
    assert_eq!(read_cached(folder.path(), "key", &trees), Some(values));
    assert_eq!(read_cached(folder.path(), "other", &trees), None);
    assert_eq!(read_cached(folder.path(), "key", &trees[..4]), None);
    let path = folder.path().join("reference.safetensors");
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 3]).unwrap();
    assert_eq!(read_cached(folder.path(), "key", &trees), None);
}

#[test]
fn a_reference_that_is_not_finite_names_its_rows_and_the_work_can_be_ended() {
    let (policy, trees) = (toy::Bigram::new(1), toy::trees(3, 1));
    let ended = reference(&policy, &trees, &Alone, |_| Err(topalign::error::Error::Interrupted)).unwrap_err();
    assert_eq!(ended.exit_status(), 130);
    policy.set("head.bias", vec![f32::NAN; toy::VOCABULARY]);
    let error = reference(&policy, &trees, &Alone, |_| Ok(())).unwrap_err();
    assert!(error.to_string().contains("row:0/0"), "{error}");
}

fn log() -> Vec<StepRow> {
    let row = |step: usize| StepRow {
        step,
        epoch: step as f64 / 2.0,
        loss: Some(1.0 / step as f64),
        grad_norm: None,
        learning_rate: 1e-4,
        num_tokens: 10 * step as u64,
        step_seconds: Some(0.1),
        metrics: [("rewards/margins".to_owned(), Some(0.5))].into(),
    };
    (1..=3).map(row).collect()
}

#[test]
fn trainer_state_holds_only_keys_that_transformers_knows() {
    // The fields of transformers 5.24's TrainerState.
    const KNOWN: [&str; 20] = [
        "epoch",
        "global_step",
        "max_steps",
        "logging_steps",
        "eval_steps",
        "save_steps",
        "train_batch_size",
        "num_train_epochs",
        "num_input_tokens_seen",
        "total_flos",
        "log_history",
        "best_metric",
        "best_global_step",
        "best_model_checkpoint",
        "is_local_process_zero",
        "is_world_process_zero",
        "is_hyper_param_search",
        "trial_name",
        "trial_params",
        "stateful_callbacks",
    ];
    let folder = tempfile::tempdir().unwrap();
    let settings = toy::settings("learning_rate = 1e-4\nrows_per_step = 4\nepochs = 2");
    let order = Order::new(&toy::trees(8, 0), &settings, Seed(1));
    write_trainer_state(folder.path(), &order, &settings, &log()).unwrap();
    let text = std::fs::read(folder.path().join("trainer_state.json")).unwrap();
    let state: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(&text).unwrap();
    assert!(state.keys().all(|key| KNOWN.contains(&key.as_str())), "{:?}", state.keys());
    assert_eq!((state["global_step"].as_u64(), state["max_steps"].as_u64()), (Some(3), Some(4)));
    assert_eq!(state["log_history"][1]["loss"], 0.5);
    assert!(state["log_history"][0].get("grad_norm").is_none());
}

fn records(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut rest = bytes;
    let mut records = Vec::new();
    while !rest.is_empty() {
        let length = u64::from_le_bytes(rest[..8].try_into().unwrap()) as usize;
        records.push(rest[12..12 + length].to_vec());
        rest = &rest[8 + 4 + length + 4..];
    }
    records
}

#[test]
fn event_file_grows_by_a_whole_record_a_row_and_a_resumed_one_is_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(EVENTS);
    let mut events = Events::open(folder.path(), &[], 1000.0).unwrap();
    for (index, row) in log().iter().enumerate() {
        events.append(row).unwrap();
        assert_eq!(records(&std::fs::read(&path).unwrap()).len(), index + 2);
    }
    let through = std::fs::read(&path).unwrap();
    assert!(through.windows(21).any(|window| window == b"train/rewards/margins"));
    // A resumed process rewrites the rows before its checkpoint; what a killed one left half-written is gone.
    std::fs::write(&path, &through[..through.len() - 5]).unwrap();
    let mut events = Events::open(folder.path(), &log()[..2], 1000.2).unwrap();
    events.append(&log()[2]).unwrap();
    let resumed = std::fs::read(&path).unwrap();
    assert_eq!(records(&resumed).len(), 4);
    let without_clock =
        |bytes: &[u8]| records(bytes).into_iter().map(|record| record[9..].to_vec()).collect::<Vec<_>>();
    assert_eq!(without_clock(&resumed), without_clock(&through));
}
