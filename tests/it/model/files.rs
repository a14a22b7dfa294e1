//! Claims about reading models: folders, shards, GGUF files, faults.

use std::collections::BTreeMap;

use candle_core::quantized::{GgmlDType, QTensor, gguf_file};
use candle_core::{DType, Device, Tensor};
use topalign::checkpoint::SourceModel;
use topalign::error::Error;
use topalign::kernel::FrozenWeight;
use topalign::model::{Compact, Decoder, LocalModel, ModelConfig, ModelSource, Trainable, Weights};
use topalign::recipe::settings::BaseStorage;
use topalign::run::seed::Seed;
use topalign::token::PackedSequence;

use super::{largest, lora, randomise_b, tiny};

fn assert_same_tensors(read: &Weights, expected: &Weights) {
    assert_eq!(read.0.keys().collect::<Vec<_>>(), expected.0.keys().collect::<Vec<_>>());
    for (name, tensor) in &read.0 {
        assert_eq!(tensor.dtype(), DType::F32);
        assert!(largest(&(tensor - &expected.0[name]).unwrap()) == 0.0, "{name}");
    }
}

/// The inverse of what reading does: llama.cpp pairs neighbours of a head, Hugging Face pairs i with i + size / 2.
fn to_neighbours(tensor: &Tensor, head_size: usize) -> Tensor {
    let (output, input) = tensor.dims2().unwrap();
    let split = tensor.reshape((output / head_size, 2, head_size / 2, input)).unwrap();
    split.transpose(1, 2).unwrap().contiguous().unwrap().reshape((output, input)).unwrap()
}

/// Writes a GGUF file as llama.cpp names and orders things; `factors` is its table of rotary divisors.
fn write_gguf(path: &std::path::Path, config: &ModelConfig, weights: &Weights, factors: Option<Vec<f32>>) {
    write_gguf_as(path, config, weights, factors, GgmlDType::F32);
}

/// [`write_gguf`] with matrices in this format.
fn write_gguf_as(
    path: &std::path::Path,
    config: &ModelConfig,
    weights: &Weights,
    factors: Option<Vec<f32>>,
    format: GgmlDType,
) {
    let mut tensors = BTreeMap::new();
    for (name, tensor) in &weights.0 {
        let mut target = name.replace("model.layers.", "blk.");
        for (from, to) in [
            ("model.embed_tokens", "token_embd"),
            ("model.norm", "output_norm"),
            ("lm_head", "output"),
            ("input_layernorm", "attn_norm"),
            ("post_attention_layernorm", "ffn_norm"),
            ("self_attn.o_proj", "attn_output"),
            ("self_attn.", "attn_"),
            ("mlp.", "ffn_"),
            ("_proj.weight", ".weight"),
        ] {
            target = target.replace(from, to);
        }
        let turned = name.contains("q_proj") || name.contains("k_proj");
        let tensor = if turned { to_neighbours(tensor, config.head_size) } else { tensor.clone() };
        let format = if tensor.rank() > 1 { format } else { GgmlDType::F32 };
        tensors.insert(target, QTensor::quantize(&tensor, format).unwrap());
    }
    if let Some(factors) = factors {
        let table = Tensor::new(factors, &Device::Cpu).unwrap();
        tensors.insert("rope_freqs.weight".to_owned(), QTensor::quantize(&table, GgmlDType::F32).unwrap());
    }
    let number = |value: usize| gguf_file::Value::U32(value as u32);
    let metadata = [
        ("general.architecture", gguf_file::Value::String("llama".to_owned())),
        ("llama.embedding_length", number(config.hidden_size)),
        ("llama.feed_forward_length", number(config.intermediate_size)),
        ("llama.block_count", number(config.layers)),
        ("llama.attention.head_count", number(config.heads)),
        ("llama.attention.head_count_kv", number(config.key_value_heads)),
        ("llama.context_length", number(config.context)),
        ("llama.attention.layer_norm_rms_epsilon", gguf_file::Value::F32(config.norm_epsilon as f32)),
        ("llama.rope.freq_base", gguf_file::Value::F32(config.rope_theta as f32)),
    ];
    let metadata: Vec<(&str, &gguf_file::Value)> = metadata.iter().map(|(key, value)| (*key, value)).collect();
    let tensors: Vec<(&str, &QTensor)> = tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
    gguf_file::write(&mut std::fs::File::create(path).unwrap(), &metadata, &tensors).unwrap();
}

