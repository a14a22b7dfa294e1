//! Dropout of adapters, and their scale.

use std::sync::atomic::{AtomicUsize, Ordering};

use candle_core::{Device, Tensor, Var};
use topalign::error::{Error, Result};
use topalign::kernel::{self, Dropout, FrozenWeight};
use topalign::model::Trainable;
use topalign::recipe::settings::{AdapterScaling, Arithmetic, LoraSettings, Share};
use topalign::run::seed::Seed;
use topalign::token::{Tree, pack};
use topalign::train::{self, Job, Pass, Policy as _, RunManifest, Start};

use super::decoder::{TRAINING, dpo_settings, folders, job, log, lora, policy, sft_settings, values, without_time};
use super::tiny;
use crate::kernel::reference;

fn dropping(share: f64) -> LoraSettings {
    LoraSettings { dropout: Share::try_from(share).unwrap(), ..lora() }
}

fn matrix(rows: usize, columns: usize, seed: u64) -> Tensor {
    use rand::RngExt as _;
    let mut random = Seed(seed).stream("matrix");
    let values: Vec<f32> = (0..rows * columns).map(|_| random.random_range(-1.0..1.0)).collect();
    Tensor::from_vec(values, (rows, columns), &Device::Cpu).unwrap()
}

fn flat(tensor: &Tensor) -> Vec<f32> {
    tensor.flatten_all().unwrap().to_vec1().unwrap()
}

#[test]
fn a_mask_drops_its_share_keeps_the_expectation_and_repeats() {
    let mask = |step, rows: std::ops::Range<u64>, module: &str| {
        let dropout = Dropout::new(0.25, Seed(3), step, rows.collect());
        flat(&dropout.mask(module, 130).factors(&Device::Cpu).unwrap())
    };
    let found = mask(7, 0..200, "q");
    let dropped = found.iter().filter(|&&factor| factor == 0.0).count() as f64 / found.len() as f64;
    assert!((dropped - 0.25).abs() < 0.01, "{dropped}");
    assert!(found.iter().all(|&factor| factor == 0.0 || factor == 1.0 / 0.75));
    assert_eq!(found, mask(7, 0..200, "q"));
    assert_eq!(found[130 * 50..130 * 60], mask(7, 50..60, "q"), "a row's mask does not depend on the rows beside it");
    assert_ne!(found, mask(8, 0..200, "q"));
    assert_ne!(found, mask(7, 0..200, "k"));
}

#[test]
fn the_fused_adapter_with_dropout_equals_the_composed_one_with_its_gradients() {
    let (weight, upstream) = (matrix(6, 70, 1), matrix(5, 6, 2));
    let leaves = || [matrix(5, 70, 3), matrix(4, 70, 4), matrix(6, 4, 5)].map(|leaf| Var::from_tensor(&leaf).unwrap());
    let mask = Dropout::new(0.4, Seed(9), 2, (0..5).collect()).mask("q", 70);
    let factors = mask.factors(&Device::Cpu).unwrap();
    let (fused, parts) = (leaves(), leaves());
    let pair = (fused[1].as_tensor(), fused[2].as_tensor());
    let left =
        kernel::adapted_linear_with_dropout(&fused[0], &FrozenWeight::new(&weight), pair, 2.0, Arithmetic::F32, mask)
            .unwrap();
    let right =
        reference::adapted_linear_with_dropout(&parts[0], &weight, &parts[1], &parts[2], 2.0, &factors).unwrap();
    for (left, right) in flat(&left).iter().zip(flat(&right)) {
        assert!((left - right).abs() < 1e-4, "{left} {right}");
    }
    let gradients = |output: Tensor| (output * &upstream).unwrap().sum_all().unwrap().backward().unwrap();
    let (left, right) = (gradients(left), gradients(right));
    for (fused, parts) in fused.iter().zip(&parts) {
        let of_fused = flat(left.get(fused.as_tensor()).unwrap());
        for (left, right) in of_fused.iter().zip(flat(right.get(parts.as_tensor()).unwrap())) {
            assert!((left - right).abs() < 1e-4, "{left} {right}");
        }
    }
    let narrow = Dropout::new(0.4, Seed(9), 2, (0..4).collect()).mask("q", 70);
    assert!(
        kernel::adapted_linear_with_dropout(&fused[0], &FrozenWeight::new(&weight), pair, 2.0, Arithmetic::F32, narrow)
            .is_err()
    );
}

fn tree(first: u32) -> Tree {
    Tree { row_ids: vec![String::new()], prompt: vec![first, 11, 12], answers: vec![vec![13, 14, 2], vec![15, 2]] }
}

#[test]
fn dropout_is_off_for_reference_and_evaluation_and_those_repeat_bit_for_bit() {
    let folders = folders();
    let policy = policy(&folders.model, &Trainable::Lora(dropping(0.5)));
    for (name, parameter) in policy.parameters() {
        if name.ends_with("lora_B.weight") {
            parameter.set(&(parameter.ones_like().unwrap() * 0.1).unwrap()).unwrap();
        }
    }
    for pass in [Pass::Reference, Pass::Evaluation] {
        assert_eq!(values(&policy, &tree(10), pass), values(&policy, &tree(10), pass));
    }
    let (dropped, evaluated) = (values(&policy, &tree(10), TRAINING), values(&policy, &tree(10), Pass::Evaluation));
    assert_ne!(dropped, evaluated);
    assert_eq!(dropped, values(&policy, &tree(10), TRAINING), "a recomputed pass drops the same");
    assert_ne!(dropped, values(&policy, &tree(10), Pass::Training { step: 1, units: &[0] }));
}

