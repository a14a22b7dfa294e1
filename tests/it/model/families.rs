//! Claims about every family of decoders: parity with transformers and PEFT. Fixtures: `tests/golden/make_families.py`.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use candle_core::{Device, Tensor};
use serde::Deserialize;
use topalign::checkpoint::{CardContent, ModelCard, ModelExport, read_tensors};
use topalign::model::{AdapterConfig, Decoder, KeyValueCache, LocalModel, ModelConfig, Step, Trainable, Weights};
use topalign::recipe::settings::{AdapterScaling, LoraSettings, Positive, Projection, Share};
use topalign::run::seed::Seed;
use topalign::token::{ChatTokenizer, Packed, PackedSequence, Tree, pack};
use topalign::train::{Accumulator, AdamConstants, AdamW, Update, clip_factor, global_norm};

use super::largest;

const CASES: [&str; 10] = [
    "llama",
    "llama-8192",
    "llama-biases",
    "smollm2",
    "qwen2",
    "qwen2-bf16",
    "qwen3",
    "qwen3-untied",
    "smollm3",
    "smollm3-untied",
];

/// Sums of f32 in another order.
const LOGITS: f32 = 1e-5;
const LOSS: f64 = 5e-6;
const GRADIENTS: f32 = 2e-6;
/// Adam divides a small gradient by its own size, so that a rounding of one may move a weight.
const TEN_LOSSES: f64 = 1e-4;

#[derive(Deserialize)]
struct Row {
    prompt: Vec<u32>,
    answer: Vec<u32>,
}

#[derive(Deserialize)]
struct Expected {
    rows: Vec<Row>,
    learning_rate: f64,
    weight_decay: f64,
    clip_norm: f64,
    rank: NonZeroUsize,
    alpha: f64,
    losses: Vec<f64>,
    adapter_losses: Vec<f64>,
}

struct Case {
    model: LocalModel,
    expected: Expected,
    tensors: BTreeMap<String, Tensor>,
}

impl Case {
    fn open(name: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/families").join(name);
        let expected = serde_json::from_slice(&std::fs::read(path.join("expected.json")).unwrap()).unwrap();
        let tensors = read_tensors(&path.join("expected.safetensors"), &Device::Cpu).unwrap();
        Self { model: LocalModel { path }, expected, tensors }
    }

    fn gguf(&self) -> Option<LocalModel> {
        let path = self.model.path.join("model.gguf");
        path.is_file().then_some(LocalModel { path })
    }

    fn decoder(&self, trainable: &Trainable) -> Decoder {
        let (config, weights) = self.model.read(&Device::Cpu).unwrap();
        Decoder::new(config, weights, trainable, Seed(1), &Device::Cpu).unwrap()
    }

    /// The decoder under PEFT's adapter.
    fn adapted(&self) -> Decoder {
        let decoder = self.decoder(&Trainable::Lora(self.lora()));
        decoder.load_parameters(&self.starting("adapter."), "expected").unwrap();
        decoder
    }

    fn lora(&self) -> LoraSettings {
        LoraSettings {
            rank: self.expected.rank,
            alpha: Positive::try_from(self.expected.alpha).unwrap(),
            dropout: Share::ZERO,
            target_modules: Projection::ALL.to_vec(),
            scaling: AdapterScaling::default(),
        }
    }

    fn starting(&self, prefix: &str) -> BTreeMap<String, Tensor> {
        let named = |(name, tensor): (&String, &Tensor)| Some((name.strip_prefix(prefix)?.to_owned(), tensor.clone()));
        self.tensors.iter().filter_map(named).collect()
    }

    /// All rows in one packed sequence, and the number of trained tokens.
    fn packed(&self) -> (Packed, usize) {
        let tree = |row: &Row| Tree {
            row_ids: vec!["row".to_owned()],
            prompt: row.prompt.clone(),
            answers: vec![row.answer.clone()],
        };
        let trees: Vec<Tree> = self.expected.rows.iter().map(tree).collect();
        (pack(&trees.iter().collect::<Vec<_>>()), self.expected.rows.iter().map(|row| row.answer.len()).sum())
    }