#[test]
fn a_gguf_file_reads_as_the_folder_that_it_was_made_from() {
    let folder = tempfile::tempdir().unwrap();
    let (config, weights) = tiny(&folder.path().join("model")).read(&Device::Cpu).unwrap();
    let path = folder.path().join("model.gguf");
    write_gguf(&path, &config, &weights, None);
    let (read, tensors) = LocalModel { path }.read(&Device::Cpu).unwrap();
    let without_json = |config: &ModelConfig| ModelConfig { json: serde_json::Value::Null, ..config.clone() };
    assert_eq!(without_json(&read), without_json(&config));
    assert_same_tensors(&tensors, &weights);
}

/// Logits after the last token, and the gradients of an adapter that has moved.
fn computed(base: (ModelConfig, Weights, Compact)) -> (Vec<f32>, BTreeMap<String, Vec<f32>>) {
    let (config, weights, compact) = base;
    let decoder = Decoder::on_base(config, weights, compact, &lora(), Seed(5), &Device::Cpu).unwrap();
    randomise_b(&decoder);
    let hidden = decoder.hidden_states(&PackedSequence::single(&[5, 80, 3, 17])).unwrap();
    let logits = decoder.logits(&hidden, &[3]).unwrap();
    let gradients = logits.sqr().unwrap().sum_all().unwrap().backward().unwrap();
    let flat = |tensor: &Tensor| tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap();
    let named = |(name, variable): (&String, &candle_core::Var)| (name.clone(), flat(gradients.get(variable).unwrap()));
    (flat(&logits), decoder.parameters().iter().map(named).collect())
}

#[test]
fn a_base_kept_as_it_is_stored_computes_the_same_and_takes_less_memory() {
    let folder = tempfile::tempdir().unwrap();
    let model = tiny(&folder.path().join("model"));
    let (config, weights) = model.read(&Device::Cpu).unwrap();
    let wide: usize =
        weights.0.iter().filter(|(name, _)| name.contains("_proj")).map(|(_, w)| 4 * w.elem_count()).sum();
    let gguf = LocalModel { path: folder.path().join("model.gguf") };
    write_gguf_as(&gguf.path, &config, &weights, None, GgmlDType::Q8_0);
    let half = weights.0.iter().map(|(name, tensor)| (name.clone(), tensor.to_dtype(DType::BF16).unwrap()));
    let file = model.path.join("model.safetensors");
    candle_core::safetensors::save(&half.collect::<std::collections::HashMap<_, _>>(), file).unwrap();
    for (model, most) in [(gguf, 0.27), (model, 0.5)] {
        let stored = model.read_as(&Device::Cpu, BaseStorage::AsStored).unwrap();
        let bytes: usize = stored.2.0.values().map(FrozenWeight::bytes).sum();
        assert_eq!(stored.2.0.len(), 14, "seven projections in each of two layers");
        assert!(bytes as f64 <= most * wide as f64, "{bytes} of {wide} bytes");
        let full = Decoder::on_base(
            stored.0.clone(),
            stored.1.clone(),
            stored.2.clone(),
            &Trainable::Full,
            Seed(5),
            &Device::Cpu,
        );
        assert_eq!(full.unwrap_err().exit_status(), 2);
        let f32s = model.read_as(&Device::Cpu, BaseStorage::F32).unwrap();
        assert!(f32s.2.0.is_empty());
        assert_eq!(computed(stored), computed(f32s));
    }
}

