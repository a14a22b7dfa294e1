//! The loop on the bigram model.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::Path;

use candle_core::backprop::GradStore;
use candle_core::{Tensor, Var};
use topalign::checkpoint;
use topalign::dataset::PairKind;
use topalign::error::{Error, Result};
use topalign::loss::PreferenceObjective;
use topalign::rank::Alone;
use topalign::recipe::settings::{NonNegative, Positive, PreferenceLoss, TrainSettings};
use topalign::run::seed::Seed;
use topalign::token::{Packed, Tree, pack};
use topalign::train::{Loop, LoopOutcome, Objective, Order, Pass, Policy, Preference, StepRow, Supervised};

use super::toy::{Bigram, settings, trees};

struct Run<'a> {
    policy: &'a Bigram,
    objective: &'a dyn Objective,
    trees: &'a [Tree],
    settings: &'a TrainSettings,
    tokens_per_pass: usize,
    folder: &'a Path,
    stop_after: usize,
}

impl Run<'_> {
    fn go(&self, resume: bool) -> Result<LoopOutcome> {
        let asked = Cell::new(0);
        let loop_ = Loop {
            policy: self.policy,
            objective: self.objective,
            trees: self.trees,
            order: Order::new(self.trees, self.settings, Seed(3)),
            settings: self.settings,
            evaluation: None,
            tokens_per_pass: self.tokens_per_pass,
            folder: self.folder,
            group: &Alone,
            run_digest: "digest",
            stop: &|| asked.replace(asked.get() + 1) >= self.stop_after,
            on_step: &|_| {},
        };
        let checkpoint =
            if resume { checkpoint::latest(self.folder, &candle_core::Device::Cpu)?.checkpoint } else { None };
        loop_.run(checkpoint.as_ref())
    }
}

fn without_time(log: &[StepRow]) -> Vec<StepRow> {
    log.iter().map(|row| StepRow { step_seconds: None, ..row.clone() }).collect()
}

fn reference(policy: &Bigram, trees: &[Tree]) -> Vec<Vec<f32>> {
    let of = |tree| policy.log_probabilities(&pack(&[tree]), Pass::Reference).unwrap().to_vec1().unwrap();
    trees.iter().map(of).collect()
}

fn dpo_objective() -> PreferenceObjective {
    PreferenceObjective {
        loss: PreferenceLoss::DPO,
        beta: Positive::try_from(0.1).unwrap(),
        chosen_weight: NonNegative::ZERO,
    }
}

fn preference_over<'a>(
    trees: &'a [Tree],
    kinds: &'a [Vec<Option<PairKind>>],
    reference: &'a [Vec<f32>],
) -> Preference<'a> {
    Preference {
        trees,
        kinds,
        reference: Some(reference),
        objective: dpo_objective(),
        kind_weights: None,
        mismatched: None,
    }
}

#[test]
fn supervised_loss_falls_on_rows_that_can_be_learned() {
    let (policy, trees, folder) = (Bigram::new(1), trees(12, 0), tempfile::tempdir().unwrap());
    let settings = settings("learning_rate = 0.05\nrows_per_step = 5\nepochs = 30\nsave_every = 1000");
    let objective = Supervised { trees: &trees };
    let run = Run {
        policy: &policy,
        objective: &objective,
        trees: &trees,
        settings: &settings,
        tokens_per_pass: 30,
        folder: folder.path(),
        stop_after: usize::MAX,
    };
    let outcome = run.go(false).unwrap();
    let loss = |row: &StepRow| row.loss.unwrap();
    assert_eq!(outcome.steps, 90);
    assert!(loss(&outcome.log[89]) < 0.5 * loss(&outcome.log[0]), "{:?}", outcome.log[89]);
    assert!(outcome.log.windows(2).all(|pair| pair[1].num_tokens > pair[0].num_tokens));
}

