//! The tokenizer of a GGUF file, rebuilt from its metadata as a `tokenizer.json`.
//!
//! Byte-level BPE only. How text is cut before merging stands in no table of the file, only as a name
//! (`tokenizer.ggml.pre`): a name that is not known here is refused, since ids would be wrong in silence.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use candle_core::quantized::gguf_file::{Content, Value as Metadata};
use serde_json::{Value, json};
use tokenizers::Tokenizer;

use super::{Parts, SpecialTokens, TokenizerFile};
use crate::error::{Error, Fault, Result};

/// Token types of GGUF that tokenizers calls added tokens.
const CONTROL: i64 = 3;
const USER_DEFINED: i64 = 4;

/// How text is cut before merging.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    /// Every digit is a word of its own, then GPT-2's byte-level words.
    SmolLm,
    /// Qwen 2 to 3: words with one sign before them, single digits; text is first composed (NFC).
    Qwen2,
    /// Llama 3: the same with digits in threes; a word that is itself a token is not merged.
    Llama3,
}

impl Cut {
    fn pre_tokenizer(self) -> Value {
        let digits = match self {
            Self::SmolLm => {
                return json!({"type": "Sequence", "pretokenizers": [
                    {"type": "Digits", "individual_digits": true},
                    {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
                ]});
            }
            Self::Qwen2 => r"\p{N}",
            Self::Llama3 => r"\p{N}{1,3}",
        };
        // As in the tokenizer.json of either family.
        let words = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+";
        let rest = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
        let pattern = format!("{words}|{digits}|{rest}");
        json!({"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false},
            {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false},
        ]})
    }
}

struct Source<'a> {
    metadata: &'a HashMap<String, Metadata>,
    place: String,
}

pub(super) fn read(path: &Path) -> Result<Parts> {
    let mut file = std::fs::File::open(path).map_err(|source| Error::read(path, source))?;
    let content = Content::read(&mut file).map_err(|error| {
        Fault::new(format!("not a GGUF file: {error}"))
            .at(path.display())
            .expected("a model folder with tokenizer.json, or a .gguf file")
    })?;
    Source { metadata: &content.metadata, place: path.display().to_string() }.parts()
}

