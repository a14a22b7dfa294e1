//! Claims about `model`.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

mod families;
mod files;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use candle_core::{DType, Device, Tensor};
use candle_transformers::models::llama as oracle;
use topalign::checkpoint;
use topalign::dataset::{Message, Role};
use topalign::kernel::composed::on_composed_path;
use topalign::model::{Decoder, KeyValueCache, LocalModel, ModelConfig, Step, Trainable, Weights};
use topalign::recipe::settings::{AdapterScaling, LoraSettings, Positive, Projection, Share};
use topalign::run::seed::Seed;
use topalign::scratch::{self, Shape, Start};
use topalign::token::{ChatTokenizer, PackedSequence, Tree, pack};

fn shape() -> Shape {
    Shape {
        hidden_size: 32,
        intermediate_size: 64,
        layers: 2,
        heads: 4,
        key_value_heads: 2,
        vocabulary: 300,
        context: 512,
        start: Start::Random,
    }
}

/// A tiny random model in a folder of its own.
pub fn tiny(folder: &Path) -> LocalModel {
    scratch::write(folder, &["a few words to merge, words to merge".to_owned()], &shape(), Seed(3)).unwrap();
    LocalModel { path: folder.to_path_buf() }
}

fn decoder(model: &LocalModel, trainable: &Trainable) -> Decoder {
    let (config, weights) = model.read(&Device::Cpu).unwrap();
    Decoder::new(config, weights, trainable, Seed(5), &Device::Cpu).unwrap()
}

fn lora() -> Trainable {
    Trainable::Lora(LoraSettings {
        rank: NonZeroUsize::new(4).unwrap(),
        alpha: Positive::try_from(8.0).unwrap(),
        dropout: Share::ZERO,
        target_modules: Projection::ALL.to_vec(),
        scaling: AdapterScaling::Lora,
    })
}

fn largest(tensor: &Tensor) -> f32 {
    tensor.abs().unwrap().max_all().unwrap().to_scalar().unwrap()
}

/// Logits after the last token by candle-transformers.
fn oracle_logits(config: &ModelConfig, weights: &Weights, tokens: &[u32]) -> Tensor {
    let config = oracle::Config {
        hidden_size: config.hidden_size,
        intermediate_size: config.intermediate_size,
        vocab_size: config.vocabulary,
        num_hidden_layers: config.layers,
        num_attention_heads: config.heads,
        num_key_value_heads: config.key_value_heads,
        use_flash_attn: false,
        rms_norm_eps: config.norm_epsilon,
        rope_theta: config.rope_theta as f32,
        bos_token_id: None,
        eos_token_id: None,
        rope_scaling: config.rope_scaling.map(|scaling| oracle::Llama3RopeConfig {
            factor: scaling.factor as f32,
            low_freq_factor: scaling.low_frequency_factor as f32,
            high_freq_factor: scaling.high_frequency_factor as f32,
            original_max_position_embeddings: scaling.original_context as usize,
            rope_type: oracle::Llama3RopeType::Llama3,
        }),
        max_position_embeddings: config.context,
        tie_word_embeddings: config.tied,
    };
    let tensors = weights.0.iter().map(|(name, tensor)| (name.clone(), tensor.clone())).collect();
    let builder = candle_nn::VarBuilder::from_tensors(tensors, DType::F32, &Device::Cpu);
    let model = oracle::Llama::load(builder, &config).unwrap();
    let mut cache = oracle::Cache::new(false, DType::F32, &config, &Device::Cpu).unwrap();
    model
        .forward(&Tensor::new(tokens, &Device::Cpu).unwrap().unsqueeze(0).unwrap(), 0, &mut cache)
        .unwrap()
        .squeeze(0)
        .unwrap()
}

fn assert_logits_agree(model: &LocalModel, tokens: &[u32], name: &str) {
    let (config, weights) = model.read(&Device::Cpu).unwrap();
    assert_same_logits(config, weights, tokens, name);
}

