//! Claims about products on the tile unit (AMX): how far they are from f32, in every form that training uses.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

use candle_core::{Device, Tensor, Var};
use rand::RngExt as _;
use topalign::kernel::{self, FrozenWeight, Product, WeightGradient};
use topalign::recipe::settings::Arithmetic;
use topalign::run::seed::Seed;

use crate::kernel::reference;

/// Sixteen bits of each factor, and eight.
const TOLERANCES: [(Arithmetic, f32); 2] = [(Arithmetic::SplitBf16, 1e-4), (Arithmetic::Bf16, 2e-2)];

fn has_tiles() -> bool {
    if !kernel::has_tiles() {
        eprintln!("skipped: this processor has no tile unit (AMX with bf16), products are f32");
    }
    kernel::has_tiles()
}

fn random(name: &str, shape: &[usize]) -> Var {
    let mut stream = Seed(7).stream(name);
    let values: Vec<f32> = (0..shape.iter().product()).map(|_| (stream.random::<f32>() - 0.5) * 2.0).collect();
    Var::from_tensor(&Tensor::from_vec(values, shape, &Device::Cpu).unwrap()).unwrap()
}

/// Largest difference, relative to the root mean square of what is right.
fn distance(found: &Tensor, right: &Tensor) -> f32 {
    let scalar = |tensor: Tensor| tensor.to_scalar::<f32>().unwrap();
    let scale = scalar(right.sqr().unwrap().mean_all().unwrap()).sqrt();
    scalar((found - right).unwrap().abs().unwrap().max_all().unwrap()) / scale
}

fn gradients(y: &Tensor, inputs: &[&Var]) -> Vec<Tensor> {
    let weights = random("weights", y.dims());
    let store = (y * weights.as_tensor()).unwrap().sum_all().unwrap().backward().unwrap();
    inputs.iter().map(|input| store.get(input).unwrap().clone()).collect()
}

fn assert_near(name: &str, inputs: &[&Var], found: &Tensor, right: &Tensor, tolerance: f32) {
    assert!(distance(found, right) < tolerance, "{name}: values differ by {}", distance(found, right));
    for (index, (found, right)) in gradients(found, inputs).iter().zip(gradients(right, inputs)).enumerate() {
        let found = distance(found, &right);
        assert!(found < tolerance, "{name}: gradient {index} differs by {found}");
    }
}

/// Whole tiles; edges on every side; more rows and a longer inner dimension than are packed at a time.
const SHAPES: [(usize, usize, usize); 5] =
    [(64, 96, 128), (33, 41, 67), (100, 70, 193), (550, 64, 100), (40, 50, 1700)];

#[test]
fn linear_layers_agree_with_f32_forward_and_backward() {
    if !has_tiles() {
        return;
    }
    for (arithmetic, tolerance) in TOLERANCES {
        for (rows, output, input) in SHAPES {
            let (x, w) = (random("x", &[rows, input]), random("w", &[output, input]));
            let product = Product { weight_gradient: WeightGradient::Needed, arithmetic };
            let found = kernel::linear(&x, &w, product).unwrap();
            let right = reference::linear(&x, &w).unwrap();
            assert_near(&format!("{arithmetic:?} {rows} {output} {input}"), &[&x, &w], &found, &right, tolerance);
        }
    }
}

#[test]
fn adapted_layers_and_the_head_agree_with_f32() {
    if !has_tiles() {
        return;
    }
    for (arithmetic, tolerance) in TOLERANCES {
        let (x, w) = (random("x", &[70, 96]), random("w", &[80, 96]));
        let (a, b) = (random("a", &[4, 96]), random("b", &[80, 4]));
        let found = kernel::adapted_linear(&x, &FrozenWeight::new(&w), &a, &b, 2.0, arithmetic).unwrap();
        let right = reference::adapted_linear(&x, &w.detach(), &a, &b, 2.0).unwrap();
        assert_near("adapted", &[&x, &a, &b], &found, &right, tolerance);
        let targets: Vec<u32> = (0..70).collect();
        for weight_gradient in [WeightGradient::Needed, WeightGradient::Frozen] {
            let product = Product { weight_gradient, arithmetic };
            let found = kernel::chosen_log_probability(&x, &w, &targets, product).unwrap();
            let right = reference::chosen_log_probability(&x, &w, &targets).unwrap();
            assert_near("head", &[&x], &found, &right, tolerance);
        }
    }
}

#[test]
fn split_factors_are_hundreds_of_times_closer_than_rounded_ones() {
    if !has_tiles() {
        return;
    }
    let (x, w) = (random("x", &[128, 256]), random("w", &[128, 256]));
    let right = reference::linear(&x, &w).unwrap();
    let [split, rounded] = TOLERANCES.map(|(arithmetic, _)| {
        let product = Product { weight_gradient: WeightGradient::Frozen, arithmetic };
        distance(&kernel::linear(&x, &w, product).unwrap(), &right)
    });
    eprintln!("largest difference from f32: split {split:.1e}, rounded {rounded:.1e}");
    assert!(split * 200.0 < rounded);
}

#[test]
fn the_same_inputs_give_the_same_bits_and_what_is_not_finite_stays_so() {
    if !has_tiles() {
        return;
    }
    let product = Product { weight_gradient: WeightGradient::Frozen, arithmetic: Arithmetic::SplitBf16 };
    let (x, w) = (random("x", &[65, 130]), random("w", &[67, 130]));
    let bits = |x: &Tensor| {
        let y = kernel::linear(x, &w, product).unwrap();
        y.flatten_all().unwrap().to_vec1::<f32>().unwrap().into_iter().map(f32::to_bits).collect::<Vec<_>>()
    };
    assert_eq!(bits(&x), bits(&x));
    for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut values = x.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        values[3] = value;
        let x = Tensor::from_vec(values, (65, 130), &Device::Cpu).unwrap();
        let found = bits(&x);
        assert!(
            found[..67].iter().all(|&bits| !f32::from_bits(bits).is_finite()),
            "{value} in a row reaches all of it"
        );
        assert!(found[67..].iter().all(|&bits| f32::from_bits(bits).is_finite()), "and no other row");
    }
}
