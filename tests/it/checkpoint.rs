//! Checkpoints on disk: whole or not at all, and what happens to damaged ones.

#![allow(
    clippy::unwrap_used,
    clippy::float_cmp,
    reason = "a test fails by panicking, and states exact values on purpose"
)]

use std::collections::BTreeMap;
use std::path::Path;

use candle_core::{Device, Tensor};
use topalign::checkpoint::{self, TrainingState};
use topalign::run::seed::Seed;

fn state(step: usize) -> TrainingState {
    TrainingState { step, epoch: 1, position: 4, tokens: 77, seed: Seed(5), run_digest: "r".to_owned() }
}

fn tensors(value: f32) -> BTreeMap<String, Tensor> {
    BTreeMap::from([("w".to_owned(), Tensor::new(&[[value, 2.0], [3.0, 4.0]], &Device::Cpu).unwrap())])
}

fn save(folder: &Path, step: usize) {
    checkpoint::save(folder, &state(step), &tensors(step as f32), &tensors(-1.0)).unwrap();
}

fn damage(path: &Path, how: fn(Vec<u8>) -> Vec<u8>) {
    let bytes = std::fs::read(path).unwrap();
    std::fs::write(path, how(bytes)).unwrap();
}

#[test]
fn a_checkpoint_reads_back_as_it_was_written() {
    let folder = tempfile::tempdir().unwrap();
    save(folder.path(), 3);
    let found = checkpoint::latest(folder.path(), &Device::Cpu).unwrap();
    assert!(found.skipped.is_empty());
    let found = found.checkpoint.unwrap();
    assert_eq!(found.state, state(3));
    assert_eq!(found.trainable["w"].to_vec2::<f32>().unwrap(), [[3.0, 2.0], [3.0, 4.0]]);
    assert_eq!(found.optimizer["w"].to_vec2::<f32>().unwrap()[0][0], -1.0);
}

#[test]
fn the_newest_checkpoint_is_the_one_with_the_most_steps() {
    let folder = tempfile::tempdir().unwrap();
    for step in [9, 10, 100] {
        save(folder.path(), step);
    }
    std::fs::create_dir(folder.path().join("checkpoint-best")).unwrap();
    checkpoint::prune(folder.path(), 2).unwrap();
    assert!(!folder.path().join("checkpoint-9").exists() && folder.path().join("checkpoint-best").exists());
    let found = checkpoint::latest(folder.path(), &Device::Cpu).unwrap();
    assert_eq!(found.checkpoint.unwrap().state.step, 100);
}

#[test]
fn a_damaged_checkpoint_is_named_and_the_last_good_one_is_used() {
    let cut: fn(Vec<u8>) -> Vec<u8> = |bytes| bytes[..bytes.len() / 2].to_vec();
    let flip: fn(Vec<u8>) -> Vec<u8> = |mut bytes| {
        *bytes.last_mut().unwrap() ^= 1;
        bytes
    };
    for (file, how) in [
        ("trainable.safetensors", cut),
        ("trainable.safetensors", flip),
        ("optimizer.safetensors", cut),
        ("state.json", cut),
        ("state.json", |_| Vec::new()),
    ] {
        let folder = tempfile::tempdir().unwrap();
        save(folder.path(), 1);
        save(folder.path(), 2);
        damage(&folder.path().join("checkpoint-2").join(file), how);
        let found = checkpoint::latest(folder.path(), &Device::Cpu).unwrap();
        assert_eq!(found.checkpoint.unwrap().state.step, 1, "{file}");
        assert_eq!(found.skipped.len(), 1);
        assert!(found.skipped[0].1.contains(file), "{:?}", found.skipped);

        damage(&folder.path().join("checkpoint-1").join(file), how);
        let error = checkpoint::latest(folder.path(), &Device::Cpu).unwrap_err();
        assert_eq!((error.exit_status(), error.hints().len()), (2, 2), "{error}");
    }
}

#[test]
fn an_empty_or_absent_folder_has_nothing_to_resume_and_that_is_no_error() {
    let folder = tempfile::tempdir().unwrap();
    for path in [folder.path().to_path_buf(), folder.path().join("absent")] {
        assert!(checkpoint::latest(&path, &Device::Cpu).unwrap().checkpoint.is_none());
    }
}

#[test]
fn saving_the_same_step_twice_replaces_it_and_leaves_no_temporary_folder() {
    let folder = tempfile::tempdir().unwrap();
    save(folder.path(), 1);
    save(folder.path(), 1);
    let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["checkpoint-1"]);
}

mod exports {
    //! Folders that transformers and PEFT load.

    use std::collections::BTreeMap;
    use std::num::NonZeroUsize;
    use std::path::{Path, PathBuf};

    use candle_core::{Device, Tensor};
    use serde_json::Value;
    use topalign::checkpoint::{AdapterExport, CardContent, ModelCard, ModelExport, read_tensors};
    use topalign::model::{Weights, read_adapter};
    use topalign::recipe::settings::{AdapterScaling, LoraSettings, Positive, Projection, Share};
    use topalign::token::ChatTokenizer;

    use crate::train::tiny;

    const MODULE: &str = "model.layers.0.self_attn.q_proj";

    fn card(content: CardContent) -> ModelCard {
        ModelCard {
            base_model: "someone/tiny: \"quoted\"".to_owned(),
            content,
            stage: "sft".to_owned(),
            datasets: vec!["scenarios".to_owned()],
            facts: vec![("steps".to_owned(), "20".to_owned())],
        }
    }