fn assert_same_logits(config: ModelConfig, weights: Weights, tokens: &[u32], name: &str) {
    let expected = oracle_logits(&config, &weights, tokens);
    let decoder = Decoder::new(config, weights, &Trainable::Nothing, Seed(1), &Device::Cpu).unwrap();
    let hidden = decoder.hidden_states(&PackedSequence::single(tokens)).unwrap();
    let logits = decoder.logits(&hidden, &[tokens.len() as u32 - 1]).unwrap().squeeze(0).unwrap();
    let difference = largest(&(logits - expected).unwrap());
    println!("{name}: largest difference of logits from candle-transformers {difference:e}");
    assert!(difference < 1e-3, "{name}: {difference}");
}

#[test]
fn logits_equal_those_of_candle_transformers() {
    let folder = tempfile::tempdir().unwrap();
    let model = tiny(&folder.path().join("model"));
    let tokens: Vec<u32> = (0..200).map(|index| (index * 37) % 250).collect();
    assert_logits_agree(&model, &tokens, "tiny random");
}

/// A model with attention laid out, or none, that has seen nothing.
fn started(start: Start, folder: &Path) -> LocalModel {
    let shape = Shape { hidden_size: 128, heads: 4, key_value_heads: 4, layers: 3, start, ..shape() };
    let texts = ["a few words to merge, \"grocery_total\": \"$12.50\", Grocery total: words to merge".to_owned()];
    scratch::write(folder, &texts, &shape, Seed(3)).unwrap();
    LocalModel { path: folder.to_path_buf() }
}

/// Log-probabilities of the tokens from `from` on, [length - from].
fn log_probabilities(decoder: &Decoder, tokens: &[u32], from: usize) -> Vec<f32> {
    let hidden = decoder.hidden_states(&PackedSequence::single(tokens)).unwrap();
    let places: Vec<u32> = (from as u32 - 1..tokens.len() as u32 - 1).collect();
    let logits = decoder.logits(&hidden, &places).unwrap();
    let all = candle_nn::ops::log_softmax(&logits, 1).unwrap().to_vec2::<f32>().unwrap();
    places.iter().zip(&all).map(|(&place, row)| row[tokens[place as usize + 1] as usize]).collect()
}

/// Mean log-probability of the second of two equal runs of tokens that all differ.
fn log_probability_of_a_repetition(start: Start) -> f32 {
    let folder = tempfile::tempdir().unwrap();
    let decoder = decoder(&started(start, folder.path()), &Trainable::Nothing);
    let once: Vec<u32> = (0..40).map(|index| (index * 37) % 250).collect();
    let tokens: Vec<u32> = once.iter().chain(&once).copied().collect();
    // What follows the first token of the second run is told by the first run.
    let told = log_probabilities(&decoder, &tokens, 41);
    told.iter().sum::<f32>() / told.len() as f32
}

#[test]
fn a_model_laid_out_to_copy_repeats_before_any_training_and_a_random_one_does_not() {
    let (copying, random) =
        (log_probability_of_a_repetition(Start::Copying), log_probability_of_a_repetition(Start::Random));
    println!("mean log-probability of a repetition: copying {copying:.2}, random {random:.2}");
    assert!(copying > random + 2.0, "{copying} against {random}");
}

#[test]
fn a_model_laid_out_to_copy_finds_a_value_by_its_key_before_any_training() {
    let folder = tempfile::tempdir().unwrap();
    let model = started(Start::Copying, folder.path());
    let tokenizer = tokenizers::Tokenizer::from_file(model.path.join("tokenizer.json")).unwrap();
    let decoder = decoder(&model, &Trainable::Nothing);
    let results = r#"{"bus_fare": "39.20", "grocery_total": "46.75", "parcel_number": "81-63"}"#;
    for (label, value) in [("Bus fare", "39"), ("Grocery total", "46"), ("Parcel number", "81")] {
        let ids = |text: &str| tokenizer.encode(text, false).unwrap().get_ids().to_vec();
        let prompt = ids(&format!("{results}\n{label}: "));
        let likelihood = |value: &str| {
            let tokens = [prompt.clone(), ids(value)].concat();
            log_probabilities(&decoder, &tokens, prompt.len()).iter().sum::<f32>()
        };
        let others = ["39", "46", "81"].into_iter().filter(|&other| other != value);
        assert!(others.map(likelihood).all(|other| other < likelihood(value) - 1.0), "{label}");
    }
}

