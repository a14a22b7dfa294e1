//! Claims about `kernel`: every operation agrees with its definition, forward and backward, on the CPU's path and on that of GPUs.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]
#![allow(clippy::single_range_in_vec_init, reason = "a list of ranges that holds one is meant")]
#![allow(clippy::many_single_char_names, reason = "x, w, a, b, q, k, v are the names of the formulas")]

#[path = "kernel/reference.rs"]
pub mod reference;

use std::sync::Arc;

use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{DType, Device, Tensor, Var};
use rand::RngExt as _;
use topalign::device::{Compute, NumberFormat};
use topalign::kernel::composed::on_composed_path;
use topalign::kernel::{self, AttentionLayout, FrozenWeight, RotaryTable, WeightGradient};
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

/// Both paths of an operation: the CPU's fused one, and the composed one of GPUs.
fn on_both_paths(mut work: impl FnMut(&'static str)) {
    work("fused");
    on_composed_path(|| work("composed"));
}

/// Compares values, and gradients of a random weighting of the output, for each input, on both paths.
fn assert_same(name: &str, inputs: &[&Var], operation: impl Fn() -> Tensor, right: &Tensor) {
    let weights = random(&format!("{name}/weights"), right.dims());
    let gradient = |y: &Tensor| (y * weights.as_tensor()).unwrap().sum_all().unwrap().backward().unwrap();
    let right_gradients = gradient(right);
    on_both_paths(|path| {
        let found = operation();
        assert!(distance(&found, right) < 2e-5, "{name}, {path}: values differ by {}", distance(&found, right));
        let found = gradient(&found);
        for (index, input) in inputs.iter().enumerate() {
            let a = found.get(input).unwrap_or_else(|| panic!("{name}, {path}: input {index} has no gradient"));
            let apart = distance(a, right_gradients.get(input).expect("gradient of the definition"));
            assert!(apart < 5e-5, "{name}, {path}: gradient {index} differs by {apart}");
        }
    });
}

#[test]
fn linear_agrees_with_matmul() {
    let (x, w) = (random("x", &[37, 24]), random("w", &[19, 24]));
    let right = reference::linear(&x, &w).unwrap();
    assert_same("linear", &[&x, &w], || kernel::linear(&x, &w, WeightGradient::Needed).unwrap(), &right);
}

#[test]
fn a_frozen_weight_gets_no_gradient() {
    let (x, w) = (random("x", &[5, 8]), random("w", &[3, 8]));
    on_both_paths(|path| {
        let y = kernel::linear(&x, &w, WeightGradient::Frozen).unwrap();
        let gradients = y.sum_all().unwrap().backward().unwrap();
        assert!(gradients.get(&w).is_none(), "{path}");
        assert!(gradients.get(&x).is_some(), "{path}");
    });
}

#[test]
fn adapted_linear_agrees_with_its_parts() {
    let (x, w) = (random("x", &[33, 24]), random("w", &[40, 24]));
    let (a, b) = (random("a", &[4, 24]), random("b", &[40, 4]));
    let weight = FrozenWeight::new(&w);
    let right = reference::adapted_linear(&x, &w.as_tensor().detach(), &a, &b, 2.0).unwrap();
    let adapted = || kernel::adapted_linear(&x, &weight, &a, &b, 2.0, Arithmetic::F32).unwrap();
    assert_same("adapted", &[&x, &a, &b], adapted, &right);
}

#[test]
fn dropout_on_an_adapter_agrees_with_its_factors() {
    let (x, w) = (random("x", &[33, 24]), random("w", &[40, 24]));
    let (a, b) = (random("a", &[4, 24]), random("b", &[40, 4]));
    let mask = kernel::Dropout::new(0.4, Seed(3), 2, (0..33).collect()).mask("module", 24);
    let factors = mask.factors(&Device::Cpu).unwrap();
    let dropped = factors.flatten_all().unwrap().to_vec1::<f32>().unwrap();
    assert!(dropped.iter().filter(|factor| **factor == 0.0).count() > 200, "a share of the input is left out");
    let weight = FrozenWeight::new(&w);
    let frozen = w.as_tensor().detach();
    let right = reference::adapted_linear_with_dropout(&x, &frozen, &a, &b, 2.0, &factors).unwrap();
    let adapted =
        || kernel::adapted_linear_with_dropout(&x, &weight, (&a, &b), 2.0, Arithmetic::F32, mask.clone()).unwrap();
    assert_same("dropout", &[&x, &a, &b], adapted, &right);
}

#[test]
fn a_bias_agrees_with_its_definition_and_a_frozen_one_gets_no_gradient() {
    let (x, bias) = (random("x", &[70, 48]), random("bias", &[48]));
    let right = reference::add_bias(&x, &bias).unwrap();
    assert_same("bias", &[&x, &bias], || kernel::add_bias(&x, &bias, WeightGradient::Needed).unwrap(), &right);
    on_both_paths(|path| {
        let frozen = kernel::add_bias(&x, &bias, WeightGradient::Frozen).unwrap();
        assert!(frozen.sum_all().unwrap().backward().unwrap().get(&bias).is_none(), "{path}");
        assert!(kernel::add_bias(&x, &random("narrow", &[47]), WeightGradient::Needed).is_err(), "{path}");
    });
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
        let right = reference::linear(&x, &wide).unwrap();
        assert_same("frozen", &[&x], || kernel::frozen_linear(&x, &weight, Arithmetic::F32).unwrap(), &right);
        let (a, b) = (random("a", &[3, 64]), random("b", &[24, 3]));
        let right = reference::adapted_linear(&x, &wide, &a, &b, 2.0).unwrap();
        let adapted = || kernel::adapted_linear(&x, &weight, &a, &b, 2.0, Arithmetic::F32).unwrap();
        assert_same("adapted", &[&x, &a, &b], adapted, &right);
    }
    on_both_paths(|path| {
        let narrow = FrozenWeight::new(&random("w", &[24, 63]));
        assert!(kernel::frozen_linear(&x, &narrow, Arithmetic::F32).is_err(), "{path}");
    });
}

