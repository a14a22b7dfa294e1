//! Losses against values computed by hand.

#![allow(
    clippy::unwrap_used,
    clippy::float_cmp,
    reason = "a test fails by panicking, and states exact values on purpose"
)]

use candle_core::{Device, Tensor, Var};
use serde::Deserialize;
use topalign::loss::{
    Desirability, Pairs, PreferenceObjective, Scores, log_sigmoid, negative_log_likelihood, preference_losses, rewards,
    sum_per_answer, unpaired_baseline, unpaired_losses, weighted_share,
};
use topalign::recipe::settings::{NonNegative, Positive, PreferenceLoss, Smoothing};

fn sigmoid(label_smoothing: f64) -> PreferenceLoss {
    PreferenceLoss::Sigmoid { label_smoothing: Smoothing::try_from(label_smoothing).unwrap() }
}

fn objective(loss: PreferenceLoss, beta: f64, chosen_weight: f64) -> PreferenceObjective {
    PreferenceObjective {
        loss,
        beta: Positive::try_from(beta).unwrap(),
        chosen_weight: NonNegative::try_from(chosen_weight).unwrap(),
    }
}

fn three_pairs() -> Pairs {
    Pairs { chosen: vec![0, 0, 0], rejected: vec![1, 2, 3] }
}

fn tensor(values: &[f64]) -> Tensor {
    Tensor::new(values, &Device::Cpu).unwrap()
}

/// Losses of answer 0 against each of the others.
fn losses(ratios: &[f64], log_probabilities: &[f64], lengths: &[usize], objective: &PreferenceObjective) -> Vec<f64> {
    let pairs = Pairs { chosen: vec![0; ratios.len() - 1], rejected: (1..ratios.len() as u32).collect() };
    let (ratios, log_probabilities) = (tensor(ratios), tensor(log_probabilities));
    let scores = Scores { log_probabilities: &log_probabilities, log_ratios: Some(&ratios), lengths };
    preference_losses(scores, &pairs, objective).unwrap().to_vec1().unwrap()
}

#[test]
fn log_sigmoid_has_gradient_one_half_at_0_and_is_finite_at_200() {
    let logits = Var::new(&[0.0_f32, 200.0, -200.0], &Device::Cpu).unwrap();
    let values = log_sigmoid(logits.as_tensor()).unwrap();
    let gradients = values.sum_all().unwrap().backward().unwrap();
    let gradient: Vec<f32> = gradients.get(logits.as_tensor()).unwrap().to_vec1().unwrap();
    assert_eq!(gradient, [0.5, 0.0, 1.0]);
    let values: Vec<f32> = values.to_vec1().unwrap();
    assert!((values[0] + std::f32::consts::LN_2).abs() < 1e-7);
    assert_eq!(&values[1..], [0.0, -200.0]);
}

#[test]
fn policy_equal_to_reference_has_loss_ln_2_at_any_smoothing() {
    for smoothing in [0.0, 0.1, 0.3] {
        for loss in losses(&[0.0; 4], &[-7.0; 4], &[3; 4], &objective(sigmoid(smoothing), 0.1, 0.0)) {
            assert!((loss - std::f64::consts::LN_2).abs() < 1e-6, "{loss} at smoothing {smoothing}");
        }
    }
}

