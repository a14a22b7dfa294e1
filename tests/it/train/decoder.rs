//! Whole runs on a tiny decoder: from rows to a folder that loads again.

use std::cell::Cell;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use candle_core::Device;
use topalign::checkpoint::{SourceModel, read_tensors};
use topalign::dataset::Message;
use topalign::error::{Error, Result};
use topalign::model::{Decoder, Trainable};
use topalign::recipe::settings::{AdapterScaling, DpoSettings, LoraSettings, Positive, Projection, SftSettings, Share};
use topalign::run::seed::Seed;
use topalign::token::{Tree, pack};
use topalign::train::{
    self, DecoderPolicy, Job, MANIFEST, Pass, Policy, RunManifest, RunStatus, Start, StepRow, encode_dpo, read_log,
};

use super::{tiny, toy};

pub fn sft_settings(text: &str) -> SftSettings {
    SftSettings { train: toy::settings(text) }
}

pub fn dpo_settings(text: &str) -> DpoSettings {
    DpoSettings::plain(toy::settings(text))
}

pub fn lora() -> LoraSettings {
    LoraSettings {
        rank: NonZeroUsize::new(4).unwrap(),
        alpha: Positive::try_from(8.0).unwrap(),
        dropout: Share::ZERO,
        target_modules: Projection::ALL.to_vec(),
        scaling: AdapterScaling::Lora,
    }
}

/// A pass of the first step over the first tree.
pub const TRAINING: Pass<'static> = Pass::Training { step: 0, units: &[0] };

pub struct Folders {
    pub root: tempfile::TempDir,
    pub model: std::path::PathBuf,
}

pub fn folders() -> Folders {
    let root = tempfile::tempdir().unwrap();
    let model = root.path().join("model");
    tiny::write(&model, 1, true);
    Folders { root, model }
}

pub fn job<'a>(model: &'a Path, out: &'a Path) -> Job<'a> {
    Job { tokens_per_pass: 64, ..Job::new(model, "someone/tiny", out, Seed(11)) }
}

pub fn without_time(log: &[StepRow]) -> Vec<StepRow> {
    log.iter().map(|row| StepRow { step_seconds: None, ..row.clone() }).collect()
}

pub fn log(out: &Path) -> Vec<StepRow> {
    read_log(&out.join("log.jsonl")).unwrap()
}

pub fn policy(model: &Path, trainable: &Trainable) -> DecoderPolicy {
    let source = SourceModel::open(model, &Device::Cpu).unwrap();
    DecoderPolicy::new(Decoder::new(source.config, source.weights, trainable, Seed(11), &Device::Cpu).unwrap())
}

pub fn values(policy: &DecoderPolicy, tree: &Tree, pass: Pass<'_>) -> Vec<f32> {
    policy.log_probabilities(&pack(&[tree]), pass).unwrap().to_vec1().unwrap()
}

#[test]
fn supervised_training_learns_rows_by_heart_and_leaves_a_model_that_loads() {
    let folders = folders();
    let out = folders.root.path().join("run");
    let settings = sft_settings("learning_rate = 0.01\nrows_per_step = 4\nepochs = 40\nsave_every = 50");
    let manifest = train::sft(&job(&folders.model, &out), &tiny::sft_rows(10), &settings).unwrap();
    let outcome = manifest.outcome.clone().unwrap();
    assert!(outcome.last_loss.unwrap() < 0.2 * outcome.first_loss.unwrap(), "{outcome:?}");
    assert_eq!((manifest.status, manifest.steps, manifest.data.units), (RunStatus::Complete, 120, 10));
    let read = RunManifest::read(&out).unwrap();
    assert_eq!((read.status, &read.run_digest), (RunStatus::Complete, &manifest.run_digest));
    for file in ["log.jsonl", "trainer_state.json", "events.out.tfevents.0.topalign", "final/README.md"] {
        assert!(out.join(file).is_file(), "{file}");
    }
    // The trained model answers as it was taught, and is what the last checkpoint holds.
    let trained = read_tensors(&out.join("checkpoint-120/trainable.safetensors"), &Device::Cpu).unwrap();
    let reloaded = SourceModel::open(&out.join("final"), &Device::Cpu).unwrap();
    for (name, tensor) in &reloaded.weights.0 {
        let flat = |tensor: &candle_core::Tensor| tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        assert_eq!(flat(tensor), flat(&trained[name]), "{name}");
    }
}