#[test]
fn a_frozen_weight_is_moved_in_the_number_format_of_the_device_unless_it_is_smaller() {
    let weight = random("w", &[24, 64]);
    let moved = |weight: &FrozenWeight, format| weight.moved(&Compute { device: Device::Cpu, format }).unwrap();
    let wide = FrozenWeight::new(&weight);
    let half = FrozenWeight::new(&weight.to_dtype(DType::BF16).unwrap());
    let blocks = FrozenWeight::Blocks(Arc::new(QTensor::quantize(weight.as_tensor(), GgmlDType::Q8_0).unwrap()));
    for (held, f32_bytes, bf16_bytes) in [(&wide, 4, 2), (&half, 2, 2)] {
        assert_eq!(moved(held, NumberFormat::F32).bytes(), 24 * 64 * f32_bytes);
        assert_eq!(moved(held, NumberFormat::Bf16).bytes(), 24 * 64 * bf16_bytes);
    }
    assert_eq!(moved(&blocks, NumberFormat::Bf16).bytes(), blocks.bytes());
    let apart = distance(&moved(&wide, NumberFormat::Bf16).widened().unwrap(), &weight);
    assert!(apart > 0.0 && apart < 4e-3, "{apart}");
}

#[test]
fn rms_norm_agrees_with_its_definition() {
    let (x, w) = (random("x", &[70, 48]), random("w", &[48]));
    let right = reference::rms_norm(&x, &w, 1e-5).unwrap();
    assert_same("norm", &[&x, &w], || kernel::rms_norm(&x, &w, 1e-5, WeightGradient::Needed).unwrap(), &right);
}

#[test]
fn swiglu_agrees_with_its_definition() {
    let (gate, up) = (random("gate", &[50, 400]), random("up", &[50, 400]));
    let right = reference::swiglu(&gate, &up).unwrap();
    assert_same("swiglu", &[&gate, &up], || kernel::swiglu(&gate, &up).unwrap(), &right);
}

#[test]
fn rotary_agrees_with_its_definition() {
    let x = random("x", &[6, 32]);
    let (positions, frequencies) = ([0, 1, 2, 9, 3, 4], [1.0, 0.3, 0.1, 0.01]);
    let table = RotaryTable::new(&positions, &frequencies);
    let right = reference::rotary(&x, &positions, &frequencies).unwrap();
    assert_same("rotary", &[&x], || kernel::rotary(&x, &table).unwrap(), &right);
}

/// Two trees: a prompt with three answers, one of them with a nested continuation, then a lone sequence longer than a block.
fn runs() -> Vec<reference::Run> {
    vec![
        (0..150, vec![]),
        (150..170, vec![0..150]),
        (170..171, vec![0..150]),
        (171..180, vec![0..150, 150..170]),
        (180..460, vec![]),
    ]
}