#[test]
fn every_loss_follows_its_equation() {
    let smoothing = |value| Smoothing::try_from(value).unwrap();
    let (log_ratios, totals, lengths) = ([2.0, -3.0, 4.5], [-4.0, -9.0, -2.5], [4, 3, 5]);
    let log_sigmoid = |z: f64| -(-z).exp().ln_1p();
    let gamma = NonNegative::try_from(0.5).unwrap();
    let beta = 0.3;
    for other in [1, 2] {
        let d = log_ratios[0] - log_ratios[other];
        let (chosen, rejected) = (totals[0] / 4.0, totals[other] / lengths[other] as f64);
        let per_token = 2.0 / 4.0 - log_ratios[other] / lengths[other] as f64;
        let odds = |log_p: f64| log_p - (1.0 - log_p.exp()).ln();
        let cases = [
            (sigmoid(0.0), -log_sigmoid(beta * d)),
            (sigmoid(0.1), -0.9 * log_sigmoid(beta * d) - 0.1 * log_sigmoid(-beta * d)),
            (
                PreferenceLoss::Robust { label_smoothing: smoothing(0.1) },
                (-0.9 * log_sigmoid(beta * d) + 0.1 * log_sigmoid(-beta * d)) / 0.8,
            ),
            (PreferenceLoss::Ipo, (per_token - 1.0 / (2.0 * beta)).powi(2)),
            (PreferenceLoss::Hinge, (1.0 - beta * d).max(0.0)),
            (
                PreferenceLoss::Simpo { target_margin: gamma, label_smoothing: Smoothing::NONE },
                -log_sigmoid(beta * (chosen - rejected) - 0.5),
            ),
            (PreferenceLoss::Orpo, -chosen - beta * log_sigmoid(odds(chosen) - odds(rejected))),
        ];
        for (loss, expected) in cases {
            let found = losses(&log_ratios, &totals, &lengths, &objective(loss, beta, 0.0))[other - 1];
            assert!((found - expected).abs() < 1e-9, "{loss:?}: {found} {expected}");
        }
    }
}

/// d sum(losses) / d token, by the graph and by central differences; every answer's tokens are one leaf.
fn check_gradient(name: &str, values: &[f64], sum: impl Fn(&Tensor) -> Tensor) {
    let leaf = Var::new(values, &Device::Cpu).unwrap();
    let gradients = sum(leaf.as_tensor()).backward().unwrap();
    let gradient: Vec<f64> = gradients.get(leaf.as_tensor()).unwrap().to_vec1().unwrap();
    for (index, gradient) in gradient.into_iter().enumerate() {
        let at = |step: f64| {
            let mut moved = values.to_vec();
            moved[index] += step;
            sum(&tensor(&moved)).to_scalar::<f64>().unwrap()
        };
        let expected = (at(1e-5) - at(-1e-5)) / 2e-5;
        assert!((gradient - expected).abs() < 1e-7, "{name}, answer {index}: {gradient} {expected}");
    }
}

const KTO: PreferenceLoss = PreferenceLoss::Kto { desirable_weight: Positive::ONE, undesirable_weight: Positive::ONE };

#[test]
fn gradients_of_every_loss_equal_finite_differences() {
    let smoothing = Smoothing::try_from(0.2).unwrap();
    let gamma = NonNegative::try_from(0.7).unwrap();
    let all = [
        (sigmoid(0.0), 0.0),
        (sigmoid(0.2), 0.4),
        (PreferenceLoss::Robust { label_smoothing: smoothing }, 0.0),
        (PreferenceLoss::Ipo, 0.0),
        (PreferenceLoss::Hinge, 0.3),
        (PreferenceLoss::Simpo { target_margin: gamma, label_smoothing: smoothing }, 0.5),
        (PreferenceLoss::Orpo, 0.0),
    ];
    let (reference, lengths) = (tensor(&[-5.0, -8.5, -3.0, -6.0]), [4, 3, 5, 2]);
    for (loss, chosen_weight) in all {
        let objective = objective(loss, 0.6, chosen_weight);
        check_gradient(&format!("{loss:?}"), &[-4.0, -9.0, -2.5, -7.5], |totals| {
            let log_ratios = (totals - &reference).unwrap();
            let scores = Scores { log_probabilities: totals, log_ratios: Some(&log_ratios), lengths: &lengths };
            let losses = preference_losses(scores, &three_pairs(), &objective).unwrap();
            weighted_share(&losses, Some(&[1.0, 0.5, 2.0]), 3.5).unwrap()
        });
    }
    let sides =
        [Desirability::Desirable, Desirability::Undesirable, Desirability::Undesirable, Desirability::Desirable];
    check_gradient("kto", &[-4.0, -9.0, -2.5, -7.5], |totals| {
        let log_ratios = (totals - &reference).unwrap();
        let scores = Scores { log_probabilities: totals, log_ratios: Some(&log_ratios), lengths: &lengths };
        unpaired_losses(scores, &sides, 0.3, &objective(KTO, 0.6, 0.0)).unwrap().sum_all().unwrap()
    });
}

