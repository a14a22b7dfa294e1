//! Claims about `kernel`: every fused operation agrees with the composed one, forward and backward.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]
#![allow(clippy::single_range_in_vec_init, reason = "a list of ranges that holds one is meant")]
#![allow(clippy::many_single_char_names, reason = "x, w, a, b, q, k, v are the names of the formulas")]

use std::sync::Arc;

use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{DType, Device, Tensor, Var};
use rand::RngExt as _;
use topalign::kernel::{self, AttentionLayout, FrozenWeight, RotaryTable, WeightGradient, composed};
use topalign::recipe::settings::Arithmetic;
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
    let fused = kernel::adapted_linear(&x, &FrozenWeight::new(&w), &a, &b, 2.0, Arithmetic::F32).unwrap();
    let parts = composed::adapted_linear(&x, &w.as_tensor().detach(), &a, &b, 2.0).unwrap();
    assert_same("adapted", &[&x, &a, &b], &fused, &parts);
}

#[test]
fn a_bias_agrees_with_its_definition_and_a_frozen_one_gets_no_gradient() {
    let (x, bias) = (random("x", &[70, 48]), random("bias", &[48]));
    let fused = kernel::add_bias(&x, &bias, WeightGradient::Needed).unwrap();
    assert_same("bias", &[&x, &bias], &fused, &composed::add_bias(&x, &bias).unwrap());
    let frozen = kernel::add_bias(&x, &bias, WeightGradient::Frozen).unwrap();
    assert!(frozen.sum_all().unwrap().backward().unwrap().get(&bias).is_none());
    assert!(kernel::add_bias(&x, &random("narrow", &[47]), WeightGradient::Needed).is_err());
}

