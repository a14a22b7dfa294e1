//! Several ranks do what one process does.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use candle_core::Device;
use topalign::checkpoint::read_tensors;
use topalign::error::{Error, Result};
use topalign::rank::{Alone, Group};
use topalign::recipe::settings::{DpoSettings, LoraSettings, Positive, PreferenceLoss, Share};
use topalign::train::{self, Job, Rows, RunManifest, Start, StepRow};

use super::decoder::{Folders, dpo_settings, folders, job, log, lora, sft_settings, without_time};
use super::tiny;
use crate::members::as_ranks;

/// How far a figure of several ranks may be from one process's.
const TOLERANCE: f64 = 1e-5;

fn assert_close(left: &[StepRow], right: &[StepRow], context: &str) {
    assert_eq!(left.len(), right.len(), "{context}");
    for (left, right) in left.iter().zip(right) {
        assert_eq!((left.step, left.num_tokens, left.epoch), (right.step, right.num_tokens, right.epoch), "{context}");
        let numbers = |row: &StepRow| {
            let own = [("loss".to_owned(), row.loss), ("grad_norm".to_owned(), row.grad_norm)];
            own.into_iter().chain(row.metrics.clone()).collect::<Vec<_>>()
        };
        let (left_numbers, right_numbers) = (numbers(left), numbers(right));
        assert_eq!(left_numbers.len(), right_numbers.len(), "{context}");
        for ((name, left_value), (_, right_value)) in left_numbers.iter().zip(&right_numbers) {
            let (one, other) = (left_value.unwrap(), right_value.unwrap());
            let distance = (one - other).abs() / one.abs().max(1.0);
            assert!(distance < TOLERANCE, "{context}, step {}, {name}: {one} {other}", left.step);
        }
    }
}

/// One kind of run on the tiny model.
struct Case {
    name: &'static str,
    lora: Option<LoraSettings>,
    loss: Option<PreferenceLoss>,
    settings: &'static str,
}

fn dropping() -> LoraSettings {
    LoraSettings { dropout: Share::try_from(0.2).unwrap(), ..lora() }
}

const PLAIN: &str = "learning_rate = 0.001\nrows_per_step = 5\nepochs = 3\nevaluate_every = 2\nsave_every = 4";
const KTO: PreferenceLoss = PreferenceLoss::Kto { desirable_weight: Positive::ONE, undesirable_weight: Positive::ONE };

fn cases() -> [Case; 5] {
    let case = |name, lora, loss, settings| Case { name, lora, loss, settings };
    let sigmoid = dpo_settings(PLAIN).loss;
    [
        case("sft", None, None, PLAIN),
        case("sft with adapters and dropout", Some(dropping()), None, PLAIN),
        case("dpo", Some(dropping()), Some(sigmoid), PLAIN),
        case("kto", Some(lora()), Some(KTO), PLAIN),
        // A rank without any row in some steps, and steps of unequal size.
        case("sft by tokens", None, None, "learning_rate = 0.001\ntokens_per_step = 30\nepochs = 2"),
    ]
}

impl Case {
    fn run(&self, folders: &Folders, out: &Path, group: &dyn Group, start: Start) -> Result<RunManifest> {
        let job = Job { lora: self.lora.as_ref(), group, start, ..job(&folders.model, out) };
        self.run_job(&job)
    }

    fn run_job(&self, job: &Job<'_>) -> Result<RunManifest> {
        match self.loss {
            None => {
                let rows = tiny::sft_rows(17);
                let (train, held_out) = rows.split_at(13);
                train::sft(job, Rows { train, held_out }, &sft_settings(self.settings))
            }
            Some(loss) => {
                let pairs = tiny::pairs(9);
                let (train, held_out) = pairs.split_at(21);
                let settings = DpoSettings { loss, ..dpo_settings(self.settings) };
                train::dpo(job, Rows { train, held_out }, &settings)
            }
        }
    }