/// What `tests/golden/losses` wrote with TRL's own code.
#[derive(Deserialize)]
struct Golden {
    policy: Vec<Vec<f64>>,
    reference: Vec<Vec<f64>>,
    mismatched: GoldenMismatched,
    cases: Vec<GoldenCase>,
}

#[derive(Deserialize)]
struct GoldenMismatched {
    policy: Vec<f64>,
    reference: Vec<f64>,
}

#[derive(Deserialize)]
struct GoldenCase {
    name: String,
    loss: String,
    beta: f64,
    #[serde(default)]
    label_smoothing: f64,
    #[serde(default)]
    target_margin: f64,
    #[serde(default)]
    chosen_weight: f64,
    desirable_weight: Option<f64>,
    undesirable_weight: Option<f64>,
    answers: Option<usize>,
    value: f64,
    gradients: Vec<Vec<f64>>,
    metrics: std::collections::BTreeMap<String, f64>,
}

impl GoldenCase {
    fn loss(&self) -> PreferenceLoss {
        let label_smoothing = Smoothing::try_from(self.label_smoothing).unwrap();
        let positive = |value: Option<f64>| Positive::try_from(value.unwrap()).unwrap();
        match self.loss.as_str() {
            "sigmoid" => PreferenceLoss::Sigmoid { label_smoothing },
            "robust" => PreferenceLoss::Robust { label_smoothing },
            "ipo" => PreferenceLoss::Ipo,
            "hinge" => PreferenceLoss::Hinge,
            "simpo" => PreferenceLoss::Simpo {
                target_margin: NonNegative::try_from(self.target_margin).unwrap(),
                label_smoothing,
            },
            "orpo" => PreferenceLoss::Orpo,
            "kto" => PreferenceLoss::Kto {
                desirable_weight: positive(self.desirable_weight),
                undesirable_weight: positive(self.undesirable_weight),
            },
            other => panic!("unknown loss {other}"),
        }
    }
}

#[test]
fn losses_and_gradients_equal_trls() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/loss/trl.json");
    let golden: Golden = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    assert!(golden.cases.len() >= 12);
    for case in &golden.cases {
        let count = case.answers.unwrap_or(golden.policy.len());
        let (policy, reference) = (&golden.policy[..count], &golden.reference[..count]);
        let lengths: Vec<usize> = policy.iter().map(Vec::len).collect();
        let rows: Vec<usize> = lengths.iter().enumerate().flat_map(|(answer, &tokens)| vec![answer; tokens]).collect();
        let leaf = Var::from_tensor(&tensor(&policy.concat())).unwrap();
        let per_token = (leaf.as_tensor() - tensor(&reference.concat())).unwrap();
        let totals = sum_per_answer(leaf.as_tensor(), &rows, count).unwrap();
        let log_ratios = sum_per_answer(&per_token, &rows, count).unwrap();
        let objective = objective(case.loss(), case.beta, case.chosen_weight);
        let log_ratios = case.loss().needs_reference().then_some(&log_ratios);
        let scores = Scores { log_probabilities: &totals, log_ratios, lengths: &lengths };
        let indices = |first: u32| (first..count as u32).step_by(2).collect();
        let losses = if case.loss().is_paired() {
            preference_losses(scores, &Pairs { chosen: indices(0), rejected: indices(1) }, &objective).unwrap()
        } else {
            let sides = [Desirability::Desirable, Desirability::Undesirable];
            let sides: Vec<Desirability> = sides.into_iter().cycle().take(count).collect();
            let moved = golden.mismatched.policy.iter().zip(&golden.mismatched.reference);
            let baseline = unpaired_baseline(&moved.map(|(policy, reference)| policy - reference).collect::<Vec<_>>());
            assert!((baseline - case.metrics["kl"]).abs() < 1e-6 && baseline > 0.0);
            unpaired_losses(scores, &sides, baseline, &objective).unwrap()
        };
        let loss = losses.mean_all().unwrap();
        let value = loss.to_scalar::<f64>().unwrap();
        // TRL computes ORPO's odds in f32.
        let bound = if case.loss == "orpo" { 1e-6 } else { 1e-9 };
        assert!((value - case.value).abs() < bound, "{}: {value} {}", case.name, case.value);
        let gradients = loss.backward().unwrap();
        let gradient: Vec<f64> = gradients.get(leaf.as_tensor()).unwrap().to_vec1().unwrap();
        for (found, expected) in gradient.iter().zip(case.gradients.concat()) {
            assert!((found - expected).abs() < bound, "{}: gradient {found} {expected}", case.name);
        }
    }
}

