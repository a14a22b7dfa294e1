//! Claims about `kernel`: every fused operation agrees with the composed one, forward and backward.

use std::sync::Arc;

use candle_core::{Device, Tensor, Var};
use rand::RngExt as _;
use topalign::kernel::{self, AttentionLayout, RotaryTable, WeightGradient, composed};
use topalign::run::seed::Seed;

fn random(name: &str, shape: &[usize]) -> Var {
    let mut stream = Seed(7).stream(name);
    let count = shape.iter().product();
    let values: Vec<f32> = (0..count).map(|_| (stream.random::<f32>() - 0.5) * 2.0).collect();
    Var::from_tensor(&Tensor::from_vec(values, shape, &Device::Cpu).unwrap()).unwrap()
}

/// Largest difference relative to the largest value.
fn distance(a: &Tensor, b: &Tensor) -> f32 {
    let scale = b.abs().unwrap().max_all().unwrap().to_scalar::<f32>().unwrap().max(1e-6);
    (a - b).unwrap().abs().unwrap().max_all().unwrap().to_scalar::<f32>().unwrap() / scale
}

/// Compares values, and gradients of a random weighting of the output, for each input.
fn assert_same(name: &str, inputs: &[&Var], fused: &Tensor, composed: &Tensor) {
    assert!(distance(fused, composed) < 2e-5, "{name}: values differ by {}", distance(fused, composed));
    let weights = random(&format!("{name}/weights"), fused.dims());
    let gradient = |y: &Tensor| (y * weights.as_tensor()).unwrap().sum_all().unwrap().backward().unwrap();
    let (fused, composed) = (gradient(fused), gradient(composed));
    for (index, input) in inputs.iter().enumerate() {
        let (a, b) = (fused.get(input).expect("fused gradient"), composed.get(input).expect("composed gradient"));
        assert!(distance(a, b) < 5e-5, "{name}: gradient {index} differs by {}", distance(a, b));
    }
}

#[test]
fn linear_agrees_with_matmul() {
    let (x, w) = (random("x", &[37, 24]), random("w", &[19, 24]));
    let fused = kernel::linear(&x, &w, WeightGradient::Needed).unwrap();
    assert_same("linear", &[&x, &w], &fused, &composed::linear(&x, &w).unwrap());
}

#[test]
fn a_frozen_weight_gets_no_gradient() {
    let (x, w) = (random("x", &[5, 8]), random("w", &[3, 8]));
    let y = kernel::linear(&x, &w, WeightGradient::Frozen).unwrap();
    let gradients = y.sum_all().unwrap().backward().unwrap();
    assert!(gradients.get(&w).is_none());
    assert!(gradients.get(&x).is_some());
}

#[test]
fn adapted_linear_agrees_with_its_parts() {
    let (x, w) = (random("x", &[33, 24]), random("w", &[40, 24]));
    let (a, b) = (random("a", &[4, 24]), random("b", &[40, 4]));
    let fused = kernel::adapted_linear(&x, &w, &a, &b, 2.0).unwrap();
    let parts = composed::adapted_linear(&x, &w.as_tensor().detach(), &a, &b, 2.0).unwrap();
    assert_same("adapted", &[&x, &a, &b], &fused, &parts);
}

#[test]
fn rms_norm_agrees_with_its_definition() {
    let (x, w) = (random("x", &[70, 48]), random("w", &[48]));
    let fused = kernel::rms_norm(&x, &w, 1e-5, WeightGradient::Needed).unwrap();
    assert_same("norm", &[&x, &w], &fused, &composed::rms_norm(&x, &w, 1e-5).unwrap());
}

#[test]
fn swiglu_agrees_with_its_definition() {
    let (gate, up) = (random("gate", &[50, 400]), random("up", &[50, 400]));
    assert_same("swiglu", &[&gate, &up], &kernel::swiglu(&gate, &up).unwrap(), &composed::swiglu(&gate, &up).unwrap());
}