    fn first_row(&self) -> Vec<u32> {
        let row = &self.expected.rows[0];
        row.prompt.iter().chain(&row.answer).copied().collect()
    }

    /// Ten steps as the generator takes them: the losses, and the first step's gradients.
    fn train(&self, decoder: &Decoder) -> (Vec<f64>, BTreeMap<String, Tensor>) {
        let (packed, count) = self.packed();
        let mut optimizer = AdamW::new(decoder.parameters(), AdamConstants::default()).unwrap();
        let (mut losses, mut first) = (Vec::new(), BTreeMap::new());
        for _ in 0..self.expected.losses.len() {
            let hidden = decoder.hidden_states(&packed.sequence).unwrap();
            let values = decoder.log_probabilities(&hidden, &packed.rows, &packed.targets).unwrap();
            let loss = (values.sum_all().unwrap() / -(count as f64)).unwrap();
            losses.push(f64::from(loss.to_scalar::<f32>().unwrap()));
            let mut sums = Accumulator::default();
            sums.add(decoder.parameters(), loss.backward().unwrap()).unwrap();
            let gradients = sums.gradients();
            if first.is_empty() {
                first.clone_from(gradients);
            }
            let update = Update {
                learning_rate: self.expected.learning_rate,
                gradient_scale: clip_factor(global_norm(gradients).unwrap(), self.expected.clip_norm),
                weight_decay: self.expected.weight_decay,
            };
            optimizer.update(decoder.parameters(), gradients, update).unwrap();
        }
        (losses, first)
    }
}

fn logits(decoder: &Decoder, tokens: &[u32]) -> Tensor {
    let hidden = decoder.hidden_states(&PackedSequence::single(tokens)).unwrap();
    decoder.logits(&hidden, &(0..tokens.len() as u32).collect::<Vec<_>>()).unwrap()
}

fn apart(left: &Tensor, right: &Tensor) -> f32 {
    largest(&(left - right).unwrap())
}

fn largest_apart(left: &[f64], right: &[f64]) -> f64 {
    assert_eq!(left.len(), right.len());
    left.iter().zip(right).map(|(left, right)| (left - right).abs()).fold(0.0, f64::max)
}

fn gradients_apart(found: &BTreeMap<String, Tensor>, expected: &BTreeMap<String, Tensor>) -> f32 {
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    found.iter().map(|(name, tensor)| apart(tensor, &expected[name])).fold(0.0, f32::max)
}

#[test]
fn every_family_computes_and_trains_as_transformers_and_peft_do() {
    println!("largest differences from transformers and PEFT (torch, CPU, f32)");
    println!("| case | logits | loss | gradients | ten losses | adapter: loss | gradients | ten losses |");
    println!("|---|---|---|---|---|---|---|---|");
    for name in CASES {
        let case = Case::open(name);
        let full = case.decoder(&Trainable::Full);
        let at_logits = apart(&logits(&full, &case.first_row()), &case.tensors["logits"]);
        let (losses, gradients) = case.train(&full);
        let at_gradients = gradients_apart(&gradients, &case.starting("gradient."));
        let at_losses = largest_apart(&losses, &case.expected.losses);
        let at_loss = (losses[0] - case.expected.losses[0]).abs();
        let (adapter_losses, gradients) = case.train(&case.adapted());
        let at_adapter_gradients = gradients_apart(&gradients, &case.starting("adapter_gradient."));
        let at_adapter_losses = largest_apart(&adapter_losses, &case.expected.adapter_losses);
        let at_adapter_loss = (adapter_losses[0] - case.expected.adapter_losses[0]).abs();
        println!(
            "| {name} | {at_logits:.1e} | {at_loss:.1e} | {at_gradients:.1e} | {at_losses:.1e} | {at_adapter_loss:.1e} | {at_adapter_gradients:.1e} | {at_adapter_losses:.1e} |"
        );
        assert!(at_logits < LOGITS, "{name}: logits {at_logits}");
        assert!(at_loss.max(at_adapter_loss) < LOSS, "{name}: loss {at_loss}, adapter {at_adapter_loss}");
        let worst = at_gradients.max(at_adapter_gradients);
        assert!(worst < GRADIENTS, "{name}: gradients {at_gradients}, adapter {at_adapter_gradients}");
        let worst = at_losses.max(at_adapter_losses);
        assert!(worst < TEN_LOSSES, "{name}: ten losses {at_losses}, adapter {at_adapter_losses}");
    }
}