#[test]
fn odds_stay_finite_where_a_probability_rounds_to_1() {
    let totals = Var::new(&[0.0_f32, -1e-9, -300.0], &Device::Cpu).unwrap();
    let scores = Scores { log_probabilities: totals.as_tensor(), log_ratios: None, lengths: &[2, 2, 2] };
    let pairs = Pairs { chosen: vec![0, 2], rejected: vec![1, 0] };
    let losses = preference_losses(scores, &pairs, &objective(PreferenceLoss::Orpo, 0.1, 0.0)).unwrap();
    assert!(losses.to_vec1::<f32>().unwrap().iter().all(|loss| loss.is_finite()));
    let gradients = losses.sum_all().unwrap().backward().unwrap();
    let gradient: Vec<f32> = gradients.get(totals.as_tensor()).unwrap().to_vec1().unwrap();
    assert!(gradient.iter().all(|value| value.is_finite()), "{gradient:?}");
}

#[test]
fn gradient_of_a_pair_is_beta_times_the_wrong_probability() {
    let ratios = Var::new(&[1.0_f32, -1.0], &Device::Cpu).unwrap();
    let pairs = Pairs { chosen: vec![0], rejected: vec![1] };
    let scores =
        Scores { log_probabilities: ratios.as_tensor(), log_ratios: Some(ratios.as_tensor()), lengths: &[1, 1] };
    let loss = preference_losses(scores, &pairs, &objective(sigmoid(0.0), 0.5, 0.0)).unwrap();
    let gradients = loss.sum_all().unwrap().backward().unwrap();
    let gradient: Vec<f32> = gradients.get(ratios.as_tensor()).unwrap().to_vec1().unwrap();
    let wrong = 1.0 / (1.0 + 1.0_f32.exp()); // sigmoid(-z), z = 0.5 * (1 - -1)
    assert!((gradient[0] + 0.5 * wrong).abs() < 1e-6 && (gradient[1] - 0.5 * wrong).abs() < 1e-6, "{gradient:?}");
}

#[test]
fn chosen_term_is_the_answers_loss_per_token() {
    for loss in [sigmoid(0.0), PreferenceLoss::Ipo, PreferenceLoss::Hinge] {
        let plain = losses(&[0.0; 3], &[-6.0, -9.0, -1.0], &[4, 2, 1], &objective(loss, 0.1, 0.0));
        let with_term = losses(&[0.0; 3], &[-6.0, -9.0, -1.0], &[4, 2, 1], &objective(loss, 0.1, 0.5));
        for (plain, with_term) in plain.into_iter().zip(with_term) {
            assert!((with_term - plain - 0.5 * 6.0 / 4.0).abs() < 1e-6);
        }
    }
}

#[test]
fn weights_make_a_weighted_mean_whose_shares_add_up() {
    let losses = tensor(&[1.0, 2.0, 6.0]);
    let share = |losses: &Tensor, weights: Option<&[f64]>, step| {
        weighted_share(losses, weights, step).unwrap().to_scalar::<f64>().unwrap()
    };
    assert_eq!(share(&losses, None, 3.0), 3.0);
    assert_eq!(share(&losses, Some(&[1.0, 2.0, 0.5]), 3.5), 8.0 / 3.5);
    let parts = share(&tensor(&[1.0]), Some(&[1.0]), 3.5) + share(&tensor(&[2.0, 6.0]), Some(&[2.0, 0.5]), 3.5);
    assert!((parts - 8.0 / 3.5).abs() < 1e-12);
    assert!(weighted_share(&losses, None, 0.0).is_err());
}