#[test]
fn twenty_steps_of_a_decoder_equal_nine_and_eleven_resumed_mid_epoch_bit_for_bit() {
    let folders = folders();
    for lora in [None, Some(lora())] {
        let settings =
            sft_settings("learning_rate = 0.01\nrows_per_step = 3\nepochs = 5\nmax_steps = 20\nsave_every = 100");
        let rows = tiny::sft_rows(13);
        let (through, resumed) = (folders.root.path().join("through"), folders.root.path().join("resumed"));
        let run = |out: &Path, start: Start, stop_after: usize| -> Result<RunManifest> {
            let asked = AtomicUsize::new(0);
            let stop = || asked.fetch_add(1, Ordering::SeqCst) >= stop_after;
            let job = Job { lora: lora.as_ref(), start, stop: &stop, ..job(&folders.model, out) };
            train::sft(&job, &rows, &settings)
        };
        run(&through, Start::Fresh, usize::MAX).unwrap();
        assert!(matches!(run(&resumed, Start::Fresh, 9), Err(Error::Interrupted)));
        assert_eq!(RunManifest::read(&resumed).unwrap().status, RunStatus::Started);
        let manifest = run(&resumed, Start::Resume, usize::MAX).unwrap();
        assert_eq!(manifest.resumed_from, Some(9));
        assert_eq!(without_time(&log(&resumed)), without_time(&log(&through)));
        let file = if lora.is_some() { "final/adapter_model.safetensors" } else { "final/model.safetensors" };
        assert!(std::fs::read(through.join(file)).unwrap() == std::fs::read(resumed.join(file)).unwrap(), "{file}");
        let card = |out: &Path| std::fs::read_to_string(out.join("final/README.md")).unwrap();
        assert_eq!(card(&through), card(&resumed));
    }
}

#[test]
fn preference_training_starts_at_ln_2_on_every_weight_and_on_adapters_and_margins_grow() {
    let folders = folders();
    for lora in [None, Some(lora())] {
        let out = folders.root.path().join("dpo");
        let settings = dpo_settings("learning_rate = 0.003\nrows_per_step = 3\nepochs = 10");
        let job = Job { lora: lora.as_ref(), ..job(&folders.model, &out) };
        let manifest = train::dpo(&job, &tiny::pairs(6), &settings).unwrap();
        assert_eq!((manifest.data.rows, manifest.data.units, manifest.data.answers), (18, 6, 24));
        let log = log(&out);
        assert!((log[0].loss.unwrap() - std::f64::consts::LN_2).abs() < 1e-6, "{:?}", log[0]);
        assert!(log[0].metrics["rewards/margins"].unwrap().abs() < 1e-5);
        let last = log.last().unwrap();
        assert!(last.metrics["rewards/margins"].unwrap() > 0.2, "{last:?}");
        assert_eq!(last.metrics["rewards/accuracies"], Some(1.0));
        assert!(last.metrics["rewards/margins/over-refusal"].unwrap() > 0.0);
    }
}

#[test]
fn preference_training_resumes_bit_for_bit_with_the_cached_reference() {
    let folders = folders();
    let settings = dpo_settings("learning_rate = 0.003\nrows_per_step = 2\nepochs = 3\nsave_every = 2");
    let pairs = tiny::pairs(5);
    let (through, resumed) = (folders.root.path().join("through"), folders.root.path().join("resumed"));
    let run = |out: &Path, start: Start, stop_after: usize| -> Result<RunManifest> {
        let asked = AtomicUsize::new(0);
        let stop = || asked.fetch_add(1, Ordering::SeqCst) >= stop_after;
        train::dpo(&Job { start, stop: &stop, ..job(&folders.model, out) }, &pairs, &settings)
    };
    run(&through, Start::Fresh, usize::MAX).unwrap();
    // Five trees of reference, then five steps.
    assert!(matches!(run(&resumed, Start::Fresh, 10), Err(Error::Interrupted)));
    assert!(resumed.join("checkpoint-5").is_dir());
    let cached = std::fs::read(resumed.join("reference.safetensors")).unwrap();
    run(&resumed, Start::Resume, usize::MAX).unwrap();
    assert_eq!(cached, std::fs::read(resumed.join("reference.safetensors")).unwrap());
    assert_eq!(without_time(&log(&resumed)), without_time(&log(&through)));
    let model = |out: &Path| std::fs::read(out.join("final/model.safetensors")).unwrap();
    assert!(model(&through) == model(&resumed));
}

