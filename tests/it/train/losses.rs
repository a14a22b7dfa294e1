//! Whole runs with each preference loss, and weights by kind.

use topalign::dataset::{PairKind, PreferencePair};
use topalign::rank::Alone;
use topalign::recipe::settings::{DpoSettings, KindWeights, NonNegative, Positive, PreferenceLoss, Smoothing};
use topalign::token::ChatTokenizer;
use topalign::train::{self, Job, MicroBatch, Objective as _, Policy as _, Preference, encode_unpaired};

use super::decoder::{dpo_settings, folders, job, log, lora};
use super::{tiny, toy};

fn with_loss(loss: PreferenceLoss, text: &str) -> DpoSettings {
    let beta = if loss.needs_reference() { 0.1 } else { 2.0 };
    DpoSettings { loss, beta: Positive::try_from(beta).unwrap(), ..dpo_settings(text) }
}

const KTO: PreferenceLoss = PreferenceLoss::Kto { desirable_weight: Positive::ONE, undesirable_weight: Positive::ONE };

fn all_losses() -> Vec<PreferenceLoss> {
    let label_smoothing = Smoothing::try_from(0.1).unwrap();
    vec![
        PreferenceLoss::Sigmoid { label_smoothing },
        PreferenceLoss::Robust { label_smoothing },
        PreferenceLoss::Ipo,
        PreferenceLoss::Hinge,
        PreferenceLoss::Simpo { target_margin: NonNegative::HALF, label_smoothing: Smoothing::NONE },
        PreferenceLoss::Orpo,
        KTO,
    ]
}

#[test]
fn every_loss_trains_and_one_without_reference_makes_no_reference_pass() {
    let folders = folders();
    for (index, loss) in all_losses().into_iter().enumerate() {
        let out = folders.root.path().join(format!("run-{index}"));
        let settings = with_loss(loss, "learning_rate = 0.003\nrows_per_step = 3\nepochs = 8");
        let lora = lora();
        let manifest =
            train::dpo(&Job { lora: Some(&lora), ..job(&folders.model, &out) }, &tiny::pairs(6), &settings).unwrap();
        let log = log(&out);
        let margin = |row: &train::StepRow| row.metrics["rewards/margins"].unwrap();
        assert!(margin(log.last().unwrap()) > margin(&log[0]) + 0.02, "{loss:?}: {:?}", log.last());
        assert!(log.last().unwrap().loss.unwrap() < log[0].loss.unwrap(), "{loss:?}");
        assert_eq!(out.join("reference.safetensors").exists(), loss.needs_reference(), "{loss:?}");
        let seconds = manifest.outcome.unwrap().reference_seconds;
        assert_eq!(seconds.is_some(), loss.needs_reference(), "{loss:?}");
        if loss == KTO {
            assert_eq!(log[0].metrics["kl"], Some(0.0));
            assert!((log[0].loss.unwrap() - 0.5).abs() < 1e-6, "1 - sigmoid(0) at the start");
        }
    }
}

fn unpaired() -> Vec<PreferencePair> {
    let mut rows = tiny::pairs(4);
    for row in &mut rows[0..3] {
        row.chosen.clear(); // the first prompt has rejected answers only
    }
    rows[9].rejected.clear(); // the last one also has a row with a chosen answer only
    rows
}

#[test]
fn kto_trains_on_prompts_that_lack_one_side() {
    let folders = folders();
    let out = folders.root.path().join("run");
    let settings = with_loss(KTO, "learning_rate = 0.003\nrows_per_step = 4\nepochs = 6");
    let manifest = train::dpo(&job(&folders.model, &out), &unpaired(), &settings).unwrap();
    assert_eq!((manifest.data.units, manifest.data.answers), (4, 3 + 4 + 4 + 3));
    let log = log(&out);
    assert!(log.last().unwrap().loss.unwrap() < log[0].loss.unwrap());
    assert!(log[0].metrics.contains_key("logps/rejected/explicit-leak"));
    // A loss that compares pairs refuses such rows by name.
    let error = train::dpo(&job(&folders.model, &out), &unpaired(), &dpo_settings("learning_rate = 0.003"));
    let error = error.unwrap_err();
    assert!(error.exit_status() == 2 && error.to_string().contains("dpo:0 (trace-0)"), "{error}");
}