/// A tiny model with a head of its own and Llama 3's rotary scaling, whose three ranges the frequencies cover.
fn untied_and_scaled(folder: &Path) -> (ModelConfig, Weights) {
    let (config, mut weights) = tiny(folder).read(&Device::Cpu).unwrap();
    let mut json = config.json;
    json["tie_word_embeddings"] = false.into();
    json["rope_scaling"] = serde_json::json!({
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 128,
    });
    let head = Tensor::randn(0_f32, 0.05, (config.vocabulary, config.hidden_size), &Device::Cpu).unwrap();
    weights.0.insert("lm_head.weight".to_owned(), head);
    (ModelConfig::from_json(json, "test").unwrap(), weights)
}

#[test]
fn logits_with_an_untied_head_and_scaled_rotary_equal_those_of_candle_transformers() {
    let folder = tempfile::tempdir().unwrap();
    let (config, weights) = untied_and_scaled(&folder.path().join("model"));
    let plain = ModelConfig { rope_scaling: None, ..config.clone() }.inverse_frequencies();
    let ratios: Vec<f64> =
        plain.iter().zip(config.inverse_frequencies()).map(|(plain, scaled)| plain / scaled).collect();
    assert!(
        ratios.contains(&1.0) && ratios.contains(&8.0) && ratios.iter().any(|ratio| (1.1..7.9).contains(ratio)),
        "{ratios:?}"
    );
    let tokens: Vec<u32> = (0..200).map(|index| (index * 37) % 250).collect();
    assert_same_logits(config, weights, &tokens, "untied, scaled rotary");
}

#[test]
fn logits_of_smollm2_equal_those_of_candle_transformers() {
    let default = "checkpoints/smollm2-135m-instruct-gguf/SmolLM2-135M-Instruct.Q4_1.gguf";
    let path = std::env::var_os("TOPALIGN_SMOLLM2")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join(default), PathBuf::from);
    if !path.exists() {
        println!("skipped: no SmolLM2 weights (scripts/fetch-smollm2 fetches them)");
        return;
    }
    let tokens: Vec<u32> = [1, 4093, 198, 1780, 314, 260, 3575, 282, 4649, 47, 2, 198].to_vec();
    let model = LocalModel { path };
    assert_logits_agree(&model, &tokens, "SmolLM2-135M-Instruct");
    // The oracle shares our reading of the file. Rows of queries and keys in the wrong order would show only here.
    let question = [Message { role: Role::User, content: "What is the capital of France?".to_owned() }];
    let tokenizer = ChatTokenizer::load(&model.path).unwrap();
    let tree = tokenizer.encode_tree(&question, &[("a", "The capital of France is Paris.")]).unwrap();
    let (sums, _) = weighted(&decoder(&model, &Trainable::Full), &[&tree], &[1.0]);
    let loss = -sums[0] / tree.answers[0].len() as f32;
    println!("SmolLM2-135M-Instruct: loss of a plain answer {loss}");
    assert!(loss < 1.0, "{loss}");
}

fn tree() -> Tree {
    Tree {
        row_ids: vec!["a".into(), "b".into(), "c".into()],
        prompt: (10..40).collect(),
        answers: vec![(50..70).collect(), (90..95).collect(), (120..150).rev().collect()],
    }
}

/// Sum of log-probabilities of each answer, weighted, with its gradients.
fn weighted(decoder: &Decoder, trees: &[&Tree], weights: &[f32]) -> (Vec<f32>, candle_core::backprop::GradStore) {
    let packed = pack(trees);
    let hidden = decoder.hidden_states(&packed.sequence).unwrap();
    let values = decoder.log_probabilities(&hidden, &packed.rows, &packed.targets).unwrap();
    let flat: Vec<f32> = values.to_vec1().unwrap();
    let mut sums = vec![0.0; weights.len()];
    for (value, answer) in flat.iter().zip(&packed.answer_of_row) {
        sums[*answer] += value;
    }
    let scale: Vec<f32> = packed.answer_of_row.iter().map(|answer| weights[*answer]).collect();
    let loss = (values * Tensor::new(scale, &Device::Cpu).unwrap()).unwrap().sum_all().unwrap();
    (sums, loss.backward().unwrap())
}