#[test]
fn preference_training_starts_at_ln_2_and_margins_grow() {
    let (policy, trees, folder) = (Bigram::new(1), trees(9, 3), tempfile::tempdir().unwrap());
    let settings = settings("learning_rate = 0.02\nrows_per_step = 3\nepochs = 10");
    let reference = reference(&policy, &trees);
    let kinds = vec![PairKind::ALL.map(Some).to_vec(); 9];
    let objective = preference_over(&trees, &kinds, &reference);
    let run = Run {
        policy: &policy,
        objective: &objective,
        trees: &trees,
        settings: &settings,
        tokens_per_pass: 1000,
        folder: folder.path(),
        stop_after: usize::MAX,
    };
    let log = run.go(false).unwrap().log;
    let (first, last) = (&log[0], &log[29]);
    assert!((first.loss.unwrap() - std::f64::consts::LN_2).abs() < 1e-6, "{first:?}");
    assert_eq!(first.metrics["rewards/margins"], Some(0.0));
    assert_eq!(first.metrics["rewards/accuracies"], Some(0.0));
    assert!(last.metrics["rewards/margins"].unwrap() > 0.05 && last.loss.unwrap() < first.loss.unwrap());
    let by_kind: f64 =
        PairKind::ALL.iter().map(|kind| last.metrics[&format!("rewards/margins/{}", kind.name())].unwrap()).sum();
    assert!((by_kind / 3.0 - last.metrics["rewards/margins"].unwrap()).abs() < 1e-9);
    assert!(last.metrics["logps/chosen"].unwrap() < 0.0 && last.metrics.contains_key("logps/rejected/over-refusal"));
}

/// Three epochs of windows of 4 and 3 rows in passes of `tokens_per_pass`: the model, the last log row, the passes made.
fn three_epochs(tokens_per_pass: usize, preference: bool) -> (Bigram, StepRow, usize) {
    let (policy, trees, folder) = (Bigram::new(5), trees(7, 2), tempfile::tempdir().unwrap());
    let settings = settings("learning_rate = 0.01\nrows_per_step = 4\nepochs = 3");
    let kinds = vec![vec![None, None]; 7];
    let reference = reference(&policy, &trees);
    let supervised = Supervised { trees: &trees };
    let preferences = preference_over(&trees, &kinds, &reference);
    policy.passes.set(0);
    let run = Run {
        policy: &policy,
        objective: if preference { &preferences } else { &supervised },
        trees: &trees,
        settings: &settings,
        tokens_per_pass,
        folder: folder.path(),
        stop_after: usize::MAX,
    };
    let last = run.go(false).unwrap().log.pop().unwrap();
    let passes = policy.passes.get();
    (policy, last, passes)
}

#[test]
fn accumulation_equals_the_big_batch_for_unequal_lengths_and_a_short_last_window() {
    for preference in [false, true] {
        let (whole, whole_row, whole_passes) = three_epochs(10_000, preference);
        let (parts, parts_row, parts_passes) = three_epochs(1, preference);
        assert_eq!((whole_passes, parts_passes), (6, 21));
        assert!((whole_row.loss.unwrap() - parts_row.loss.unwrap()).abs() < 1e-6);
        assert!((whole_row.grad_norm.unwrap() - parts_row.grad_norm.unwrap()).abs() < 1e-6);
        for (name, values) in whole.values() {
            for (whole, parts) in values.iter().zip(&parts.values()[&name]) {
                assert!((whole - parts).abs() < 1e-5, "{name}: {whole} {parts}");
            }
        }
    }
}

#[test]
fn twenty_steps_equal_nine_and_eleven_resumed_in_the_middle_of_an_epoch() {
    let trees = trees(13, 0);
    let objective = Supervised { trees: &trees };
    let settings = settings("learning_rate = 0.05\nrows_per_step = 2\nepochs = 3\nmax_steps = 20\nsave_every = 4");
    let run = |policy: &Bigram, folder: &Path, stop_after: usize, resume: bool| {
        let run = Run {
            policy,
            objective: &objective,
            trees: &trees,
            settings: &settings,
            tokens_per_pass: 12,
            folder,
            stop_after,
        };
        run.go(resume)
    };
    let (through, through_folder) = (Bigram::new(2), tempfile::tempdir().unwrap());
    let expected = run(&through, through_folder.path(), usize::MAX, false).unwrap();

    let (interrupted, folder) = (Bigram::new(2), tempfile::tempdir().unwrap());
    assert!(matches!(run(&interrupted, folder.path(), 9, false), Err(Error::Interrupted)));
    assert!(folder.path().join("checkpoint-9").is_dir(), "the interrupted run saved where it stood");
    let resumed = Bigram::new(99);
    let found = run(&resumed, folder.path(), usize::MAX, true).unwrap();

    assert_eq!(without_time(&found.log), without_time(&expected.log));
    assert_eq!(found.log.len(), 20);
    assert_eq!(resumed.values(), through.values());
    let mut kept: Vec<String> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("checkpoint"))
        .collect();
    kept.sort();
    assert_eq!(kept, ["checkpoint-16", "checkpoint-20"]);
}