#[test]
fn frozen_weights_multiply_as_their_wide_values_do_however_they_are_held() {
    let (x, weight) = (random("x", &[70, 64]), random("w", &[24, 64]));
    let blocks = QTensor::quantize(weight.as_tensor(), GgmlDType::Q8_0).unwrap();
    let held = [
        FrozenWeight::new(&weight),
        FrozenWeight::new(&weight.to_dtype(DType::BF16).unwrap()),
        FrozenWeight::Blocks(Arc::new(blocks)),
    ];
    let bytes: Vec<usize> = held.iter().map(FrozenWeight::bytes).collect();
    assert_eq!(bytes, [24 * 64 * 4, 24 * 64 * 2, 24 * 64 * 34 / 32]);
    for weight in held {
        let wide = weight.widened().unwrap();
        let fused = kernel::frozen_linear(&x, &weight, Arithmetic::F32).unwrap();
        assert_same("frozen", &[&x], &fused, &composed::linear(&x, &wide).unwrap());
        let (a, b) = (random("a", &[3, 64]), random("b", &[24, 3]));
        let fused = kernel::adapted_linear(&x, &weight, &a, &b, 2.0, Arithmetic::F32).unwrap();
        let parts = composed::adapted_linear(&x, &wide, &a, &b, 2.0).unwrap();
        assert_same("adapted", &[&x, &a, &b], &fused, &parts);
    }
    assert!(kernel::frozen_linear(&x, &FrozenWeight::new(&random("w", &[24, 63])), Arithmetic::F32).is_err());
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

/// Central differences of a random weighting of the output, for each value of each input.
fn assert_finite_differences(name: &str, inputs: &[&Var], operation: &dyn Fn(&[Tensor]) -> Tensor) {
    const STEP: f32 = 1e-2;
    let originals: Vec<Tensor> = inputs.iter().map(|input| input.as_tensor().clone()).collect();
    let output = operation(&originals);
    let weights = random(&format!("{name}/weights"), output.dims());
    let gradients = (output * weights.as_tensor()).unwrap().sum_all().unwrap().backward().unwrap();
    let flat = |tensor: &Tensor| -> Vec<f32> { tensor.flatten_all().unwrap().to_vec1().unwrap() };
    // Summed in f64, so that only the operation's own rounding disturbs the difference.
    let loss = |inputs: &[Tensor]| -> f64 {
        flat(&operation(inputs)).iter().zip(flat(&weights)).map(|(y, w)| f64::from(*y) * f64::from(w)).sum()
    };
    for (index, input) in inputs.iter().enumerate() {
        let analytic = flat(gradients.get(input).expect("gradient"));
        let values = flat(input);
        let scale = analytic.iter().fold(0.1_f32, |largest, value| largest.max(value.abs()));
        for at in 0..values.len() {
            let shifted = |by: f32| {
                let mut values = values.clone();
                values[at] += by;
                let mut inputs = originals.iter().map(Tensor::detach).collect::<Vec<_>>();
                inputs[index] = Tensor::from_vec(values, input.shape(), &Device::Cpu).unwrap();
                loss(&inputs)
            };
            let numeric = ((shifted(STEP) - shifted(-STEP)) / f64::from(2.0 * STEP)) as f32;
            let difference = (numeric - analytic[at]).abs() / scale;
            assert!(difference < 3e-3, "{name}, input {index}, value {at}: {numeric} and {}", analytic[at]);
        }
    }
}

#[test]
fn every_gradient_agrees_with_finite_differences() {
    let (x, w) = (random("x", &[5, 8]), random("w", &[6, 8]));
    assert_finite_differences("linear", &[&x, &w], &|t| kernel::linear(&t[0], &t[1], WeightGradient::Needed).unwrap());
    let (a, b) = (random("a", &[2, 8]), random("b", &[6, 2]));
    assert_finite_differences("adapted", &[&x, &a, &b], &|t| {
        kernel::adapted_linear(&t[0], &FrozenWeight::new(&w), &t[1], &t[2], 1.5, Arithmetic::F32).unwrap()
    });
    let scale = random("scale", &[8]);
    assert_finite_differences("norm", &[&x, &scale], &|t| {
        kernel::rms_norm(&t[0], &t[1], 1e-5, WeightGradient::Needed).unwrap()
    });
    let up = random("up", &[5, 8]);
    assert_finite_differences("swiglu", &[&x, &up], &|t| kernel::swiglu(&t[0], &t[1]).unwrap());
    let table = RotaryTable::new(&[0, 1, 2, 9, 3], &[1.0, 0.2]);
    assert_finite_differences("rotary", &[&x], &|t| kernel::rotary(&t[0], &table).unwrap());
    let (k, v) = (random("k", &[5, 4]), random("v", &[5, 4]));
    let layout = Arc::new(AttentionLayout::new(vec![(0..2, vec![]), (2..4, vec![0..2]), (4..5, vec![0..2])]).unwrap());
    assert_finite_differences("attention", &[&x, &k, &v], &|t| {
        kernel::attention(&t[0], &t[1], &t[2], &layout, 4, 2).unwrap()
    });
    let (hidden, head) = (random("hidden", &[4, 6]), random("head", &[11, 6]));
    for weight_gradient in [WeightGradient::Needed, WeightGradient::Frozen] {
        let operation = |t: &[Tensor]| {
            let head = t.get(1).unwrap_or(head.as_tensor());
            kernel::chosen_log_probability(&t[0], head, &[1, 5, 10, 0], weight_gradient).unwrap()
        };
        let inputs: &[&Var] = if weight_gradient == WeightGradient::Needed { &[&hidden, &head] } else { &[&hidden] };
        assert_finite_differences("head", inputs, &operation);
    }
}

#[test]
fn an_input_that_nothing_trains_gets_no_gradient() {
    let (x, w, a, b) =
        (random("x", &[5, 8]).detach(), random("w", &[3, 8]), random("a", &[2, 8]), random("b", &[3, 2]));
    for y in [
        kernel::linear(&x, &w, WeightGradient::Needed).unwrap(),
        kernel::adapted_linear(&x, &FrozenWeight::new(&w), &a, &b, 1.0, Arithmetic::F32).unwrap(),
    ] {
        let gradients = y.sum_all().unwrap().backward().unwrap();
        assert!(gradients.get(&x).is_none());
        assert!(gradients.get(&w).is_some() || gradients.get(&a).is_some() && gradients.get(&b).is_some());
    }
}

#[test]
fn few_rows_and_many_give_the_same_product() {
    let (x, w) = (random("x", &[40, 48]), random("w", &[1100, 48]));
    let whole = kernel::linear(&x, &w, WeightGradient::Needed).unwrap();
    for rows in [1, 2, 5, 16, 17] {
        let part = kernel::linear(&x.narrow(0, 0, rows).unwrap(), &w, WeightGradient::Needed).unwrap();
        assert!(distance(&part, &whole.narrow(0, 0, rows).unwrap()) < 1e-5, "{rows} rows");
    }
}

#[test]
fn inputs_that_are_not_contiguous_are_handled_or_refused() {
    let (x, w) = (random("x", &[8, 5]).t().unwrap(), random("w", &[3, 8]));
    let y = kernel::linear(&x, &w, WeightGradient::Needed).unwrap();
    assert!(distance(&y, &composed::linear(&x, &w).unwrap()) < 1e-5);
    assert!(kernel::linear(&x, &random("w", &[8, 3]).t().unwrap(), WeightGradient::Needed).is_err());
}

#[test]
fn shapes_that_do_not_fit_are_errors() {
    let (x, w) = (random("x", &[5, 8]), random("w", &[3, 9]));
    assert!(kernel::linear(&x, &w, WeightGradient::Needed).is_err());
    assert!(
        kernel::adapted_linear(
            &x,
            &FrozenWeight::new(&w),
            &random("a", &[2, 8]),
            &random("b", &[3, 2]),
            1.0,
            Arithmetic::F32
        )
        .is_err()
    );
    assert!(kernel::rms_norm(&x, &random("scale", &[9]), 1e-5, WeightGradient::Needed).is_err());
    assert!(kernel::swiglu(&x, &random("up", &[8, 5])).is_err());
    assert!(kernel::rotary(&x, &RotaryTable::new(&[0, 1], &[1.0, 0.1])).is_err());
    let layout = Arc::new(AttentionLayout::new(vec![(0..4, vec![])]).unwrap());
    assert!(kernel::attention(&x, &x, &x, &layout, 2, 2).is_err());
    assert!(kernel::attention(&x, &x, &x, &layout, 3, 2).is_err());
    assert!(kernel::chosen_log_probability(&x, &w, &[0; 5], WeightGradient::Needed).is_err());
}

#[test]
fn another_dtype_takes_the_composed_path() {
    let double = |name: &str, shape: &[usize]| random(name, shape).to_dtype(DType::F64).unwrap();
    let (q, k, v) = (double("q", &[460, 48]), double("k", &[460, 16]), double("v", &[460, 16]));
    let exact = kernel::attention(&q, &k, &v, &layout(), 6, 2).unwrap();
    assert_eq!(exact.dtype(), DType::F64);
    let single = |x: &Tensor| x.to_dtype(DType::F32).unwrap();
    let fused = kernel::attention(&single(&q), &single(&k), &single(&v), &layout(), 6, 2).unwrap();
    assert!(distance(&fused, &single(&exact)) < 1e-5);
}

#[test]
fn the_same_inputs_give_the_same_bits() {
    let (q, k, v) = (random("q", &[460, 48]), random("k", &[460, 16]), random("v", &[460, 16]));
    let run = || {
        let y = kernel::attention(&q, &k, &v, &layout(), 6, 2).unwrap();
        let gradients = y.sqr().unwrap().sum_all().unwrap().backward().unwrap();
        [&q, &k, &v].map(|input| gradients.get(input).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap())
    };
    assert_eq!(run(), run());
}