#[test]
fn what_a_loss_cannot_be_computed_from_is_refused() {
    let values = tensor(&[-1.0, -2.0]);
    let pairs = Pairs { chosen: vec![0], rejected: vec![1] };
    let of = |loss, lengths: &[usize], log_ratios, pairs: &Pairs| {
        let scores = Scores { log_probabilities: &values, log_ratios, lengths };
        preference_losses(scores, pairs, &objective(loss, 0.1, 1.0)).is_err()
    };
    assert!(of(sigmoid(0.0), &[0, 1], Some(&values), &pairs), "a chosen answer without tokens");
    assert!(of(PreferenceLoss::Orpo, &[1, 0], None, &pairs), "a rejected answer without tokens");
    assert!(of(sigmoid(0.0), &[1, 1], Some(&values), &Pairs::default()), "no pair");
    assert!(of(sigmoid(0.0), &[1, 1], None, &pairs), "no reference");
    assert!(of(KTO, &[1, 1], Some(&values), &pairs), "KTO has no pairs");
    let scores = Scores { log_probabilities: &values, log_ratios: Some(&values), lengths: &[1, 1] };
    let sides = [Desirability::Desirable; 2];
    assert!(unpaired_losses(scores, &sides, 0.0, &objective(sigmoid(0.0), 0.1, 0.0)).is_err());
    assert!(unpaired_losses(scores, &[], 0.0, &objective(KTO, 0.1, 0.0)).is_err());
}

#[test]
fn a_baseline_is_never_negative_and_0_without_answers() {
    assert_eq!(unpaired_baseline(&[1.0, 3.0]), 2.0);
    assert_eq!(unpaired_baseline(&[1.0, -3.0]), 0.0);
    assert_eq!(unpaired_baseline(&[]), 0.0);
}

#[test]
fn ties_are_not_right() {
    let beta = Positive::try_from(0.1).unwrap();
    let tied = rewards(&[0.0; 4], &three_pairs(), beta);
    assert!(tied.iter().all(|reward| !reward.is_right() && reward.margin() == 0.0));
    let mixed = rewards(&[1.0, 1.0, 2.0, -1.0], &three_pairs(), beta);
    assert_eq!(mixed.iter().map(|reward| reward.is_right()).collect::<Vec<_>>(), [false, false, true]);
    for (reward, margin) in mixed.iter().zip([0.0, -0.1, 0.2]) {
        assert!((reward.margin() - margin).abs() < 1e-12 && (reward.chosen - 0.1).abs() < 1e-12);
    }
}

#[test]
fn rows_are_summed_into_their_answers() {
    let values = Tensor::new(&[1.0_f32, 2.0, 4.0, 8.0], &Device::Cpu).unwrap();
    let sums: Vec<f32> = sum_per_answer(&values, &[0, 2, 0, 2], 3).unwrap().to_vec1().unwrap();
    assert_eq!(sums, [5.0, 0.0, 10.0]);
}

#[test]
fn shares_of_micro_batches_add_up_to_the_mean_over_tokens() {
    let share = |values: &[f32]| {
        negative_log_likelihood(&Tensor::new(values, &Device::Cpu).unwrap(), 5).unwrap().to_scalar::<f32>().unwrap()
    };
    let whole = share(&[-1.0, -2.0, -3.0, -4.0, -5.0]);
    assert!((whole - 3.0).abs() < 1e-6);
    assert!((share(&[-1.0]) + share(&[-2.0, -3.0, -4.0, -5.0]) - whole).abs() < 1e-6);
}

#[test]
fn a_step_without_answer_tokens_is_refused() {
    let empty = Tensor::zeros(0, candle_core::DType::F32, &Device::Cpu).unwrap();
    assert!(negative_log_likelihood(&empty, 0).is_err());
}