#[test]
fn an_adapter_on_an_sft_adapter_has_the_sft_policy_as_its_reference() {
    let folders = folders();
    let (sft, lora) = (folders.root.path().join("sft"), lora());
    let name = folders.model.display().to_string();
    let settings = sft_settings("learning_rate = 0.01\nrows_per_step = 4\nepochs = 4");
    let sft_job = Job { lora: Some(&lora), model_name: &name, ..job(&folders.model, &sft) };
    train::sft(&sft_job, &tiny::sft_rows(8), &settings).unwrap();

    let sft_policy = policy(&sft.join("final"), &Trainable::Lora(lora));
    let base = policy(&folders.model, &Trainable::Nothing);
    let encoded = encode_dpo(&tiny::pairs(1), &SourceModel::open(&folders.model, &Device::Cpu).unwrap().tokenizer, 99);
    let tree = &encoded.unwrap().trees[0];
    let reference = values(&sft_policy, tree, Pass::Reference);
    assert_eq!(reference, values(&sft_policy, tree, TRAINING), "a fresh adapter changes nothing");
    let differs =
        reference.iter().zip(values(&base, tree, Pass::Reference)).any(|(sft, base)| (sft - base).abs() > 0.05);
    assert!(differs, "the reference is the SFT policy, not the base");

    // A run on it starts at ln 2, keeps the merged weights, and its adapter is opened through them, even when moved.
    let out = folders.root.path().join("dpo");
    let settings = dpo_settings("learning_rate = 0.003\nmax_steps = 2");
    let sft_final = sft.join("final");
    let lora = self::lora();
    let manifest = train::dpo(&Job { lora: Some(&lora), ..job(&sft_final, &out) }, &tiny::pairs(3), &settings).unwrap();
    assert!((manifest.outcome.unwrap().first_loss.unwrap() - std::f64::consts::LN_2).abs() < 1e-6);
    let digest = |path: &Path| SourceModel::open(path, &Device::Cpu).unwrap().digest().unwrap();
    assert_eq!(digest(&out.join("base")), digest(&sft_final));
    let trained = digest(&out.join("final"));
    assert_ne!(trained, digest(&sft_final));
    let moved = folders.root.path().join("moved");
    std::fs::rename(&out, &moved).unwrap();
    assert_eq!(digest(&moved.join("final")), trained);
}

#[test]
fn the_reference_of_adapters_stays_when_they_change() {
    let folders = folders();
    let policy = policy(&folders.model, &Trainable::Lora(lora()));
    let tree = Tree { row_ids: vec![String::new()], prompt: vec![10, 11, 12], answers: vec![vec![13, 14, 2]] };
    let before = values(&policy, &tree, Pass::Reference);
    for (name, parameter) in policy.parameters() {
        if name.ends_with("lora_B.weight") {
            parameter.set(&parameter.ones_like().unwrap()).unwrap();
        }
    }
    assert_ne!(values(&policy, &tree, TRAINING), before);
    assert_eq!(values(&policy, &tree, Pass::Reference), before);
}

#[test]
fn dropped_rows_are_named_in_the_manifest() {
    let folders = folders();
    let out = folders.root.path().join("run");
    let mut rows = tiny::sft_rows(4);
    rows[2].messages[1] = Message::user(tiny::words(0, 60));
    let settings = sft_settings("learning_rate = 0.01\nmax_steps = 1\nmax_tokens = 40");
    train::sft(&job(&folders.model, &out), &rows, &settings).unwrap();
    let text = std::fs::read_to_string(out.join(MANIFEST)).unwrap();
    let manifest: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(manifest["data"]["dropped"][0]["row"], "sft:2 (trace-2)");
    assert_eq!(manifest["data"]["dropped"][0]["reason"], "too-long");
    assert_eq!((&manifest["data"]["rows"], &manifest["data"]["units"]), (&4.into(), &3.into()));
    assert!(manifest["outcome"]["peak_memory_bytes"].as_u64().is_none_or(|bytes| bytes > 1 << 20));
}

