//! Evaluation on held-out rows, early stop, the best checkpoint, rotation.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use candle_core::Device;
use topalign::checkpoint::{self, SourceModel, read_tensors};
use topalign::dataset::{PairKind, PreferencePair, SftRow};
use topalign::error::{Error, Result};
use topalign::model::Trainable;
use topalign::rank::Alone;
use topalign::recipe::settings::SftSettings;
use topalign::train::{self, Best, Evaluation, Job, Objective, Pass, Rows, RunManifest, Start, StepRow, Supervised};

use super::decoder::{dpo_settings, folders, job, log, lora, policy, sft_settings, values, without_time};
use super::{tiny, toy};

fn split<T>(rows: &[T], train: usize) -> Rows<'_, T> {
    let (train, held_out) = rows.split_at(train);
    Rows { train, held_out }
}

fn checkpoints(out: &Path) -> Vec<usize> {
    let mut steps: Vec<usize> = std::fs::read_dir(out)
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.strip_prefix("checkpoint-")?.parse().ok())
        .collect();
    steps.sort_unstable();
    steps
}

fn evaluated(log: &[StepRow]) -> Vec<(usize, f64)> {
    log.iter().filter_map(|row| Some((row.step, row.metrics.get("eval_loss").copied().flatten()?))).collect()
}

#[test]
fn held_out_loss_is_the_mean_over_answer_tokens_and_does_not_depend_on_the_pass_size() {
    let folders = folders();
    let rows = tiny::sft_rows(10);
    let mut found = Vec::new();
    for tokens_per_pass in [1, 64, 10_000] {
        let out = folders.root.path().join(format!("run-{tokens_per_pass}"));
        let settings = sft_settings("learning_rate = 0.01\nrows_per_step = 3\nmax_steps = 1\nevaluate_every = 1");
        let job = Job { tokens_per_pass, ..job(&folders.model, &out) };
        let manifest = train::sft(&job, split(&rows, 6), &settings).unwrap();
        assert_eq!((manifest.data.units, manifest.data.held_out_units), (6, 4));
        found.push(evaluated(&log(&out))[0].1);
    }
    assert!(found.iter().all(|loss| (loss - found[0]).abs() < 1e-6), "{found:?}");

    // Against the trained model's own log-probabilities.
    let out = folders.root.path().join("run-64");
    let trained = policy(&out.join("final"), &Trainable::Nothing);
    let tokenizer = SourceModel::open(&folders.model, &Device::Cpu).unwrap().tokenizer;
    let held_out = train::encode_sft(&rows[6..], &tokenizer, 99).unwrap();
    let all: Vec<f32> = held_out.trees.iter().flat_map(|tree| values(&trained, tree, Pass::Evaluation)).collect();
    let mean = -f64::from(all.iter().sum::<f32>()) / all.len() as f64;
    assert!((found[1] - mean).abs() < 1e-5, "{} {mean}", found[1]);
}

#[test]
fn preference_evaluation_logs_margins_and_accuracies_by_kind() {
    let folders = folders();
    let out = folders.root.path().join("run");
    let pairs: Vec<PreferencePair> = tiny::pairs(8);
    let settings = dpo_settings("learning_rate = 0.003\nrows_per_step = 3\nepochs = 6\nevaluate_every = 4");
    train::dpo(&job(&folders.model, &out), split(&pairs, 18), &settings).unwrap();
    let log = log(&out);
    let steps: Vec<usize> = evaluated(&log).into_iter().map(|(step, _)| step).collect();
    assert_eq!(steps, [4, 8, 12], "every four steps and after the last");
    for kind in PairKind::ALL {
        for name in ["margins", "accuracies", "chosen", "rejected"] {
            let value = log[11].metrics[&format!("eval_rewards/{name}/{}", kind.name())];
            assert!(value.is_some_and(f64::is_finite), "{name} {kind:?}");
        }
    }
    assert!(log[0].metrics.keys().all(|name| !name.starts_with("eval_")));
}

#[test]
fn held_out_rows_start_at_ln_2_like_the_training_rows() {
    let (policy, trees) = (toy::Bigram::new(1), toy::trees(5, 3));
    let reference = train::reference(&policy, &trees, &Alone, |_| Ok(())).unwrap();
    let kinds = vec![PairKind::ALL.map(Some).to_vec(); 5];
    let objective = train::Preference {
        trees: &trees,
        kinds: &kinds,
        reference: Some(&reference),
        objective: (&dpo_settings("learning_rate = 0.1")).into(),
        kind_weights: None,
        mismatched: None,
    };
    let evaluation = Evaluation { objective: &objective, trees: &trees, every: None, patience: None };
    let metrics = evaluation.run(&policy, &Alone).unwrap();
    assert!((metrics["eval_loss"].unwrap() - std::f64::consts::LN_2).abs() < 1e-6);
    assert_eq!(metrics["eval_rewards/accuracies"], Some(0.0));
}

#[test]
fn a_held_out_loss_that_is_not_finite_names_its_rows() {
    let (policy, mut trees) = (toy::Bigram::new(1), toy::trees(4, 0));
    trees[2].answers[0] = vec![19, 0];
    let mut bias = vec![0.0; toy::VOCABULARY];
    bias[19] = f32::NEG_INFINITY;
    policy.set("head.bias", bias);
    let objective = Supervised { trees: &trees };
    let objective: &dyn Objective = &objective;
    let error = Evaluation { objective, trees: &trees, every: None, patience: None }.run(&policy, &Alone).unwrap_err();
    assert!(error.to_string().contains("row:2/0"), "{error}");
}