#[test]
fn packed_trees_equal_separate_sequences_in_values_and_gradients() {
    let folder = tempfile::tempdir().unwrap();
    let model = tiny(&folder.path().join("model"));
    for trainable in [Trainable::Full, lora()] {
        let decoder = decoder(&model, &trainable);
        randomise_b(&decoder);
        let tree = tree();
        let weights = [0.5, -0.3, 1.5];
        let (together, gradients) = weighted(&decoder, &[&tree], &weights);
        let mut sums: BTreeMap<String, Tensor> = BTreeMap::new();
        for (index, answer) in tree.answers.iter().enumerate() {
            let single = Tree { row_ids: vec![], prompt: tree.prompt.clone(), answers: vec![answer.clone()] };
            let (alone, separate) = weighted(&decoder, &[&single], &weights[index..=index]);
            assert!((alone[0] - together[index]).abs() < 1e-4, "{} {}", alone[0], together[index]);
            for (name, variable) in decoder.parameters() {
                let gradient = separate.get(variable).unwrap().clone();
                let sum = match sums.remove(name) {
                    Some(sum) => (sum + gradient).unwrap(),
                    None => gradient,
                };
                sums.insert(name.clone(), sum);
            }
        }
        let mut worst: f32 = 0.0;
        for (name, variable) in decoder.parameters() {
            let packed = gradients.get(variable).unwrap();
            worst = worst.max(largest(&(packed - &sums[name]).unwrap()) / largest(&sums[name]).max(1e-3));
        }
        println!("largest relative difference of gradients {worst:e}");
        assert!(worst < 1e-4, "{worst}");
    }
}

/// B starts at zero, where A's gradient vanishes: tests that look at gradients move it.
fn randomise_b(decoder: &Decoder) {
    for (name, variable) in decoder.parameters().iter().filter(|(name, _)| name.ends_with("lora_B.weight")) {
        let count = variable.elem_count();
        let values: Vec<f32> = (0..count).map(|index| ((index * 31 + name.len()) % 17) as f32 / 100.0 - 0.08).collect();
        variable.set(&Tensor::from_vec(values, variable.shape(), &Device::Cpu).unwrap()).unwrap();
    }
}

#[test]
fn rows_packed_together_do_not_see_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let decoder = decoder(&tiny(&folder.path().join("model")), &Trainable::Nothing);
    let (first, second) =
        (tree(), Tree { prompt: (200..260).collect(), answers: vec![vec![7, 8, 9]], row_ids: vec![] });
    let edited = Tree { prompt: (100..130).collect(), ..first.clone() };
    let last = |trees: &[&Tree]| {
        let packed = pack(trees);
        let hidden = decoder.hidden_states(&packed.sequence).unwrap();
        let values =
            decoder.log_probabilities(&hidden, &packed.rows, &packed.targets).unwrap().to_vec1::<f32>().unwrap();
        values[values.len() - 3..].to_vec()
    };
    assert_eq!(last(&[&first, &second]), last(&[&edited, &second]));
}

#[test]
fn every_trainable_tensor_gets_a_gradient_and_the_check_names_one_that_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let model = tiny(&folder.path().join("model"));
    for trainable in [Trainable::Full, lora()] {
        let decoder = decoder(&model, &trainable);
        let (_, gradients) = weighted(&decoder, &[&tree()], &[1.0, 1.0, 1.0]);
        topalign::model::check_gradients(&gradients, &decoder).unwrap();
        let (_, elsewhere) = weighted(&decoder_like(&model, &trainable), &[&tree()], &[1.0, 1.0, 1.0]);
        let error = topalign::model::check_gradients(&elsewhere, &decoder).unwrap_err();
        assert!(error.to_string().contains("has no gradient"), "{error}");
    }
}