#[test]
fn llama_3s_table_of_rotary_divisors_becomes_its_scaling_and_any_other_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (config, weights) = tiny(&folder.path().join("model")).read(&Device::Cpu).unwrap();
    let mut json = config.json;
    json["rope_theta"] = 500_000.0.into();
    let config = ModelConfig::from_json(json.clone(), "test").unwrap();
    json["rope_scaling"] = serde_json::json!({"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 8192});
    let scaled = ModelConfig::from_json(json, "test").unwrap();
    let pairs = config.inverse_frequencies().into_iter().zip(scaled.inverse_frequencies());
    let table: Vec<f32> = pairs.map(|(plain, scaled)| (plain / scaled) as f32).collect();
    let path = folder.path().join("model.gguf");
    write_gguf(&path, &config, &weights, Some(table.clone()));
    let (read, _) = LocalModel { path: path.clone() }.read(&Device::Cpu).unwrap();
    assert_eq!(read.rope_scaling, scaled.rope_scaling);
    write_gguf(&path, &config, &weights, Some(vec![3.0; table.len()]));
    let error = LocalModel { path }.read(&Device::Cpu).unwrap_err();
    assert!(error.to_string().contains("unsupported table `rope_freqs.weight`"), "{error}");
}

#[test]
fn a_gguf_file_that_is_cut_short_is_a_named_fault() {
    let folder = tempfile::tempdir().unwrap();
    let (config, weights) = tiny(&folder.path().join("model")).read(&Device::Cpu).unwrap();
    let path = folder.path().join("model.gguf");
    write_gguf(&path, &config, &weights, None);
    let whole = std::fs::read(&path).unwrap();
    for length in [0, 3, 10, 200, whole.len() / 2, whole.len() - 1] {
        std::fs::write(&path, &whole[..length]).unwrap();
        let error = LocalModel { path: path.clone() }.read(&Device::Cpu).unwrap_err();
        assert!(error.exit_status() == 2 && error.to_string().contains("not a whole GGUF file"), "{length}: {error}");
    }
}

#[test]
fn shards_and_half_precision_read_as_one_file_in_full_precision() {
    let folder = tempfile::tempdir().unwrap();
    let model = tiny(&folder.path().join("model"));
    let (_, weights) = model.read(&Device::Cpu).unwrap();
    std::fs::remove_file(model.path.join("model.safetensors")).unwrap();
    let mut map = serde_json::Map::new();
    let mut shards = [std::collections::HashMap::new(), std::collections::HashMap::new()];
    for (index, (name, tensor)) in weights.0.iter().enumerate() {
        map.insert(name.clone(), format!("model-0000{}-of-00002.safetensors", 1 + index % 2).into());
        shards[index % 2].insert(name.clone(), tensor.to_dtype(DType::BF16).unwrap());
    }
    for (index, shard) in shards.iter().enumerate() {
        let file = model.path.join(format!("model-0000{}-of-00002.safetensors", index + 1));
        candle_core::safetensors::save(shard, file).unwrap();
    }
    let index = serde_json::json!({ "weight_map": map });
    std::fs::write(model.path.join("model.safetensors.index.json"), index.to_string()).unwrap();
    let rounded = |tensor: &Tensor| tensor.to_dtype(DType::BF16).unwrap().to_dtype(DType::F32).unwrap();
    let expected = Weights(weights.0.iter().map(|(name, tensor)| (name.clone(), rounded(tensor))).collect());
    assert_same_tensors(&model.read(&Device::Cpu).unwrap().1, &expected);
    std::fs::remove_file(model.path.join("model-00002-of-00002.safetensors")).unwrap();
    let error = model.read(&Device::Cpu).unwrap_err();
    assert!(error.exit_status() == 2 && error.to_string().contains("model-00002-of-00002.safetensors"), "{error}");
}

#[test]
fn missing_unexpected_and_misshaped_tensors_are_named_together() {
    let folder = tempfile::tempdir().unwrap();
    let (config, mut weights) = tiny(&folder.path().join("model")).read(&Device::Cpu).unwrap();
    let norm = weights.0.remove("model.norm.weight").unwrap();
    weights.0.insert("model.extra.weight".to_owned(), norm.clone());
    weights.0.insert("model.layers.1.mlp.up_proj.weight".to_owned(), norm);
    let Err(Error::Invalid(faults)) = weights.check(&config, "test") else { panic!("accepted") };
    let text = faults.iter().map(|fault| fault.what.as_str()).collect::<Vec<_>>().join("; ");
    assert_eq!(faults.len(), 3, "{text}");
    for name in [
        "`model.norm.weight` is missing",
        "`model.layers.1.mlp.up_proj.weight` has another shape",
        "`model.extra.weight` belongs",
    ] {
        assert!(text.contains(name), "{text}");
    }
}

#[test]
fn a_config_that_cannot_be_honoured_is_refused_with_every_reason() {
    let folder = tempfile::tempdir().unwrap();
    let (config, _) = tiny(&folder.path().join("model")).read(&Device::Cpu).unwrap();
    let refused = |changes: serde_json::Value, expected: &[&str]| {
        let mut json = config.json.clone();
        for (key, value) in changes.as_object().unwrap() {
            json[key] = value.clone();
        }
        let error = ModelConfig::from_json(json, "test").unwrap_err();
        assert_eq!(error.exit_status(), 2);
        for part in expected {
            assert!(error.to_string().contains(part), "{part}: {error}");
        }
    };
    refused(
        serde_json::json!({"model_type": "mistral", "hidden_act": "gelu"}),
        &["`model_type`, got `mistral`", "`llama`, `qwen2`, `qwen3`, `smollm3`", "`hidden_act`"],
    );
    refused(
        serde_json::json!({"model_type": "qwen2", "use_sliding_window": true, "sliding_window": 64}),
        &["`use_sliding_window`"],
    );
    refused(
        serde_json::json!({"model_type": "qwen3", "layer_types": ["full_attention", "sliding_attention"]}),
        &["`layer_types`, got `\"sliding_attention\"`"],
    );
    refused(
        serde_json::json!({"model_type": "smollm3", "no_rope_layers": [1]}),
        &["`no_rope_layers` does not fit the layers, got `1 entries`"],
    );
    refused(serde_json::json!({"partial_rotary_factor": 0.5}), &["`partial_rotary_factor`"]);
    refused(
        serde_json::json!({"model_type": null, "architectures": ["MistralForCausalLM"]}),
        &["got `MistralForCausalLM`"],
    );
    refused(
        serde_json::json!({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}),
        &["unsupported rope scaling, got `yarn`"],
    );
    refused(
        serde_json::json!({"rope_scaling": {"rope_type": "llama3", "factor": 0}}),
        &["`factor`", "`low_freq_factor`"],
    );
    refused(serde_json::json!({"hidden_size": 0, "rms_norm_eps": "small"}), &["`hidden_size`", "`rms_norm_eps`"]);
    refused(
        serde_json::json!({"hidden_size": u64::MAX, "num_hidden_layers": 1_000_000}),
        &["`hidden_size`", "`num_hidden_layers`"],
    );
    refused(serde_json::json!({"num_attention_heads": 1000, "head_dim": null}), &["head size"]);
    refused(serde_json::json!({"num_attention_heads": 3}), &["not a multiple"]);
    refused(serde_json::json!({"quantization_config": {"bits": 4}}), &["`quantization_config`"]);
}

#[test]
fn a_model_that_cannot_be_read_is_a_named_fault() {
    let folder = tempfile::tempdir().unwrap();
    let model = tiny(&folder.path().join("model"));
    let fails = |expected: &str| {
        let error = model.read(&Device::Cpu).unwrap_err();
        assert_eq!(error.exit_status(), 2, "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    };
    let weights = model.path.join("model.safetensors");
    let whole = std::fs::read(&weights).unwrap();
    std::fs::write(&weights, &whole[..whole.len() / 2]).unwrap();
    fails("not a whole safetensors file");
    std::fs::write(&weights, &whole[..4]).unwrap();
    fails("not a whole safetensors file");
    std::fs::remove_file(&weights).unwrap();
    fails("cannot read");
    std::fs::write(&weights, &whole).unwrap();
    let config = model.path.join("config.json");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text.replace("\"hidden_size\": 32", "\"hidden_size\": 64")).unwrap();
    fails("another shape");
    std::fs::write(&config, text.replace("\"llama\"", "\"mamba\"")).unwrap();
    fails("unsupported `model_type`, got `mamba`");
    std::fs::write(&config, "{").unwrap();
    fails("not valid JSON");
    std::fs::remove_file(&config).unwrap();
    fails("config.json");
}

/// The tiny model as shards with an index, and the index's path.
fn sharded(folder: &std::path::Path) -> (LocalModel, std::path::PathBuf) {
    let model = tiny(&folder.join("model"));
    let (_, weights) = model.read(&Device::Cpu).unwrap();
    std::fs::remove_file(model.path.join("model.safetensors")).unwrap();
    let mut map = serde_json::Map::new();
    for (index, half) in weights.0.iter().collect::<Vec<_>>().chunks(weights.0.len().div_ceil(2)).enumerate() {
        let name = format!("model-0000{}-of-00002.safetensors", index + 1);
        map.extend(half.iter().map(|(tensor, _)| ((*tensor).clone(), name.as_str().into())));
        let tensors: std::collections::HashMap<&str, Tensor> =
            half.iter().map(|(tensor, values)| (tensor.as_str(), (*values).clone())).collect();
        candle_core::safetensors::save(&tensors, model.path.join(name)).unwrap();
    }
    let index = model.path.join("model.safetensors.index.json");
    std::fs::write(&index, serde_json::json!({ "weight_map": map }).to_string()).unwrap();
    (model, index)
}

#[test]
fn an_index_or_shard_that_is_damaged_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (model, index) = sharded(folder.path());
    model.read(&Device::Cpu).unwrap();
    let whole = std::fs::read_to_string(&index).unwrap();
    let fails = |expected: &str| {
        let error = model.read(&Device::Cpu).unwrap_err();
        assert!(error.exit_status() == 2 && error.to_string().contains(expected), "{expected}: {error}");
    };
    for (text, expected) in [
        (whole[..whole.len() / 2].to_owned(), "not valid JSON"),
        (r#"{"metadata": {}}"#.to_owned(), "`weight_map` is missing"),
        (r#"{"weight_map": {}}"#.to_owned(), "`weight_map` names no file"),
        (r#"{"weight_map": {"model.norm.weight": 3}}"#.to_owned(), "`weight_map` does not name a file"),
        (whole.replacen("model-00001", "../model-00001", 1), "a file beside its index"),
        (whole.replacen("model-00001", "model-00002", 1), "is not in the file that the index names"),
        (whole.replacen("model.norm.weight", "model.other.weight", 1), "`model.other.weight` is not in the file"),
    ] {
        std::fs::write(&index, text).unwrap();
        fails(expected);
    }
    std::fs::write(&index, &whole).unwrap();
    let shard = model.path.join("model-00002-of-00002.safetensors");
    let bytes = std::fs::read(&shard).unwrap();
    std::fs::write(&shard, &bytes[..bytes.len() - 4]).unwrap();
    fails("model-00002-of-00002.safetensors");
    std::fs::write(&shard, b"\xff\xff\xff\xff\xff\xff\xff\x7f{").unwrap();
    fails("not a whole safetensors file");
}

#[test]
fn a_gguf_file_of_another_architecture_or_with_foreign_tensors_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (config, weights) = tiny(&folder.path().join("model")).read(&Device::Cpu).unwrap();
    let path = folder.path().join("model.gguf");
    write_gguf(&path, &config, &weights, None);
    let whole = std::fs::read(&path).unwrap();
    let replaced = |from: &[u8], to: &[u8]| {
        let at = whole.windows(from.len()).position(|window| window == from).unwrap();
        [&whole[..at], to, &whole[at + from.len()..]].concat()
    };
    for (bytes, expected) in [
        (replaced(b"llama", b"mamba"), "unsupported GGUF architecture"),
        (replaced(b"llama", b"qwen3"), "`hidden_size` is missing"),
        (replaced(b"blk.1.attn_q", b"blk.1.attn_x"), "`blk.1.attn_x.weight` belongs to no `llama` decoder"),
        (replaced(b"blk.1.attn_q", b"blk.7.attn_q"), "`model.layers.1.self_attn.q_proj.weight` is missing"),
    ] {
        std::fs::write(&path, bytes).unwrap();
        let error = LocalModel { path: path.clone() }.read(&Device::Cpu).unwrap_err();
        assert!(error.exit_status() == 2 && error.to_string().contains(expected), "{expected}: {error}");
    }
}

#[test]
fn an_embedding_of_another_size_than_the_vocabulary_is_refused_and_so_is_a_larger_tokenizer() {
    let folder = tempfile::tempdir().unwrap();
    let model = tiny(&folder.path().join("model"));
    let config = model.path.join("config.json");
    let mut json: serde_json::Value = serde_json::from_slice(&std::fs::read(&config).unwrap()).unwrap();
    let entries = json["vocab_size"].as_u64().unwrap();
    json["vocab_size"] = (entries + 1).into();
    std::fs::write(&config, json.to_string()).unwrap();
    let error = SourceModel::open(&model.path, &Device::Cpu).unwrap_err();
    let said = error.to_string();
    assert!(error.exit_status() == 2 && said.contains("`model.embed_tokens.weight` has another shape"), "{said}");
    json["vocab_size"] = 100.into();
    std::fs::write(&config, json.to_string()).unwrap();
    let file = model.path.join("model.safetensors");
    let mut tensors = candle_core::safetensors::load(&file, &Device::Cpu).unwrap();
    for name in ["model.embed_tokens.weight", "lm_head.weight"] {
        if let Some(tensor) = tensors.get_mut(name) {
            *tensor = tensor.narrow(0, 0, 100).unwrap().contiguous().unwrap();
        }
    }
    candle_core::safetensors::save(&tensors, &file).unwrap();
    let error = SourceModel::open(&model.path, &Device::Cpu).unwrap_err();
    assert!(error.exit_status() == 2 && error.to_string().contains("more entries than the model"), "{error}");
}

#[test]
fn a_source_is_a_folder_a_file_or_a_hub_id() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    assert!(matches!(ModelSource::parse(path), Ok(ModelSource::Folder(_))));
    assert!(matches!(ModelSource::parse("owner/name-1.5B"), Ok(ModelSource::Hub(_))));
    assert!(matches!(ModelSource::parse("./missing"), Err(Error::Invalid(_))));
    let missing = ModelSource::parse("./missing.gguf").unwrap().resolve().unwrap_err();
    assert_eq!(missing.exit_status(), 2);
}