/// Rows that are learnt by heart: the held-out loss falls first and rises then.
fn overfitting(text: &str) -> SftSettings {
    sft_settings(&format!("learning_rate = 0.02\nrows_per_step = 4\nepochs = 30\nevaluate_every = 3\n{text}"))
}

fn run(out: &Path, rows: &[SftRow], settings: &SftSettings, start: Start, stop_after: usize) -> Result<RunManifest> {
    let asked = AtomicUsize::new(0);
    let stop = || asked.fetch_add(1, Ordering::SeqCst) >= stop_after;
    let model = out.parent().unwrap().join("model");
    train::sft(&Job { start, stop: &stop, ..job(&model, out) }, split(rows, 8), settings)
}

#[test]
fn training_ends_when_the_held_out_loss_no_longer_falls_and_the_best_weights_are_exported() {
    let folders = folders();
    let out = folders.root.path().join("run");
    let settings = overfitting("patience = 3\nexport = \"best\"\nkeep_checkpoints = 1\nsave_every = 2");
    let manifest = run(&out, &tiny::sft_rows(12), &settings, Start::Fresh, usize::MAX).unwrap();
    let log = log(&out);
    let evaluated = evaluated(&log);
    let outcome = manifest.outcome.unwrap();
    let (best_step, best_loss) = (outcome.best_step.unwrap(), outcome.best_loss.unwrap());
    assert!(outcome.steps_done < manifest.steps, "{outcome:?}");
    assert_eq!(outcome.steps_done, best_step + 9, "three evaluations, three steps apart, after the best");
    assert!(evaluated.iter().all(|(step, loss)| *loss >= best_loss || step == &best_step));
    assert_eq!(checkpoints(&out), [best_step, outcome.steps_done], "the newest and the best");
    let state: serde_json::Value =
        serde_json::from_slice(&std::fs::read(out.join("trainer_state.json")).unwrap()).unwrap();
    assert_eq!(state["best_model_checkpoint"], format!("checkpoint-{best_step}"));
    assert_eq!(state["best_global_step"], best_step);

    let best = read_tensors(&out.join(format!("checkpoint-{best_step}/trainable.safetensors")), &Device::Cpu).unwrap();
    let exported = SourceModel::open(&out.join("final"), &Device::Cpu).unwrap();
    for (name, tensor) in &exported.weights.0 {
        let flat = |tensor: &candle_core::Tensor| tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        assert_eq!(flat(tensor), flat(&best[name]), "{name}");
    }
}

#[test]
fn a_resumed_run_knows_the_best_step_and_stops_where_the_other_did() {
    let folders = folders();
    let rows = tiny::sft_rows(12);
    let (through, resumed) = (folders.root.path().join("through"), folders.root.path().join("resumed"));
    let settings = overfitting("patience = 2\nkeep_checkpoints = 1");
    let whole = run(&through, &rows, &settings, Start::Fresh, usize::MAX).unwrap();
    let steps = whole.outcome.as_ref().unwrap().steps_done;
    assert!(matches!(run(&resumed, &rows, &settings, Start::Fresh, steps - 1), Err(Error::Interrupted)));
    run(&resumed, &rows, &settings, Start::Resume, usize::MAX).unwrap();
    assert_eq!(without_time(&log(&resumed)), without_time(&log(&through)));
    assert_eq!(checkpoints(&resumed), checkpoints(&through));
    // Resuming what has ended by itself takes no further step.
    let again = run(&resumed, &rows, &settings, Start::Resume, usize::MAX).unwrap();
    assert_eq!(again.outcome.unwrap().steps_done, steps);
}

#[test]
fn the_best_of_a_log_is_the_first_of_the_lowest() {
    let row = |step: usize, loss: Option<f64>| StepRow {
        step,
        epoch: 0.0,
        loss: None,
        grad_norm: None,
        learning_rate: 0.0,
        num_tokens: 0,
        step_seconds: None,
        metrics: loss.map(|loss| ("eval_loss".to_owned(), Some(loss))).into_iter().collect(),
    };
    let log = [row(1, Some(3.0)), row(2, None), row(3, Some(2.0)), row(4, Some(2.0)), row(5, Some(2.5))];
    assert_eq!(Best::of(&log), Some(Best { step: 3, loss: 2.0, since: 2 }));
    assert_eq!(Best::of(&log[1..2]), None);
}

#[test]
fn rotation_keeps_the_newest_and_the_best() {
    let folder = tempfile::tempdir().unwrap();
    for step in [5, 10, 15, 20, 25] {
        std::fs::create_dir(folder.path().join(format!("checkpoint-{step}"))).unwrap();
    }
    checkpoint::rotate(folder.path(), 2, Some(10)).unwrap();
    assert_eq!(checkpoints(folder.path()), [10, 20, 25]);
    checkpoint::rotate(folder.path(), 1, Some(25)).unwrap();
    assert_eq!(checkpoints(folder.path()), [25]);
}

#[test]
fn held_out_rows_that_are_missing_or_trained_on_are_refused() {
    let folders = folders();
    let out = folders.root.path().join("run");
    let rows = tiny::sft_rows(6);
    let settings = sft_settings("learning_rate = 0.01\nmax_steps = 1\nevaluate_every = 1");
    let error = train::sft(&job(&folders.model, &out), &rows, &settings).unwrap_err();
    assert!(error.exit_status() == 2 && error.hints()[0].contains("--held-out"), "{error}");
    let both = Rows { train: &rows, held_out: &rows[2..3] };
    let lora = lora();
    let error = train::sft(&Job { lora: Some(&lora), ..job(&folders.model, &out) }, both, &settings).unwrap_err();
    assert!(error.exit_status() == 2 && error.to_string().contains("sft:0 (trace-2)"), "{error}");
    assert!(!out.exists());
}