#[test]
fn kto_needs_two_prompts() {
    let folders = folders();
    let out = folders.root.path().join("run");
    let settings = with_loss(KTO, "learning_rate = 0.003");
    let error = train::dpo(&job(&folders.model, &out), &tiny::pairs(1), &settings).unwrap_err();
    assert!(error.exit_status() == 2 && error.to_string().contains("two prompts"), "{error}");
}

#[test]
fn an_answer_alone_is_a_tree_of_its_own_side() {
    let folder = tempfile::tempdir().unwrap();
    tiny::write(folder.path(), 1, true);
    let tokenizer = ChatTokenizer::load(folder.path()).unwrap();
    let encoded = encode_unpaired(&unpaired(), &tokenizer, 100).unwrap();
    let sides: Vec<(usize, usize)> =
        encoded.trees.iter().zip(&encoded.kinds).map(|(tree, kinds)| (tree.answers.len(), kinds.len())).collect();
    assert_eq!(sides, [(3, 3), (4, 3), (4, 3), (3, 2)]);
    let mut none = unpaired();
    none[0].rejected.clear();
    let error = encode_unpaired(&none, &tokenizer, 100).unwrap_err();
    assert!(error.to_string().contains("dpo:0 (trace-0)"), "{error}");
}

fn weights(explicit_leak: f64, over_disclosure: f64, over_refusal: f64) -> KindWeights {
    let positive = |value| Positive::try_from(value).unwrap();
    KindWeights {
        explicit_leak: positive(explicit_leak),
        over_disclosure: positive(over_disclosure),
        over_refusal: positive(over_refusal),
    }
}

#[test]
fn a_steps_loss_is_the_mean_of_its_pairs_weighted_by_kind_however_it_is_cut() {
    let trees = toy::trees(3, 3);
    let kinds = vec![PairKind::ALL.map(Some).to_vec(); 3];
    let policy = toy::Bigram::new(4);
    let reference = train::reference(&toy::Bigram::new(5), &trees, &Alone, |_| Ok(())).unwrap();
    let objective = |kind_weights| Preference {
        trees: &trees,
        kinds: &kinds,
        reference: Some(&reference),
        objective: (&dpo_settings("learning_rate = 0.1")).into(),
        kind_weights,
        mismatched: None,
    };
    let loss = |kind_weights, cuts: &[&[usize]]| -> f64 {
        let objective = objective(kind_weights);
        let scale = train::StepScale { weight: objective.weight(&cuts.concat()), baseline: 0.0 };
        let share = |units: &&[usize]| {
            let batch = MicroBatch::new(&trees, units.to_vec());
            let values = policy.log_probabilities(&batch.packed, super::decoder::TRAINING).unwrap();
            let share = objective.share(&batch, &values, scale, &mut train::Means::default()).unwrap();
            f64::from(share.to_scalar::<f32>().unwrap())
        };
        cuts.iter().map(share).sum()
    };
    let plain = loss(None, &[&[0, 1, 2]]);
    assert!((loss(Some(weights(1.0, 1.0, 1.0)), &[&[0, 1, 2]]) - plain).abs() < 1e-6);
    assert!((loss(Some(weights(3.0, 3.0, 3.0)), &[&[0, 1, 2]]) - plain).abs() < 1e-6, "only ratios matter");
    let near = |kind: usize| {
        let mut own = [1e-9; 3];
        own[kind] = 1.0;
        loss(Some(weights(own[0], own[1], own[2])), &[&[0, 1, 2]])
    };
    let weighted = loss(Some(weights(1.0, 2.0, 5.0)), &[&[0, 1, 2]]);
    assert!((weighted - (near(0) + 2.0 * near(1) + 5.0 * near(2)) / 8.0).abs() < 1e-5);
    assert!((weighted - loss(Some(weights(1.0, 2.0, 5.0)), &[&[0], &[1, 2]])).abs() < 1e-6);
}

#[test]
fn weights_by_kind_refuse_a_pair_without_a_kind() {
    let folders = folders();
    let out = folders.root.path().join("run");
    let settings = DpoSettings { kind_weights: Some(weights(1.0, 1.0, 2.0)), ..dpo_settings("learning_rate = 0.003") };
    let mut pairs = tiny::pairs(2);
    pairs[4].kind = None;
    let error = train::dpo(&job(&folders.model, &out), &pairs, &settings).unwrap_err();
    assert!(error.exit_status() == 2 && error.to_string().contains("dpo:4 (trace-1)"), "{error}");
    assert!(!out.exists());
}