#[test]
fn a_loss_that_is_not_finite_stops_the_run_and_names_its_rows() {
    let (policy, mut trees, folder) = (Bigram::new(1), trees(4, 0), tempfile::tempdir().unwrap());
    trees[2].answers[0] = vec![19, 0];
    let mut bias = vec![0.0; super::toy::VOCABULARY];
    bias[19] = f32::NEG_INFINITY;
    policy.set("head.bias", bias);
    let settings = settings("learning_rate = 0.01");
    let objective = Supervised { trees: &trees };
    let run = Run {
        policy: &policy,
        objective: &objective,
        trees: &trees,
        settings: &settings,
        tokens_per_pass: 1000,
        folder: folder.path(),
        stop_after: usize::MAX,
    };
    let error = run.go(false).unwrap_err();
    assert_eq!(error.exit_status(), 1);
    assert_eq!(error.to_string(), "step 1: the loss is not finite; rows: row:2/0");
}

#[test]
fn a_checkpoint_of_another_run_is_refused() {
    let (policy, trees, folder) = (Bigram::new(1), trees(4, 0), tempfile::tempdir().unwrap());
    let settings = settings("learning_rate = 0.01\nmax_steps = 1");
    let objective = Supervised { trees: &trees };
    let run = Run {
        policy: &policy,
        objective: &objective,
        trees: &trees,
        settings: &settings,
        tokens_per_pass: 1000,
        folder: folder.path(),
        stop_after: usize::MAX,
    };
    run.go(false).unwrap();
    let path = folder.path().join("checkpoint-1/state.json");
    let text = std::fs::read_to_string(&path).unwrap().replace("\"digest\"", "\"other\"");
    std::fs::write(&path, text).unwrap();
    let error = run.go(true).unwrap_err();
    assert_eq!(error.exit_status(), 2);
    assert!(error.to_string().contains("other settings"), "{error}");
}

/// The bigram model with a term that is 0 and whose gradient is infinite.
struct Cliff(Bigram);

impl Policy for Cliff {
    fn parameters(&self) -> &BTreeMap<String, Var> {
        self.0.parameters()
    }

    fn log_probabilities(&self, packed: &Packed, pass: Pass<'_>) -> Result<Tensor> {
        let bias = self.parameters()["head.bias"].as_tensor();
        let cliff = (bias - bias.detach())?.sum_all()?.sqrt()?;
        Ok(self.0.log_probabilities(packed, pass)?.broadcast_sub(&cliff)?)
    }

    fn check_gradients(&self, _: &GradStore) -> Result<()> {
        Ok(())
    }
}

#[test]
fn a_gradient_that_is_not_finite_stops_before_the_update_and_names_the_rows() {
    let (policy, trees, folder) = (Cliff(Bigram::new(1)), trees(3, 0), tempfile::tempdir().unwrap());
    let settings = settings("learning_rate = 0.01");
    let before = policy.0.values();
    let loop_ = Loop {
        policy: &policy,
        objective: &Supervised { trees: &trees },
        trees: &trees,
        order: Order::new(&trees, &settings, Seed(3)),
        settings: &settings,
        evaluation: None,
        tokens_per_pass: 1000,
        folder: folder.path(),
        group: &Alone,
        run_digest: "digest",
        stop: &|| false,
        on_step: &|_| {},
    };
    let error = loop_.run(None).unwrap_err().to_string();
    assert!(error.contains("gradient is not finite") && error.contains("row:2/0"), "{error}");
    assert_eq!(policy.0.values(), before);
}
