//! Activations computed again, layer by layer.

use topalign::model::Trainable;
use topalign::recipe::settings::{LoraSettings, Share};
use topalign::token::{Packed, Tree, pack};
use topalign::train::{self, Activations, DecoderPolicy, Job, Pass, Policy as _, memory};

use super::decoder::{folders, job, log, lora, policy, sft_settings, without_time};
use super::tiny;

fn packed() -> Packed {
    let tree = |first: u32| Tree {
        row_ids: vec![String::new()],
        prompt: vec![first, 11, 12, 13],
        answers: vec![vec![14, 15, 16, 2], vec![17, 2]],
    };
    pack(&[&tree(20), &tree(30)])
}

fn gradients(policy: &DecoderPolicy) -> (f32, Vec<(String, Vec<f32>)>) {
    let mut value = 0.0;
    let pass = Pass::Training { step: 3, units: &[0, 1] };
    let gradients = policy.gradients(&packed(), pass, &mut |values| {
        let loss = values.sqr()?.mean_all()?;
        value = loss.to_scalar::<f32>()?;
        Ok(loss)
    });
    let gradients = gradients.unwrap();
    let flat = |tensor: &candle_core::Tensor| tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap();
    let named = policy.parameters().iter();
    (value, named.map(|(name, var)| (name.clone(), flat(gradients.get(var.as_tensor()).unwrap()))).collect())
}

#[test]
fn recomputing_gives_the_same_loss_and_gradients_for_every_weight_and_for_adapters_with_dropout() {
    let folders = folders();
    let dropping = LoraSettings { dropout: Share::try_from(0.3).unwrap(), ..lora() };
    for trainable in [Trainable::Full, Trainable::Lora(lora()), Trainable::Lora(dropping)] {
        let start = || {
            let policy = policy(&folders.model, &trainable);
            for (name, parameter) in policy.parameters() {
                if name.ends_with("lora_B.weight") {
                    parameter.set(&(parameter.ones_like().unwrap() * 0.05).unwrap()).unwrap();
                }
            }
            policy
        };
        let (kept, recomputed) = (start(), start().with_memory_limit(Some(1)));
        assert_eq!(kept.activations(&packed()), Activations::Kept);
        assert_eq!(recomputed.activations(&packed()), Activations::Recomputed);
        let ((kept_loss, kept), (loss, recomputed)) = (gradients(&kept), gradients(&recomputed));
        assert_eq!(kept_loss, loss);
        for ((name, kept), (_, recomputed)) in kept.iter().zip(&recomputed) {
            let largest = kept.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
            assert!(largest > 0.0, "{name}");
            for (kept, recomputed) in kept.iter().zip(recomputed) {
                assert!((kept - recomputed).abs() <= 1e-6 * largest, "{name}: {kept} {recomputed}");
            }
        }
    }
}

#[test]
fn a_run_under_a_memory_limit_takes_the_same_steps() {
    let folders = folders();
    let run = |text: &str, name: &str| {
        let out = folders.root.path().join(name);
        let settings = sft_settings(&format!("learning_rate = 0.01\nrows_per_step = 3\nmax_steps = 6\n{text}"));
        let lora = lora();
        train::sft(&Job { lora: Some(&lora), ..job(&folders.model, &out) }, &tiny::sft_rows(8), &settings).unwrap();
        without_time(&log(&out))
    };
    let (kept, recomputed) = (run("", "kept"), run("memory_limit_mib = 1", "recomputed"));
    for (kept, recomputed) in kept.iter().zip(&recomputed) {
        assert!((kept.loss.unwrap() - recomputed.loss.unwrap()).abs() < 1e-5, "{kept:?} {recomputed:?}");
    }
}

#[test]
fn the_estimate_grows_with_tokens_and_is_smaller_where_activations_are_recomputed() {
    let folders = folders();
    let full = policy(&folders.model, &Trainable::Full);
    let adapters = policy(&folders.model, &Trainable::Lora(lora()));
    let one = pack(&[&Tree { row_ids: vec![], prompt: vec![11; 40], answers: vec![vec![12; 20]] }]);
    let two = pack(&[&Tree { row_ids: vec![], prompt: vec![11; 80], answers: vec![vec![12; 40]] }]);
    let of = |policy: &DecoderPolicy, packed: &Packed, activations| memory(policy.decoder(), packed, activations);
    let kept = of(&full, &one, Activations::Kept);
    assert!(of(&full, &two, Activations::Kept).activations > 19 * kept.activations / 10);
    assert!(of(&full, &one, Activations::Recomputed).activations < kept.activations);
    assert!(of(&adapters, &one, Activations::Kept).training < kept.training / 2);
    let values: usize = full.parameters().values().map(|parameter| parameter.elem_count()).sum();
    assert_eq!(kept.weights, 4 * values as u64);
    assert_eq!(kept.training, 16 * values as u64);
}
