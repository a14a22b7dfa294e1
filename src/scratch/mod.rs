//! A base model from nothing: a byte-level tokenizer trained on the given texts and a randomly initialised Llama.
//!
//! In: texts, a shape, a seed. Out: a model folder that any loader of Hugging Face folders reads. It knows nothing; it
//! lets the whole pipeline run on a machine that has no weights, and it is where training from random initialisation starts.

mod copying;
mod shape;
mod weights;

use std::path::Path;

use serde_json::json;
use tokenizers::models::bpe::{BPE, BpeTrainer};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::tokenizer::SplitDelimiterBehavior;
use tokenizers::{AddedToken, PreTokenizerWrapper, TokenizerBuilder, TokenizerImpl};

use crate::error::{Error, Fault, Result};
use crate::run::atomic;
use crate::run::seed::Seed;
pub use shape::{Shape, Start};

const START: &str = "<|im_start|>";
const END: &str = "<|im_end|>";
const TEMPLATE: &str = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

/// Writes the model folder, replacing what was there.
///
/// # Errors
/// A [`Fault`] for a shape that cannot be, [`Error::Write`], or [`Error::Failed`] if the tokenizer cannot be trained.
pub fn write(folder: &Path, texts: &[String], shape: &Shape, seed: Seed) -> Result<()> {
    check(shape)?;
    let tokenizer = train_tokenizer(texts, shape.vocabulary)?;
    let tokens = token_texts(&tokenizer)?;
    let (start, end) = (special(&tokenizer, START)?, special(&tokenizer, END)?);
    let tokenizer_json = tokenizer.to_string(false).map_err(|error| Error::Failed(format!("tokenizer: {error}")))?;
    atomic::write_folder(folder, |folder| {
        atomic::write(&folder.join("tokenizer.json"), tokenizer_json.as_bytes())?;
        write_json(&folder.join("tokenizer_config.json"), &tokenizer_config(shape))?;
        atomic::write(&folder.join("chat_template.jinja"), TEMPLATE.as_bytes())?;
        write_json(&folder.join("config.json"), &config(shape, tokens.len(), start, end))?;
        write_json(&folder.join("generation_config.json"), &json!({"bos_token_id": start, "eos_token_id": [end]}))?;
        weights::write(&folder.join("model.safetensors"), shape, &tokens, seed)
    })
}

fn check(shape: &Shape) -> Result<()> {
    let fault = |what: &str, got: usize| Err(Fault::new(what).at("model.scratch").got(got).into());
    if shape.heads == 0
        || !shape.hidden_size.is_multiple_of(shape.heads)
        || !(shape.hidden_size / shape.heads).is_multiple_of(2)
    {
        return fault("`hidden_size` must be an even multiple of `heads`", shape.hidden_size);
    }
    if shape.key_value_heads == 0 || !shape.heads.is_multiple_of(shape.key_value_heads) {
        return fault("`heads` must be a multiple of `key_value_heads`", shape.heads);
    }
    if let (Start::Copying, Some(what)) = (shape.start, copying::fault(shape)) {
        return fault(what, shape.hidden_size);
    }
    if shape.layers == 0 || shape.intermediate_size == 0 || shape.context == 0 {
        return fault("`layers`, `intermediate_size` and `context` must be above 0", 0);
    }
    if shape.vocabulary < 300 {
        return fault(
            "`vocabulary` must be at least 300: 256 bytes, special tokens, and some merges",
            shape.vocabulary,
        );
    }
    Ok(())
}

type BytePairTokenizer = TokenizerImpl<
    BPE,
    tokenizers::NormalizerWrapper,
    PreTokenizerWrapper,
    tokenizers::PostProcessorWrapper,
    tokenizers::DecoderWrapper,
>;

/// Where texts are cut before merging. A value is the same tokens after a quotation mark, a space or a bar, and to copy it is to
/// repeat it: so spaces, marks and pairs of digits stand alone, and the joints between keys and values are one token each. So is the
/// number of a list's line with its line break: which line comes next is then one choice.
const CUTS: &str = concat!(
    r"\n\d{1,2}\. |",
    r#"\d{1,2}|": "|", "|": \[\{"|"\}, \{"|\{"|"\}\]?\}?|\]\}|: |; | \| |"#,
    r"[^\p{L}\d\s]|\s"
);

fn train_tokenizer(texts: &[String], vocabulary: usize) -> Result<BytePairTokenizer> {
    let fail = |error: &dyn std::fmt::Display| Error::Failed(format!("tokenizer: {error}"));
    let cuts = Split::new(SplitPattern::Regex(CUTS.to_owned()), SplitDelimiterBehavior::Isolated, false)
        .map_err(|error| fail(&error))?;
    let mut tokenizer: BytePairTokenizer = TokenizerBuilder::new()
        .with_model(BPE::default())
        .with_pre_tokenizer(Some(PreTokenizerWrapper::Sequence(Sequence::new(vec![
            PreTokenizerWrapper::Split(cuts),
            PreTokenizerWrapper::ByteLevel(ByteLevel::new(false, true, false)),
        ]))))
        .with_decoder(Some(tokenizers::DecoderWrapper::ByteLevel(ByteLevel::default())))
        .build()
        .map_err(|error| fail(&error))?;
    let special = [START, END].map(|text| AddedToken::from(text, true)).to_vec();
    let mut trainer = BpeTrainer::builder()
        .show_progress(false)
        .vocab_size(vocabulary)
        .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
        .special_tokens(special)
        .build();
    tokenizer.train(&mut trainer, texts.iter().cloned()).map_err(|error| fail(&error))?;
    Ok(tokenizer)
}

/// The texts of all tokens by id, bytes that are no text replaced.
fn token_texts(tokenizer: &BytePairTokenizer) -> Result<Vec<String>> {
    let count = tokenizer.get_vocab_size(true) as u32;
    let text = |id| tokenizer.decode(&[id], false).map_err(|error| Error::Failed(format!("tokenizer: {error}")));
    (0..count).map(text).collect()
}

fn special(tokenizer: &BytePairTokenizer, text: &str) -> Result<u32> {
    tokenizer.token_to_id(text).ok_or_else(|| Error::Failed(format!("tokenizer: no id for `{text}`")))
}

fn tokenizer_config(shape: &Shape) -> serde_json::Value {
    json!({
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": START,
        "eos_token": END,
        "pad_token": END,
        "model_max_length": shape.context,
        "chat_template": TEMPLATE,
    })
}

fn config(shape: &Shape, entries: usize, start: u32, end: u32) -> serde_json::Value {
    json!({
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "attention_bias": false,
        "mlp_bias": false,
        "bos_token_id": start,
        "eos_token_id": end,
        "hidden_size": shape.hidden_size,
        "intermediate_size": shape.intermediate_size,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.key_value_heads,
        "max_position_embeddings": shape.context,
        "rms_norm_eps": 1e-5,
        "rope_theta": shape.rotary_base(),
        "rope_scaling": null,
        "tie_word_embeddings": shape.is_tied(),
        "vocab_size": entries,
        "torch_dtype": "float32",
        "use_cache": true,
    })
}

fn write_json(path: &Path, value: &serde_json::Value) -> Result<()> {
    let text = serde_json::to_string_pretty(value).map_err(|error| Error::Failed(error.to_string()))?;
    atomic::write(path, text.as_bytes())
}