#[test]
fn an_adapter_run_computes_gradients_of_the_adapter_alone() {
    let folder = tempfile::tempdir().unwrap();
    let decoder = decoder(&tiny(&folder.path().join("model")), &lora());
    let (_, gradients) = weighted(&decoder, &[&tree()], &[1.0, 1.0, 1.0]);
    // Two more that Candle computes unasked: at the constant of the loss above, and at the embedded tokens, which enter the
    // first residual sum. None of the base's 20 tensors has one.
    assert_eq!(gradients.get_ids().count(), decoder.parameters().len() + 2);
}

#[test]
fn an_adapter_that_has_moved_needs_a_gradient_at_both_its_matrices() {
    let folder = tempfile::tempdir().unwrap();
    let decoder = decoder(&tiny(&folder.path().join("model")), &lora());
    let (_, at_start) = weighted(&decoder, &[&tree()], &[1.0, 1.0, 1.0]);
    topalign::model::check_gradients(&at_start, &decoder).unwrap();
    randomise_b(&decoder);
    let error = topalign::model::check_gradients(&at_start, &decoder).unwrap_err();
    assert!(error.to_string().contains("lora_A.weight` has a gradient that is all zero"), "{error}");
}

#[test]
fn the_same_weights_and_tokens_give_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let decoder = decoder(&tiny(&folder.path().join("model")), &Trainable::Full);
    let run = || {
        let (values, gradients) = weighted(&decoder, &[&tree(), &tree()], &[0.5, -0.3, 1.5, 1.0, 0.1, 2.0]);
        let flat = |variable| gradients.get(variable).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
        (values, decoder.parameters().values().map(|variable| flat(variable.as_tensor())).collect::<Vec<_>>())
    };
    assert_eq!(run(), run());
}

#[test]
fn an_adapter_starts_as_nothing_and_from_its_seed() {
    let folder = tempfile::tempdir().unwrap();
    let model = tiny(&folder.path().join("model"));
    let (adapted, base) = (decoder(&model, &lora()), decoder(&model, &Trainable::Nothing));
    let sequence = PackedSequence::single(&(0..60).collect::<Vec<_>>());
    let logits = |decoder: &Decoder| decoder.logits(&decoder.hidden_states(&sequence).unwrap(), &[59]).unwrap();
    assert!(largest(&(logits(&adapted) - logits(&base)).unwrap()) < 1e-6);
    let (config, weights) = model.read(&Device::Cpu).unwrap();
    let other = Decoder::new(config, weights, &lora(), Seed(6), &Device::Cpu).unwrap();
    let again = decoder_like(&model, &lora());
    let name = "base_model.model.model.layers.1.mlp.down_proj.lora_A.weight";
    let a = |decoder: &Decoder| decoder.parameters()[name].flatten_all().unwrap().to_vec1::<f32>().unwrap();
    assert_eq!(a(&adapted), a(&again));
    assert_ne!(a(&adapted), a(&other));
    assert!(a(&adapted).iter().all(|value| value.abs() <= 0.125), "uniform within 1 / sqrt(64)");
}

#[test]
fn a_segment_that_continues_a_later_one_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let decoder = decoder(&tiny(&folder.path().join("model")), &Trainable::Nothing);
    let mut sequence = PackedSequence::single(&[1, 2, 3]);
    sequence.segments[0].parent = Some(0);
    assert!(decoder.hidden_states(&sequence).is_err());
    sequence.segments[0].parent = Some(9);
    assert!(decoder.hidden_states(&sequence).is_err());
}

#[test]
fn tokens_and_positions_out_of_range_are_faults() {
    let folder = tempfile::tempdir().unwrap();
    let decoder = decoder(&tiny(&folder.path().join("model")), &Trainable::Nothing);
    let vocabulary = decoder.config().vocabulary as u32;
    for tokens in [vec![1, vocabulary], vec![1; 513]] {
        let error = decoder.hidden_states(&PackedSequence::single(&tokens)).unwrap_err();
        assert_eq!(error.exit_status(), 2, "{error}");
        let mut cache = KeyValueCache::default();
        let error = decoder.decode(&mut [Step { tokens: &tokens, cache: &mut cache }]).unwrap_err();
        assert_eq!((error.exit_status(), cache.tokens()), (2, 0), "{error}");
    }
}