#[test]
fn what_is_dropped_does_not_depend_on_how_a_step_is_cut_into_passes() {
    let folders = folders();
    let policy = policy(&folders.model, &Trainable::Lora(dropping(0.5)));
    for (name, parameter) in policy.parameters() {
        if name.ends_with("lora_B.weight") {
            parameter.set(&(parameter.ones_like().unwrap() * 0.1).unwrap()).unwrap();
        }
    }
    let trees = [tree(10), tree(20), tree(30)];
    let together = pack(&trees.iter().collect::<Vec<_>>());
    let pass = Pass::Training { step: 4, units: &[8, 3, 5] };
    let together: Vec<f32> = policy.log_probabilities(&together, pass).unwrap().to_vec1().unwrap();
    let apart: Vec<f32> = trees
        .iter()
        .zip([8, 3, 5])
        .flat_map(|(tree, unit)| values(&policy, tree, Pass::Training { step: 4, units: &[unit] }))
        .collect();
    for (together, apart) in together.iter().zip(apart) {
        assert!((together - apart).abs() < 1e-5, "{together} {apart}");
    }
}

#[test]
fn runs_with_dropout_resume_bit_for_bit_and_preference_runs_start_near_ln_2() {
    let folders = folders();
    let lora = dropping(0.3);
    let settings =
        sft_settings("learning_rate = 0.01\nrows_per_step = 3\nepochs = 3\nmax_steps = 10\nsave_every = 100");
    let rows = tiny::sft_rows(13);
    let (through, resumed) = (folders.root.path().join("through"), folders.root.path().join("resumed"));
    let run = |out: &std::path::Path, start: Start, stop_after: usize| -> Result<RunManifest> {
        let asked = AtomicUsize::new(0);
        let stop = || asked.fetch_add(1, Ordering::SeqCst) >= stop_after;
        train::sft(&Job { lora: Some(&lora), start, stop: &stop, ..job(&folders.model, out) }, &rows, &settings)
    };
    run(&through, Start::Fresh, usize::MAX).unwrap();
    assert!(matches!(run(&resumed, Start::Fresh, 4), Err(Error::Interrupted)));
    run(&resumed, Start::Resume, usize::MAX).unwrap();
    assert_eq!(without_time(&log(&resumed)), without_time(&log(&through)));
    let adapter = |out: &std::path::Path| std::fs::read(out.join("final/adapter_model.safetensors")).unwrap();
    assert!(adapter(&through) == adapter(&resumed));
    let config = std::fs::read_to_string(through.join("final/adapter_config.json")).unwrap();
    assert!(config.contains("\"lora_dropout\": 0.3"), "{config}");

    // B is 0 at the start, so that dropping its input changes nothing yet.
    let out = folders.root.path().join("dpo");
    let job = Job { lora: Some(&lora), ..job(&folders.model, &out) };
    let manifest = train::dpo(&job, &tiny::pairs(4), &dpo_settings("learning_rate = 0.003")).unwrap();
    assert!((manifest.outcome.unwrap().first_loss.unwrap() - std::f64::consts::LN_2).abs() < 1e-6);
}

#[test]
fn rank_stabilised_adapters_scale_by_the_root_of_the_rank_and_say_so() {
    let plain = lora();
    let stabilised = LoraSettings { scaling: AdapterScaling::RsLora, ..lora() };
    assert_eq!((plain.scale(), stabilised.scale()), (8.0 / 4.0, 8.0 / 2.0));

    let folders = folders();
    let out = folders.root.path().join("run");
    let settings = sft_settings("learning_rate = 0.01\nmax_steps = 3");
    let name = folders.model.display().to_string();
    let job = Job { lora: Some(&stabilised), model_name: &name, ..job(&folders.model, &out) };
    train::sft(&job, &tiny::sft_rows(6), &settings).unwrap();
    let (config, _) = topalign::model::read_adapter(&out.join("final"), &Device::Cpu).unwrap();
    assert_eq!(config.lora.scaling, AdapterScaling::RsLora);
    // Opened through its folder, the adapter is merged with the scale that it was trained with.
    let trained = policy(&folders.model, &Trainable::Lora(stabilised));
    let tensors = topalign::checkpoint::read_tensors(&out.join("final/adapter_model.safetensors"), &Device::Cpu);
    trained.decoder().load_parameters(&tensors.unwrap(), "final").unwrap();
    let merged = policy(&out.join("final"), &Trainable::Nothing);
    let (trained, merged) =
        (values(&trained, &tree(10), Pass::Evaluation), values(&merged, &tree(10), Pass::Evaluation));
    for (trained, merged) in trained.iter().zip(merged) {
        assert!((trained - merged).abs() < 1e-5, "{trained} {merged}");
    }
}