/// More tokens than a tile has queries, a tree across a tile's edge, and a sequence too long for a tile of full height.
fn many_tiles() -> Vec<reference::Run> {
    vec![(0..480, vec![]), (480..540, vec![0..480]), (540..600, vec![0..480]), (600..2000, vec![])]
}

fn layout() -> Arc<AttentionLayout> {
    Arc::new(AttentionLayout::new(runs()).unwrap())
}

#[test]
fn tree_attention_agrees_with_a_dense_mask() {
    for runs in [runs(), many_tiles()] {
        let tokens = runs.last().unwrap().0.end;
        let (q, k, v) = (random("q", &[tokens, 24]), random("k", &[tokens, 8]), random("v", &[tokens, 8]));
        let layout = Arc::new(AttentionLayout::new(runs.clone()).unwrap());
        let dense = reference::attention(&q, &k, &v, &runs, 6, 2).unwrap();
        let attention = || kernel::attention(&q, &k, &v, &layout, 6, 2).unwrap();
        assert_same("attention", &[&q, &k, &v], attention, &dense);
    }
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
    let right = reference::chosen_log_probability(&hidden, &head, &targets).unwrap();
    let found = |gradient| kernel::chosen_log_probability(&hidden, &head, &targets, gradient).unwrap();
    assert_same("trained head", &[&hidden, &head], || found(WeightGradient::Needed), &right);
    assert_same("frozen head", &[&hidden], || found(WeightGradient::Frozen), &right);
}

#[test]
fn logits_that_do_not_fit_together_are_computed_in_chunks_of_rows() {
    let vocabulary = 200_003;
    let compute = Compute { device: Device::Cpu, format: NumberFormat::Bf16 };
    let together = kernel::rows_together(vocabulary, &compute);
    let rows = together + 9;
    let (hidden, head) = (random("hidden", &[rows, 4]), random("head", &[vocabulary, 4]));
    let targets: Vec<u32> = (0..rows as u32).map(|row| (row * 977) % vocabulary as u32).collect();
    let found = || kernel::chosen_log_probability(&hidden, &head, &targets, WeightGradient::Needed).unwrap();
    let parts: Vec<Tensor> = (0..rows)
        .step_by(100)
        .map(|start| {
            let count = 100.min(rows - start);
            let hidden = hidden.narrow(0, start, count).unwrap();
            reference::chosen_log_probability(&hidden, &head, &targets[start..start + count]).unwrap()
        })
        .collect();
    let right = Tensor::cat(&parts, 0).unwrap();
    on_composed_path(|| {
        let found = found();
        assert!(distance(&found, &right) < 2e-5);
        let gradients = |y: &Tensor| y.sqr().unwrap().sum_all().unwrap().backward().unwrap();
        let (found, right) = (gradients(&found), gradients(&right));
        for input in [&hidden, &head] {
            let apart = distance(found.get(input).unwrap(), right.get(input).unwrap());
            assert!(apart < 5e-5, "{apart}");
        }
    });
}

#[test]
fn a_target_outside_the_vocabulary_is_an_error() {
    let (hidden, head) = (random("hidden", &[2, 4]), random("head", &[10, 4]));
    on_both_paths(|path| {
        assert!(kernel::chosen_log_probability(&hidden, &head, &[1, 10], WeightGradient::Needed).is_err(), "{path}");
    });
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
    on_both_paths(|_| assert_every_gradient());
}

fn assert_every_gradient() {
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
    on_both_paths(|path| {
        for y in [
            kernel::linear(&x, &w, WeightGradient::Needed).unwrap(),
            kernel::adapted_linear(&x, &FrozenWeight::new(&w), &a, &b, 1.0, Arithmetic::F32).unwrap(),
        ] {
            let gradients = y.sum_all().unwrap().backward().unwrap();
            assert!(gradients.get(&x).is_none(), "{path}");
            assert!(
                gradients.get(&w).is_some() || gradients.get(&a).is_some() && gradients.get(&b).is_some(),
                "{path}"
            );
        }
    });
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
    on_both_paths(|path| {
        let y = kernel::linear(&x, &w, WeightGradient::Needed).unwrap();
        assert!(distance(&y, &reference::linear(&x, &w).unwrap()) < 1e-5, "{path}");
    });
    assert!(kernel::linear(&x, &random("w", &[8, 3]).t().unwrap(), WeightGradient::Needed).is_err());
}