#[test]
fn every_family_decodes_over_a_cache_as_it_reads_at_once() {
    for name in CASES {
        let case = Case::open(name);
        let (decoder, tokens) = (case.decoder(&Trainable::Nothing), case.first_row());
        let mut cache = KeyValueCache::default();
        let (start, rest) = tokens.split_at(tokens.len() - 3);
        let mut read = vec![decoder.decode(&mut [Step { tokens: start, cache: &mut cache }]).unwrap()];
        for token in rest {
            let step = Step { tokens: std::slice::from_ref(token), cache: &mut cache };
            read.push(decoder.decode(&mut [step]).unwrap());
        }
        let expected = case.tensors["logits"].narrow(0, tokens.len() - 4, 4).unwrap();
        let difference = apart(&Tensor::cat(&read, 0).unwrap(), &expected);
        assert!(difference < LOGITS, "{name}: {difference}");
    }
}

#[test]
fn gguf_files_of_llama_cpps_converter_read_as_the_folders_that_they_were_made_from() {
    let mut read = 0;
    for name in CASES {
        let case = Case::open(name);
        let Some(gguf) = case.gguf() else { continue };
        let (config, weights) = case.model.read(&Device::Cpu).unwrap();
        let (from_gguf, tensors) = gguf.read(&Device::Cpu).unwrap();
        let without_json = |config: ModelConfig| ModelConfig { json: serde_json::Value::Null, ..config };
        assert_eq!(without_json(from_gguf.clone()), without_json(config), "{name}");
        assert_eq!(tensors.0.keys().collect::<Vec<_>>(), weights.0.keys().collect::<Vec<_>>(), "{name}");
        for (tensor, expected) in &weights.0 {
            assert_eq!(apart(&tensors.0[tensor], expected), 0.0, "{name}: {tensor}");
        }
        let decoder = Decoder::new(from_gguf, tensors, &Trainable::Nothing, Seed(1), &Device::Cpu).unwrap();
        assert!(apart(&logits(&decoder, &case.first_row()), &case.tensors["logits"]) < LOGITS, "{name}");
        read += 1;
    }
    assert_eq!(read, 6);
}

#[test]
fn an_adapter_of_every_family_merges_into_the_same_function() {
    for name in CASES {
        let case = Case::open(name);
        let adapted = case.adapted();
        let tokens = case.first_row();
        let expected = logits(&adapted, &tokens);
        let (config, weights) = case.model.read(&Device::Cpu).unwrap();
        let by_decoder = Weights(adapted.merged_weights().unwrap());
        let adapter = AdapterConfig { lora: case.lora(), base_model: None };
        let by_files = weights.merge_adapter(&adapter, &case.starting("adapter."), "expected").unwrap();
        assert_eq!(by_decoder.0.keys().collect::<Vec<_>>(), config.tensors().keys().collect::<Vec<_>>(), "{name}");
        for merged in [by_decoder, by_files] {
            let decoder = Decoder::new(config.clone(), merged, &Trainable::Nothing, Seed(1), &Device::Cpu).unwrap();
            let difference = apart(&logits(&decoder, &tokens), &expected);
            assert!(difference < 1e-5, "{name}: {difference}");
        }
        assert!(apart(&expected, &case.tensors["logits"]) > 1e-2, "{name}: the adapter does nothing");
    }
}