impl Source<'_> {
    fn parts(&self) -> Result<Parts> {
        let tokens = self.texts("tokenizer.ggml.tokens")?;
        let text = self.tokenizer_json(&tokens)?.to_string();
        let tokenizer = Tokenizer::from_bytes(text.as_bytes())
            .map_err(|error| self.fault(&format!("the tokenizer's tables do not fit together: {error}")))?;
        let template = self.text("tokenizer.chat_template").ok_or_else(|| {
            self.fault("the model has no chat template: `tokenizer.chat_template` is missing")
                .hint("start from an instruction-tuned model")
        })?;
        let special_tokens = self.special_tokens(&tokens);
        let architecture = self.text("general.architecture").unwrap_or_default();
        let context_length = self.id(&format!("{architecture}.context_length"));
        let config = config_json(&special_tokens, template, context_length);
        let files = [
            ("chat_template.jinja", template.to_owned()),
            ("tokenizer.json", text),
            ("tokenizer_config.json", format!("{config:#}\n")),
        ];
        Ok(Parts {
            tokenizer,
            template: template.to_owned(),
            special_tokens,
            ends: self.ends(),
            add_begin: self.flag("tokenizer.ggml.add_bos_token"),
            files: files.map(|(name, text)| TokenizerFile { name: name.to_owned(), bytes: text.into_bytes() }).into(),
            place: self.place.clone(),
        })
    }

    fn tokenizer_json(&self, tokens: &[&str]) -> Result<Value> {
        if self.text("tokenizer.ggml.model") != Some("gpt2") {
            return Err(self
                .fault("the tokenizer's kind is not supported")
                .got(self.text("tokenizer.ggml.model").unwrap_or("none"))
                .expected("`gpt2` (byte-level BPE) in `tokenizer.ggml.model`")
                .hint("use the model's safetensors folder, which brings its own tokenizer.json")
                .into());
        }
        let cut = self.cut()?;
        let vocabulary: serde_json::Map<String, Value> =
            tokens.iter().enumerate().map(|(id, token)| ((*token).to_owned(), id.into())).collect();
        let merges = self.texts("tokenizer.ggml.merges")?;
        let merges: Vec<Value> =
            merges.iter().filter_map(|merge| merge.split_once(' ')).map(|(left, right)| json!([left, right])).collect();
        Ok(json!({
            "version": "1.0",
            "truncation": null,
            "padding": null,
            "added_tokens": self.added_tokens(tokens),
            "normalizer": (cut == Cut::Qwen2).then(|| json!({"type": "NFC"})),
            "pre_tokenizer": cut.pre_tokenizer(),
            "post_processor": null,
            "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
            "model": {
                "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": cut == Cut::Llama3,
                "vocab": vocabulary, "merges": merges,
            },
        }))
    }

    fn added_tokens(&self, tokens: &[&str]) -> Vec<Value> {
        let kinds = self.metadata.get("tokenizer.ggml.token_type").and_then(|kinds| kinds.to_vec().ok());
        let kind = |id: usize| kinds.and_then(|kinds| kinds.get(id)).and_then(integer).unwrap_or(1);
        let added = tokens.iter().enumerate().filter(|(id, _)| matches!(kind(*id), CONTROL | USER_DEFINED));
        added
            .map(|(id, token)| {
                json!({"id": id, "content": token, "single_word": false, "lstrip": false, "rstrip": false,
                       "normalized": false, "special": kind(id) == CONTROL})
            })
            .collect()
    }

    fn cut(&self) -> Result<Cut> {
        match self.text("tokenizer.ggml.pre").unwrap_or("default") {
            "smollm" | "default" => Ok(Cut::SmolLm),
            "qwen2" => Ok(Cut::Qwen2),
            "llama-bpe" => Ok(Cut::Llama3),
            other => Err(self
                .fault("the way this tokenizer cuts text is not known")
                .got(other)
                .expected("`smollm`, `qwen2`, `llama-bpe` or `default` in `tokenizer.ggml.pre`")
                .hint("use the model's safetensors folder, which brings its own tokenizer.json")
                .into()),
        }
    }

    fn special_tokens(&self, tokens: &[&str]) -> SpecialTokens {
        let names = [("bos", "bos"), ("eos", "eos"), ("unknown", "unk"), ("padding", "pad")];
        let token =
            |key: &str| self.id(&format!("tokenizer.ggml.{key}_token_id")).and_then(|id| tokens.get(id as usize));
        names
            .into_iter()
            .filter_map(|(key, name)| token(key).map(|token| (format!("{name}_token"), (*token).to_owned())))
            .collect()
    }

    fn ends(&self) -> BTreeSet<u32> {
        ["eos", "eot", "eom"].iter().filter_map(|key| self.id(&format!("tokenizer.ggml.{key}_token_id"))).collect()
    }

    fn texts(&self, key: &str) -> Result<Vec<&str>> {
        let values = self.metadata.get(key).and_then(|value| value.to_vec().ok());
        let texts = values.and_then(|values| {
            values.iter().map(|value| value.to_string().ok().map(String::as_str)).collect::<Option<Vec<&str>>>()
        });
        let missing =
            || self.fault(&format!("the file has no tokenizer: `{key}` is missing")).hint("use a complete GGUF file");
        texts.ok_or_else(|| missing().into())
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.metadata.get(key)?.to_string().ok().map(String::as_str)
    }

    fn id(&self, key: &str) -> Option<u32> {
        integer(self.metadata.get(key)?).and_then(|id| u32::try_from(id).ok())
    }

    fn flag(&self, key: &str) -> bool {
        matches!(self.metadata.get(key), Some(Metadata::Bool(true)))
    }

    fn fault(&self, what: &str) -> Fault {
        Fault::new(what).at(&self.place)
    }
}

fn integer(value: &Metadata) -> Option<i64> {
    match *value {
        Metadata::U8(value) => Some(value.into()),
        Metadata::I8(value) => Some(value.into()),
        Metadata::U16(value) => Some(value.into()),
        Metadata::I16(value) => Some(value.into()),
        Metadata::U32(value) => Some(value.into()),
        Metadata::I32(value) => Some(value.into()),
        Metadata::U64(value) => i64::try_from(value).ok(),
        Metadata::I64(value) => Some(value),
        _ => None,
    }
}

fn config_json(special_tokens: &SpecialTokens, template: &str, context_length: Option<u32>) -> Value {
    let mut config = serde_json::Map::new();
    config.insert("tokenizer_class".to_owned(), "PreTrainedTokenizerFast".into());
    config.insert("clean_up_tokenization_spaces".to_owned(), false.into());
    config.extend(special_tokens.iter().map(|(key, token)| (key.clone(), token.as_str().into())));
    config.extend(context_length.map(|length| ("model_max_length".to_owned(), length.into())));
    config.insert("chat_template".to_owned(), template.into());
    Value::Object(config)
}