#[test]
fn bad_inputs_leave_no_run_folder() {
    let folders = folders();
    let out = folders.root.path().join("run");
    let settings = sft_settings("learning_rate = 0.01\nmax_tokens = 2");
    let error = train::sft(&job(&folders.model, &out), &tiny::sft_rows(3), &settings).unwrap_err();
    assert_eq!(error.exit_status(), 2);
    let missing = folders.root.path().join("absent");
    let error = train::sft(&job(&missing, &out), &tiny::sft_rows(3), &settings).unwrap_err();
    assert_eq!(error.exit_status(), 2);
    assert!(!out.exists());
}

#[test]
fn a_fresh_run_never_removes_checkpoints_of_another_program() {
    let folders = folders();
    let out = folders.root.path().join("run");
    std::fs::create_dir_all(out.join("checkpoint-500")).unwrap();
    let settings = sft_settings("learning_rate = 0.01\nmax_steps = 1");
    let error = train::sft(&job(&folders.model, &out), &tiny::sft_rows(3), &settings).unwrap_err();
    assert_eq!(error.exit_status(), 2);
    assert!(out.join("checkpoint-500").is_dir());
}

#[test]
fn a_second_fresh_run_starts_again_and_resume_of_a_complete_run_changes_nothing() {
    let folders = folders();
    let out = folders.root.path().join("run");
    let settings = sft_settings("learning_rate = 0.01\nrows_per_step = 2\nmax_steps = 3");
    let rows = tiny::sft_rows(5);
    let counted = Cell::new(0);
    let model = |start: Start| {
        train::sft(&Job { start, ..job(&folders.model, &out) }, &rows, &settings).unwrap();
        counted.set(counted.get() + 1);
        assert_eq!(log(&out).len(), 3);
        std::fs::read(out.join("final/model.safetensors")).unwrap()
    };
    std::fs::create_dir_all(out.join(".topalign-killed")).unwrap();
    let first = model(Start::Fresh);
    assert!(first == model(Start::Fresh) && first == model(Start::Resume));
    assert_eq!(counted.get(), 3);
    assert!(!out.join(".topalign-killed").exists());
}

pub fn topalign(arguments: &[&Path]) -> (Option<i32>, String, String) {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_topalign")).args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn merging_an_adapter_by_command_gives_the_model_that_opening_the_adapter_gives() {
    let folders = folders();
    let (out, merged, lora) = (folders.root.path().join("run"), folders.root.path().join("merged"), lora());
    let name = folders.model.display().to_string();
    let settings = sft_settings("learning_rate = 0.01\nrows_per_step = 2\nmax_steps = 3");
    let job = Job { lora: Some(&lora), model_name: &name, ..job(&folders.model, &out) };
    train::sft(&job, &tiny::sft_rows(6), &settings).unwrap();
    let adapter = out.join("final");
    let arguments = |out| {
        let flag = Path::new;
        [
            flag("merge"),
            flag("--json"),
            flag("--model"),
            &folders.model,
            flag("--adapter"),
            &adapter,
            flag("--out"),
            out,
        ]
    };
    let (status, stdout, stderr) = topalign(&arguments(&merged));
    assert_eq!((status, stderr.as_str()), (Some(0), ""));
    let printed: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(printed["tensors"], 20);
    let digest = |path: &Path| SourceModel::open(path, &Device::Cpu).unwrap().digest().unwrap();
    assert_eq!(digest(&merged), digest(&adapter));
    assert_ne!(digest(&merged), digest(&folders.model));

    // An output folder with other things in it stays as it is.
    let other = folders.root.path().join("other");
    std::fs::create_dir_all(&other).unwrap();
    std::fs::write(other.join("notes.txt"), "mine").unwrap();
    let (status, _, stderr) = topalign(&arguments(&other));
    assert_eq!(status, Some(2));
    assert!(stderr.contains("not a model") && other.join("notes.txt").is_file(), "{stderr}");
}