#[test]
fn shapes_that_do_not_fit_are_errors() {
    on_both_paths(|_| assert_misfits());
}

fn assert_misfits() {
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
    on_both_paths(|path| assert!(run() == run(), "{path}"));
}

/// What an operation computes from inputs, with the weights' gradients where it has some.
type Operation<'a> = (&'a str, Vec<Var>, Box<dyn Fn(&[Tensor]) -> Tensor + 'a>);

#[test]
fn activations_in_bf16_give_results_and_f32_gradients_of_weights_within_its_rounding() {
    let layout = layout();
    let table = RotaryTable::new(&(0..460).collect::<Vec<u32>>(), &[1.0, 0.1, 0.01, 0.001]);
    let weight = FrozenWeight::new(&random("w", &[40, 24]));
    let targets: Vec<u32> = (0..460).map(|row| (row * 7) % 101).collect();
    // The first inputs are activations, in bf16; the last ones weights, in f32.
    let operations: Vec<(usize, Operation<'_>)> = vec![
        (
            1,
            (
                "linear",
                vec![random("x", &[460, 24]), random("v", &[19, 24])],
                Box::new(|t| kernel::linear(&t[0], &t[1], WeightGradient::Needed).unwrap()),
            ),
        ),
        (
            1,
            (
                "adapted",
                vec![random("x", &[460, 24]), random("a", &[4, 24]), random("b", &[40, 4])],
                Box::new(|t| kernel::adapted_linear(&t[0], &weight, &t[1], &t[2], 2.0, Arithmetic::F32).unwrap()),
            ),
        ),
        (
            1,
            (
                "bias",
                vec![random("x", &[460, 24]), random("bias", &[24])],
                Box::new(|t| kernel::add_bias(&t[0], &t[1], WeightGradient::Needed).unwrap()),
            ),
        ),
        (
            1,
            (
                "norm",
                vec![random("x", &[460, 24]), random("scale", &[24])],
                Box::new(|t| kernel::rms_norm(&t[0], &t[1], 1e-5, WeightGradient::Needed).unwrap()),
            ),
        ),
        (
            2,
            (
                "swiglu",
                vec![random("gate", &[460, 24]), random("up", &[460, 24])],
                Box::new(|t| kernel::swiglu(&t[0], &t[1]).unwrap()),
            ),
        ),
        (1, ("rotary", vec![random("x", &[460, 24])], Box::new(|t| kernel::rotary(&t[0], &table).unwrap()))),
        (
            3,
            (
                "attention",
                vec![random("q", &[460, 48]), random("k", &[460, 16]), random("v", &[460, 16])],
                Box::new(|t| kernel::attention(&t[0], &t[1], &t[2], &layout, 6, 2).unwrap()),
            ),
        ),
        (
            1,
            (
                "head",
                vec![random("hidden", &[460, 16]), random("head", &[101, 16])],
                Box::new(|t| kernel::chosen_log_probability(&t[0], &t[1], &targets, WeightGradient::Needed).unwrap()),
            ),
        ),
    ];
    for (activations, (name, inputs, operation)) in operations {
        let right: Vec<Tensor> = inputs.iter().map(|input| input.as_tensor().clone()).collect();
        let mut half = right.clone();
        for input in &mut half[..activations] {
            *input = input.to_dtype(DType::BF16).unwrap();
        }
        let (right, found) = (operation(&right), operation(&half));
        let kept = if name == "head" { DType::F32 } else { DType::BF16 };
        assert_eq!(found.dtype(), kept, "{name}");
        let found = found.to_dtype(DType::F32).unwrap();
        assert!(distance(&found, &right) < 2e-2, "{name}: values differ by {}", distance(&found, &right));
        let weights = random(&format!("{name}/weights"), right.dims());
        let gradients = |y: &Tensor| (y * weights.as_tensor()).unwrap().sum_all().unwrap().backward().unwrap();
        let (right, found) = (gradients(&right), gradients(&found));
        for (index, input) in inputs.iter().enumerate() {
            let (found, right) = (found.get(input).unwrap(), right.get(input).unwrap());
            assert_eq!(found.dtype(), DType::F32, "{name}: gradient {index}");
            assert!(distance(found, right) < 4e-2, "{name}: gradient {index} differs by {}", distance(found, right));
        }
    }
}