#[test]
fn rotary_agrees_with_its_definition() {
    let x = random("x", &[6, 32]);
    let table = RotaryTable::new(&[0, 1, 2, 9, 3, 4], &[1.0, 0.3, 0.1, 0.01]);
    assert_same("rotary", &[&x], &kernel::rotary(&x, &table).unwrap(), &composed::rotary(&x, &table).unwrap());
}

/// Two trees: a prompt with three answers, one of them with a nested continuation, then a lone sequence longer than a block.
fn layout() -> Arc<AttentionLayout> {
    let runs = vec![
        (0..150, vec![]),
        (150..170, vec![0..150]),
        (170..171, vec![0..150]),
        (171..180, vec![0..150, 150..170]),
        (180..460, vec![]),
    ];
    Arc::new(AttentionLayout::new(runs).unwrap())
}

#[test]
fn tree_attention_agrees_with_a_dense_mask() {
    let (q, k, v) = (random("q", &[460, 48]), random("k", &[460, 16]), random("v", &[460, 16]));
    let layout = layout();
    let fused = kernel::attention(&q, &k, &v, &layout, 6, 2).unwrap();
    let dense = composed::attention(&q, &k, &v, &layout, 6, 2).unwrap();
    assert_same("attention", &[&q, &k, &v], &fused, &dense);
}

#[test]
fn a_layout_with_a_gap_or_a_look_ahead_is_refused() {
    assert!(AttentionLayout::new(vec![(0..4, vec![]), (5..6, vec![])]).is_err());
    assert!(AttentionLayout::new(vec![(0..4, vec![]), (4..6, vec![2..5])]).is_err());
}

#[test]
fn chosen_log_probability_agrees_for_trained_and_frozen_heads() {
    let (hidden, head) = (random("hidden", &[300, 16]), random("head", &[101, 16]));
    let targets: Vec<u32> = (0..300).map(|row| (row * 7) % 101).collect();
    let reference = composed::chosen_log_probability(&hidden, &head, &targets).unwrap();
    let trained = kernel::chosen_log_probability(&hidden, &head, &targets, WeightGradient::Needed).unwrap();
    assert_same("trained head", &[&hidden, &head], &trained, &reference);
    let frozen = kernel::chosen_log_probability(&hidden, &head, &targets, WeightGradient::Frozen).unwrap();
    assert_same("frozen head", &[&hidden], &frozen, &reference);
}

#[test]
fn a_target_outside_the_vocabulary_is_an_error() {
    let (hidden, head) = (random("hidden", &[2, 4]), random("head", &[10, 4]));
    assert!(kernel::chosen_log_probability(&hidden, &head, &[1, 10], WeightGradient::Needed).is_err());
}

#[test]
fn gradients_agree_with_finite_differences() {
    let (x, w) = (random("x", &[3, 8]), random("w", &[8]));
    let loss = |x: &Tensor| {
        let normed = kernel::rms_norm(x, &w, 1e-5, WeightGradient::Needed).unwrap();
        let gated = kernel::swiglu(&normed, x).unwrap();
        kernel::chosen_log_probability(&gated, &random("head", &[11, 8]), &[1, 5, 10], WeightGradient::Needed)
            .unwrap()
            .sum_all()
            .unwrap()
    };
    let gradients = loss(&x).backward().unwrap();
    let analytic: Vec<f32> = gradients.get(&x).unwrap().flatten_all().unwrap().to_vec1().unwrap();
    let values: Vec<f32> = x.flatten_all().unwrap().to_vec1().unwrap();
    for index in 0..values.len() {
        let shifted = |by: f32| {
            let mut values = values.clone();
            values[index] += by;
            f64::from(loss(&Tensor::from_vec(values, (3, 8), &Device::Cpu).unwrap()).to_scalar::<f32>().unwrap())
        };
        let numeric = (shifted(1e-2) - shifted(-1e-2)) / 2e-2;
        assert!((numeric - f64::from(analytic[index])).abs() < 5e-3, "{index}: {numeric} {}", analytic[index]);
    }
}