    fn adapter(folder: &Path) -> PathBuf {
        let settings = LoraSettings {
            rank: NonZeroUsize::new(2).unwrap(),
            alpha: Positive::try_from(4.0).unwrap(),
            dropout: Share::ZERO,
            target_modules: vec![Projection::QProj],
            scaling: AdapterScaling::Lora,
        };
        let a = Tensor::new(&[[1.0_f32, 0.0, 2.0], [0.0, 1.0, -1.0]], &Device::Cpu).unwrap(); // [rank, in]
        let b = Tensor::new(&[[1.0_f32, 0.0], [0.5, 2.0]], &Device::Cpu).unwrap(); // [out, rank]
        let name = |side: &str| format!("base_model.model.{MODULE}.lora_{side}.weight");
        let tensors = BTreeMap::from([(name("A"), a), (name("B"), b)]);
        let path = folder.join("final");
        tiny::write(&folder.join("source"), 1, true);
        let export = AdapterExport {
            settings: &settings,
            base_model: "someone/tiny",
            tensors: &tensors,
            tokenizer: &ChatTokenizer::load(&folder.join("source")).unwrap(),
            card: &card(CardContent::Adapter),
        };
        export.write(&path).unwrap();
        path
    }

    fn edit(path: &Path, key: &str, value: impl Into<Value>) {
        let mut config: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        config[key] = value.into();
        std::fs::write(path, config.to_string()).unwrap();
    }

    #[test]
    fn an_adapter_has_pefts_names_and_merges_scaled() {
        let folder = tempfile::tempdir().unwrap();
        let path = adapter(folder.path());
        let (config, tensors) = read_adapter(&path, &Device::Cpu).unwrap();
        assert_eq!(config.base_model.as_deref(), Some("someone/tiny"));
        assert_eq!(
            tensors.keys().collect::<Vec<_>>(),
            [
                "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight",
                "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight"
            ]
        );
        let weight = Tensor::ones((2, 3), candle_core::DType::F32, &Device::Cpu).unwrap();
        let base = Weights(BTreeMap::from([(format!("{MODULE}.weight"), weight)]));
        let merged = base.merge_adapter(&config, &tensors, "final").unwrap();
        // 1 + (alpha / rank) B A, with B A = [[1, 0, 2], [0.5, 2, -1]] and alpha / rank = 2
        let merged = merged.0[&format!("{MODULE}.weight")].to_vec2::<f32>().unwrap();
        assert_eq!(merged, [[3.0, 1.0, 5.0], [2.0, 5.0, -1.0]]);
    }

    #[test]
    fn options_that_merging_cannot_honour_are_all_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = adapter(folder.path());
        let config = path.join("adapter_config.json");
        edit(&config, "use_dora", true);
        edit(&config, "bias", "all");
        edit(&config, "modules_to_save", vec!["lm_head"]);
        edit(&config, "rank_pattern", serde_json::json!({"q_proj": 4}));
        let error = read_adapter(&path, &Device::Cpu).unwrap_err();
        let text = error.to_string();
        assert_eq!(error.exit_status(), 2);
        for name in ["use_dora", "bias", "modules_to_save", "rank_pattern"] {
            assert!(text.contains(name), "{text}");
        }
    }

    #[test]
    fn a_model_folder_has_every_file_that_transformers_reads() {
        for tied in [true, false] {
            let folder = tempfile::tempdir().unwrap();
            let source = folder.path().join("source");
            tiny::write(&source, 1, tied);
            let tokenizer = ChatTokenizer::load(&source).unwrap();
            let mut weights = read_tensors(&source.join("model.safetensors"), &Device::Cpu).unwrap();
            let embedding = weights["model.embed_tokens.weight"].clone();
            weights.entry("lm_head.weight".to_owned()).or_insert(embedding);
            let mut config: Value =
                serde_json::from_slice(&std::fs::read(source.join("config.json")).unwrap()).unwrap();
            config.as_object_mut().unwrap().remove("architectures");
            let export = ModelExport {
                config: &config,
                generation_config: None,
                weights: &weights,
                tokenizer: &tokenizer,
                card: &card(CardContent::Model),
            };
            let path = folder.path().join("final");
            export.write(&path).unwrap();

            let json =
                |name: &str| -> Value { serde_json::from_slice(&std::fs::read(path.join(name)).unwrap()).unwrap() };
            assert_eq!(json("config.json")["architectures"][0], "LlamaForCausalLM");
            assert_eq!(json("config.json")["torch_dtype"], "float32");
            assert_eq!(json("generation_config.json")["eos_token_id"], serde_json::json!([2]));
            assert!(json("tokenizer_config.json")["chat_template"].is_string());
            let read = |folder: &Path, name: &str| std::fs::read(folder.join(name)).unwrap();
            assert_eq!(read(&path, "tokenizer.json"), read(&source, "tokenizer.json"));
            assert_eq!(
                String::from_utf8(read(&path, "chat_template.jinja")).unwrap(),
                json("tokenizer_config.json")["chat_template"].as_str().unwrap()
            );
            let file = read(&path, "model.safetensors");
            let (_, metadata) = safetensors::SafeTensors::read_metadata(&file).unwrap();
            assert_eq!(metadata.metadata().as_ref().unwrap()["format"], "pt");
            assert_eq!(metadata.info("lm_head.weight").is_some(), !tied);
            assert!(metadata.info("model.layers.1.mlp.down_proj.weight").is_some());
            let readme = String::from_utf8(read(&path, "README.md")).unwrap();
            assert!(
                readme.starts_with("---\nbase_model: \"someone/tiny: \\\"quoted\\\"\"\nlibrary_name: transformers\n")
            );
        }
    }
}