    fn weights(&self, out: &Path) -> Vec<f32> {
        let file = if self.lora.is_some() { "adapter_model.safetensors" } else { "model.safetensors" };
        let tensors = read_tensors(&out.join("final").join(file), &Device::Cpu).unwrap();
        tensors.values().flat_map(|tensor| tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap()).collect()
    }
}

#[test]
fn ranks_train_and_evaluate_as_one_process_does() {
    let folders = folders();
    for case in cases() {
        let alone = folders.root.path().join("alone");
        case.run(&folders, &alone, &Alone, Start::Fresh).unwrap();
        for size in [2, 3] {
            let out = folders.root.path().join(format!("ranks-{size}"));
            let manifests = as_ranks(size, |group| case.run(&folders, &out, group, Start::Fresh).unwrap());
            let context = format!("{}, {size} ranks", case.name);
            assert_close(&log(&out), &log(&alone), &context);
            assert!(manifests.iter().all(|manifest| manifest.ranks == size), "{context}");
            let steps: Vec<_> = manifests.iter().map(|manifest| manifest.outcome.as_ref().unwrap().last_loss).collect();
            assert!(steps.iter().all(|loss| *loss == steps[0]), "{context}: every rank knows the outcome");
            for (one, other) in case.weights(&out).iter().zip(case.weights(&alone)) {
                assert!((one - other).abs() < 1e-4, "{context}: {one} {other}");
            }
            assert_eq!(RunManifest::read(&out).unwrap().ranks, size);
        }
    }
}

#[test]
fn a_run_goes_on_with_another_number_of_ranks() {
    let folders = folders();
    for case in &cases()[1..3] {
        let through = folders.root.path().join("through");
        case.run(&folders, &through, &Alone, Start::Fresh).unwrap();
        for (before, after) in [(2, 1), (1, 3)] {
            let out = folders.root.path().join(format!("{}-from-{before}-to-{after}", case.name));
            let stopped = as_ranks(before, |group| {
                let asked = AtomicUsize::new(0);
                // Only one rank is asked to stop, and not before the first step.
                let log = out.join("log.jsonl");
                let is_asked = || group.rank() + 1 == group.size() && log.exists();
                let stop = || is_asked() && asked.fetch_add(1, Ordering::SeqCst) >= 3;
                let job = Job { lora: case.lora.as_ref(), group, stop: &stop, ..job(&folders.model, &out) };
                case.run_job(&job)
            });
            assert!(stopped.iter().all(|ended| matches!(ended, Err(Error::Interrupted))), "all ranks stop together");
            assert_eq!(log(&out).len(), 3);
            assert!(out.join("checkpoint-3/state.json").is_file());
            let manifests = as_ranks(after, |group| case.run(&folders, &out, group, Start::Resume).unwrap());
            assert!(manifests.iter().all(|manifest| manifest.resumed_from == Some(3)));
            assert_close(&log(&out), &log(&through), &format!("{}, from {before} to {after} ranks", case.name));
        }
    }
}

#[test]
fn the_same_ranks_give_the_same_bytes() {
    let folders = folders();
    let case = &cases()[2];
    let [first, second] = ["first", "second"].map(|name| folders.root.path().join(name));
    for out in [&first, &second] {
        as_ranks(2, |group| case.run(&folders, out, group, Start::Fresh).unwrap());
    }
    assert_eq!(without_time(&log(&first)), without_time(&log(&second)));
    assert_eq!(case.weights(&first), case.weights(&second));
}

#[test]
fn ranks_with_other_rows_are_refused_before_anything_is_written() {
    let folders = folders();
    let out = folders.root.path().join("run");
    let settings = sft_settings("learning_rate = 0.001");
    let ended = as_ranks(2, |group| {
        let rows = tiny::sft_rows(10 + group.rank());
        train::sft(&Job { group, ..job(&folders.model, &out) }, &rows, &settings)
    });
    for error in ended {
        let error = error.unwrap_err();
        assert!(error.to_string().contains("do not have the same settings, rows and model"), "{error}");
        assert_eq!(error.exit_status(), 2);
    }
    assert!(!out.exists());
}