#[test]
fn an_adapter_run_of_every_family_computes_gradients_of_the_adapter_alone() {
    for name in CASES {
        let case = Case::open(name);
        let decoder = case.adapted();
        let (packed, _) = case.packed();
        let hidden = decoder.hidden_states(&packed.sequence).unwrap();
        let values = decoder.log_probabilities(&hidden, &packed.rows, &packed.targets).unwrap();
        let gradients = values.sum_all().unwrap().backward().unwrap();
        // One more that Candle computes unasked: at the embedded tokens, which enter the first residual sum.
        assert_eq!(gradients.get_ids().count(), decoder.parameters().len() + 1, "{name}");
    }
}

fn export(config: &ModelConfig, weights: &Weights, folder: &Path) -> PathBuf {
    let tokenizer = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/token/tiny");
    let card = ModelCard {
        base_model: "tiny".to_owned(),
        content: CardContent::Model,
        stage: "sft".to_owned(),
        datasets: Vec::new(),
        facts: Vec::new(),
    };
    let path = folder.join("final");
    let export = ModelExport {
        config: &config.json,
        generation_config: None,
        weights: &weights.0,
        tokenizer: &ChatTokenizer::load(&tokenizer).unwrap(),
        card: &card,
    };
    export.write(&path).unwrap();
    path
}

#[test]
fn every_family_exports_what_it_read_whether_from_a_folder_or_a_gguf_file() {
    for name in CASES {
        let case = Case::open(name);
        for source in std::iter::once(case.model.clone()).chain(case.gguf()) {
            let folder = tempfile::tempdir().unwrap();
            let (config, weights) = source.read(&Device::Cpu).unwrap();
            let path = export(&config, &weights, folder.path());
            let (again, tensors) = LocalModel { path }.read(&Device::Cpu).unwrap();
            assert_eq!(again.json["architectures"][0], config.family.architecture(), "{name}");
            assert_eq!(again.json["torch_dtype"], "float32", "{name}");
            assert_eq!(again.inverse_frequencies(), config.inverse_frequencies(), "{name}");
            assert_eq!(tensors.0.keys().collect::<Vec<_>>(), weights.0.keys().collect::<Vec<_>>(), "{name}");
            for (tensor, expected) in &weights.0 {
                assert_eq!(apart(&tensors.0[tensor], expected), 0.0, "{name}: {tensor}");
            }
        }
    }
}

#[test]
fn an_adapter_of_another_model_is_refused_by_the_names_that_do_not_fit() {
    let adapter = |name: &str| Case::open(name).starting("adapter.");
    let settings = || AdapterConfig { lora: Case::open("llama").lora(), base_model: None };
    // Wider heads, more layers, another rank.
    for (base, other, said) in [
        ("qwen2", "qwen3", "does not fit this model"),
        ("qwen2", "smollm3", "no place in this model"),
        ("smollm2", "llama", "does not fit this model"),
    ] {
        let (_, weights) = Case::open(base).model.read(&Device::Cpu).unwrap();
        let error = weights.merge_adapter(&settings(), &adapter(other), "adapter").unwrap_err();
        assert_eq!(error.exit_status(), 2, "{base} under {other}: {error}");
        assert!(error.to_string().contains(said), "{base} under {other}: {error}");
    }
    let mut wider = settings();
    wider.lora.rank = NonZeroUsize::new(4).unwrap();
    let (_, weights) = Case::open("llama").model.read(&Device::Cpu).unwrap();
    let error = weights.merge_adapter(&wider, &adapter("llama"), "adapter").unwrap_err();
    assert!(error.exit_status() == 2 && error.to_string().contains("expected rank 4"), "{error}");
}

#[test]
fn weights_of_one_family_are_refused_under_the_config_of_another() {
    for (config, weights, said) in [
        ("qwen3", "llama", "`model.layers.0.self_attn.k_norm.weight` is missing"),
        ("llama", "qwen2", "q_proj.bias` belongs to no `llama` decoder"),
        ("qwen2", "llama", "q_proj.bias` is missing"),
    ] {
        let (config, _) = Case::open(config).model.read(&Device::Cpu).unwrap();
        let (_, weights) = Case::open(weights).model.read(&Device::Cpu).unwrap();
        let error = weights.check(&config, "model").unwrap_err();
        assert!(error.exit_status() == 2 && error.to_string().contains(said), "{error}");
    }
}
