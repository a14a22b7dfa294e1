//! A tiny random Llama in a folder, with a tokenizer of a hundred words, as the Hugging Face layout has them.

use std::collections::BTreeMap;
use std::path::Path;

use candle_core::{Device, Tensor};
use rand::RngExt as _;
use serde_json::{Value, json};
use topalign::dataset::{Message, PairKind, PreferencePair, SftRow};
use topalign::run::seed::Seed;

const HIDDEN: usize = 32;
const LAYERS: usize = 2;
const INTERMEDIATE: usize = 48;
const HEADS: usize = 4;
const KEY_HEADS: usize = 2;
const HEAD: usize = HIDDEN / HEADS;
const SPECIAL: [&str; 7] = ["<unk>", "<s>", "</s>", "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>"];
const WORDS: usize = 93;

/// Writes the folder; `tied` decides whether there is an output matrix of its own.
pub fn write(folder: &Path, seed: u64, tied: bool) {
    std::fs::create_dir_all(folder).unwrap();
    let json = |name: &str, value: Value| std::fs::write(folder.join(name), format!("{value:#}")).unwrap();
    json("config.json", config(tied));
    json("tokenizer.json", tokenizer());
    json(
        "tokenizer_config.json",
        json!({"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>",
               "unk_token": "<unk>", "chat_template": TEMPLATE}),
    );
    let weights: std::collections::HashMap<String, Tensor> = weights(seed, tied).into_iter().collect();
    candle_core::safetensors::save(&weights, folder.join("model.safetensors")).unwrap();
}

const TEMPLATE: &str = "{% for message in messages %}{{ '<|' + message.role + '|> ' + message.content + ' </s> ' }}\
                        {% endfor %}{% if add_generation_prompt %}{{ '<|assistant|> ' }}{% endif %}";

fn config(tied: bool) -> Value {
    json!({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": HIDDEN,
           "intermediate_size": INTERMEDIATE, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
           "num_key_value_heads": KEY_HEADS, "vocab_size": SPECIAL.len() + WORDS, "rms_norm_eps": 1e-5,
           "rope_theta": 10000.0, "max_position_embeddings": 256, "tie_word_embeddings": tied, "hidden_act": "silu",
           "bos_token_id": 1, "eos_token_id": 2, "attention_bias": false, "mlp_bias": false})
}

fn tokenizer() -> Value {
    let words = SPECIAL.iter().map(ToString::to_string).chain((0..WORDS).map(|index| format!("w{index}")));
    let vocabulary: BTreeMap<String, usize> = words.zip(0..).collect();
    let added: Vec<Value> = SPECIAL
        .iter()
        .enumerate()
        .map(|(id, content)| {
            json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
                   "normalized": false, "special": true})
        })
        .collect();
    json!({"version": "1.0", "truncation": null, "padding": null, "added_tokens": added, "normalizer": null,
           "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": null, "decoder": null,
           "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<unk>"}})
}

fn weights(seed: u64, tied: bool) -> BTreeMap<String, Tensor> {
    let mut shapes = vec![("model.embed_tokens.weight".to_owned(), vec![SPECIAL.len() + WORDS, HIDDEN])];
    for layer in 0..LAYERS {
        let mut add =
            |name: &str, shape: Vec<usize>| shapes.push((format!("model.layers.{layer}.{name}.weight"), shape));
        add("self_attn.q_proj", vec![HEADS * HEAD, HIDDEN]);
        add("self_attn.k_proj", vec![KEY_HEADS * HEAD, HIDDEN]);
        add("self_attn.v_proj", vec![KEY_HEADS * HEAD, HIDDEN]);
        add("self_attn.o_proj", vec![HIDDEN, HEADS * HEAD]);
        add("mlp.gate_proj", vec![INTERMEDIATE, HIDDEN]);
        add("mlp.up_proj", vec![INTERMEDIATE, HIDDEN]);
        add("mlp.down_proj", vec![HIDDEN, INTERMEDIATE]);
        add("input_layernorm", vec![HIDDEN]);
        add("post_attention_layernorm", vec![HIDDEN]);
    }
    shapes.push(("model.norm.weight".to_owned(), vec![HIDDEN]));
    if !tied {
        shapes.push(("lm_head.weight".to_owned(), vec![SPECIAL.len() + WORDS, HIDDEN]));
    }
    let mut random = Seed(seed).stream("tiny");
    let mut tensor = |shape: Vec<usize>| {
        let count = shape.iter().product();
        let values: Vec<f32> = match shape.len() {
            1 => vec![1.0; count],
            _ => (0..count).map(|_| random.random_range(-0.3..0.3)).collect(),
        };
        Tensor::from_vec(values, shape, &Device::Cpu).unwrap()
    };
    shapes.into_iter().map(|(name, shape)| (name, tensor(shape))).collect()
}

/// `count` words from `first` on, as text.
pub fn words(first: usize, count: usize) -> String {
    (first..first + count).map(|word| format!("w{}", word % WORDS)).collect::<Vec<_>>().join(" ")
}

/// Rows of unequal lengths that a tiny model can learn by heart.
pub fn sft_rows(count: usize) -> Vec<SftRow> {
    let row = |index: usize| SftRow {
        messages: vec![
            Message::system(words(3, 2)),
            Message::user(words(index * 7, 3 + index % 4)),
            Message::assistant(words(index * 11, 2 + index % 5)),
        ],
        trace_id: Some(format!("trace-{index}")),
        split: None,
        writer: None,
        stage: None,
        audit: None,
    };
    (0..count).map(row).collect()
}

/// Three pairs for each of `traces` prompts.
pub fn pairs(traces: usize) -> Vec<PreferencePair> {
    let pair = |trace: usize, kind: PairKind, offset: usize| PreferencePair {
        prompt: vec![Message::user(words(trace * 7, 3 + trace % 4))],
        chosen: vec![Message::assistant(words(trace * 11, 4))],
        rejected: vec![Message::assistant(words(trace * 11 + 40 + offset * 5, 3 + offset))],
        kind: Some(kind),
        trace_id: Some(format!("trace-{trace}")),
        split: None,
        writer_chosen: None,
        writer_rejected: None,
        audit: None,
    };
    let of_trace = |trace| PairKind::ALL.into_iter().zip(0..).map(move |(kind, offset)| pair(trace, kind, offset));
    (0..traces).flat_map(of_trace).collect()
}
