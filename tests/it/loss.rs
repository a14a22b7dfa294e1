//! Losses against values computed by hand.

#![allow(
    clippy::unwrap_used,
    clippy::float_cmp,
    reason = "a test fails by panicking, and states exact values on purpose"
)]

use candle_core::{Device, Tensor, Var};
use topalign::loss::{
    Pairs, PreferenceObjective, log_sigmoid, negative_log_likelihood, preference_losses, rewards, sum_per_answer,
};
use topalign::recipe::settings::{Positive, Share};

fn objective(beta: f64, label_smoothing: f64, chosen_weight: f64) -> PreferenceObjective {
    PreferenceObjective {
        beta: Positive::try_from(beta).unwrap(),
        label_smoothing: Share::try_from(label_smoothing).unwrap(),
        chosen_weight,
    }
}

fn three_pairs() -> Pairs {
    Pairs { chosen: vec![0, 0, 0], rejected: vec![1, 2, 3] }
}

fn losses(ratios: &[f32], log_probabilities: &[f32], lengths: &[usize], objective: &PreferenceObjective) -> Vec<f32> {
    let pairs = Pairs { chosen: vec![0; ratios.len() - 1], rejected: (1..ratios.len() as u32).collect() };
    let ratios = Tensor::new(ratios, &Device::Cpu).unwrap();
    let log_probabilities = Tensor::new(log_probabilities, &Device::Cpu).unwrap();
    preference_losses(&ratios, &log_probabilities, lengths, &pairs, objective).unwrap().to_vec1().unwrap()
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
        for loss in losses(&[0.0; 4], &[-7.0; 4], &[3; 4], &objective(0.1, smoothing, 0.0)) {
            assert!((loss - std::f32::consts::LN_2).abs() < 1e-6, "{loss} at smoothing {smoothing}");
        }
    }
}

#[test]
fn preference_loss_follows_its_equation() {
    let (ratios, beta, smoothing) = ([2.0_f32, -3.0, 4.5], 0.3, 0.1);
    let found = losses(&ratios, &[-1.0; 3], &[1; 3], &objective(beta, smoothing, 0.0));
    for (index, loss) in found.into_iter().enumerate() {
        let z = beta * f64::from(ratios[0] - ratios[index + 1]);
        let log_sigmoid = |z: f64| -(-z).exp().ln_1p();
        let expected = -(1.0 - smoothing) * log_sigmoid(z) - smoothing * log_sigmoid(-z);
        assert!((f64::from(loss) - expected).abs() < 1e-6, "{loss} {expected}");
    }
}

#[test]
fn gradient_of_a_pair_is_beta_times_the_wrong_probability() {
    let ratios = Var::new(&[1.0_f32, -1.0], &Device::Cpu).unwrap();
    let pairs = Pairs { chosen: vec![0], rejected: vec![1] };
    let loss =
        preference_losses(ratios.as_tensor(), ratios.as_tensor(), &[1, 1], &pairs, &objective(0.5, 0.0, 0.0)).unwrap();
    let gradients = loss.sum_all().unwrap().backward().unwrap();
    let gradient: Vec<f32> = gradients.get(ratios.as_tensor()).unwrap().to_vec1().unwrap();
    let wrong = 1.0 / (1.0 + 1.0_f32.exp()); // sigmoid(-z), z = 0.5 * (1 - -1)
    assert!((gradient[0] + 0.5 * wrong).abs() < 1e-6 && (gradient[1] - 0.5 * wrong).abs() < 1e-6, "{gradient:?}");
}

#[test]
fn chosen_term_is_the_answers_loss_per_token() {
    let plain = losses(&[0.0; 3], &[-6.0, -9.0, -1.0], &[4, 2, 1], &objective(0.1, 0.0, 0.0));
    let with_term = losses(&[0.0; 3], &[-6.0, -9.0, -1.0], &[4, 2, 1], &objective(0.1, 0.0, 0.5));
    for (plain, with_term) in plain.into_iter().zip(with_term) {
        assert!((with_term - plain - 0.5 * 6.0 / 4.0).abs() < 1e-6);
    }
}

#[test]
fn a_chosen_answer_without_tokens_is_refused() {
    let ratios = Tensor::zeros(2, candle_core::DType::F32, &Device::Cpu).unwrap();
    let pairs = Pairs { chosen: vec![0], rejected: vec![1] };
    assert!(preference_losses(&ratios, &ratios, &[0, 1], &pairs, &objective(0.1, 0.0, 1.0)).is_err());
    assert!(preference_losses(&ratios, &ratios, &[1, 1], &Pairs::default(), &objective(0.1, 0.0, 0.0)).is_err());
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