fn decoder_like(model: &LocalModel, trainable: &Trainable) -> Decoder {
    decoder(model, trainable)
}

#[test]
fn a_model_stored_in_half_the_bytes_says_so_and_answers_alike() {
    let folder = tempfile::tempdir().unwrap();
    let model = tiny(&folder.path().join("model"));
    let half = folder.path().join("half");
    checkpoint::merge(&model.path, "tiny", None, DType::BF16, &half).unwrap();
    let bytes = |path: &Path| std::fs::metadata(path.join("model.safetensors")).unwrap().len();
    assert!(bytes(&half) * 10 < bytes(&model.path) * 6);
    let half = LocalModel { path: half };
    let (config, _) = half.read(&Device::Cpu).unwrap();
    assert_eq!(config.json["torch_dtype"], "bfloat16");
    let tokens: Vec<u32> = (0..30).collect();
    let logits = |model: &LocalModel| {
        let decoder = decoder(model, &Trainable::Nothing);
        decoder.logits(&decoder.hidden_states(&PackedSequence::single(&tokens)).unwrap(), &[29]).unwrap()
    };
    let difference = largest(&(logits(&model) - logits(&half)).unwrap());
    assert!(difference > 0.0 && difference < 0.05, "{difference}");
}

#[test]
fn a_merged_adapter_equals_the_adapter() {
    let folder = tempfile::tempdir().unwrap();
    let model = tiny(&folder.path().join("model"));
    let adapted = decoder(&model, &lora());
    randomise_b(&adapted);
    let merged_weights = Weights(adapted.merged_weights().unwrap());
    let (config, _) = model.read(&Device::Cpu).unwrap();
    let merged = Decoder::new(config, merged_weights, &Trainable::Nothing, Seed(1), &Device::Cpu).unwrap();
    let sequence = PackedSequence::single(&(0..60).collect::<Vec<_>>());
    let logits = |decoder: &Decoder| decoder.logits(&decoder.hidden_states(&sequence).unwrap(), &[59]).unwrap();
    assert!(largest(&(logits(&adapted) - logits(&merged)).unwrap()) < 1e-5);
    let base = decoder_like(&model, &Trainable::Nothing);
    assert!(largest(&(logits(&adapted) - logits(&base)).unwrap()) > 1e-3);
    assert!(largest(&(logits(&adapted.without_adapter()) - logits(&base)).unwrap()) == 0.0);
}

#[test]
fn cached_decoding_equals_the_full_forward_whatever_the_batch() {
    assert_decoding();
    on_composed_path(assert_decoding);
}

fn assert_decoding() {
    let folder = tempfile::tempdir().unwrap();
    let decoder = decoder(&tiny(&folder.path().join("model")), &Trainable::Nothing);
    let sequences: [Vec<u32>; 3] = [(0..40).collect(), (100..107).collect(), (20..260).collect()];
    let mut caches: Vec<KeyValueCache> = (0..3).map(|_| KeyValueCache::default()).collect();
    let mut steps: Vec<Step<'_>> = sequences
        .iter()
        .zip(&mut caches)
        .map(|(tokens, cache)| Step { tokens: &tokens[..tokens.len() - 2], cache })
        .collect();
    decoder.decode(&mut steps).unwrap();
    for back in [2, 1] {
        let mut steps: Vec<Step<'_>> = sequences
            .iter()
            .zip(&mut caches)
            .map(|(tokens, cache)| Step { tokens: &tokens[tokens.len() - back..=tokens.len() - back], cache })
            .collect();
        let logits = decoder.decode(&mut steps).unwrap();
        for (index, tokens) in sequences.iter().enumerate() {
            let read = &tokens[..=tokens.len() - back];
            let hidden = decoder.hidden_states(&PackedSequence::single(read)).unwrap();
            let full = decoder.logits(&hidden, &[read.len() as u32 - 1]).unwrap().squeeze(0).unwrap();
            let difference = largest(&(logits.get(index).unwrap() - full).unwrap());
            assert!(difference < 1e-4, "{difference}");
        }
    }
}
