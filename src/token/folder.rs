//! The tokenizer of a Hugging Face folder, in any of the layouts that `transformers` writes or has written.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;
use tokenizers::Tokenizer;

use super::{Parts, SpecialTokens, TokenizerFile};
use crate::error::{Error, Fault, Result};

/// The files of a tokenizer in a model folder: copied where present; `tokenizer.json` decides.
pub const TOKENIZER_FILES: [&str; 8] = [
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "vocab.json",
    "merges.txt",
    "tokenizer.model",
];

pub(super) fn read(folder: &Path) -> Result<Parts> {
    let mut files = Vec::new();
    for name in TOKENIZER_FILES {
        if let Some(bytes) = read_optional(&folder.join(name))? {
            files.push(TokenizerFile { name: name.to_owned(), bytes });
        }
    }
    let tokenizer = tokenizer(folder, &files)?;
    let config = json(folder, &files, "tokenizer_config.json")?;
    let template = template(folder, &files, &config)?;
    let special_tokens = special_tokens(&config, &json(folder, &files, "special_tokens_map.json")?);
    let ends = ends(folder, &tokenizer, &special_tokens)?;
    complete_template(&mut files, config, &template);
    // `add_bos_token` of slow tokenizers is already in the rules of tokenizer.json.
    Ok(Parts {
        tokenizer,
        template,
        special_tokens,
        ends,
        add_begin: false,
        files,
        place: folder.display().to_string(),
    })
}

fn read_optional(path: &Path) -> Result<Option<Vec<u8>>> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::read(path, error)),
    }
}

fn find<'a>(files: &'a [TokenizerFile], name: &str) -> Option<&'a [u8]> {
    files.iter().find(|file| file.name == name).map(|file| file.bytes.as_slice())
}

fn tokenizer(folder: &Path, files: &[TokenizerFile]) -> Result<Tokenizer> {
    let path = folder.join("tokenizer.json");
    let bytes = find(files, "tokenizer.json").ok_or_else(|| {
        Fault::new("the model has no tokenizer: `tokenizer.json` is missing").at(path.display()).hint(
            "save the tokenizer beside the weights, e.g. with `AutoTokenizer.from_pretrained(...).save_pretrained(folder)`",
        )
    })?;
    Tokenizer::from_bytes(bytes).map_err(|error| {
        Fault::new(format!("not a tokenizer: {error}")).at(path.display()).expected("a tokenizer.json").into()
    })
}

/// The file as JSON; an absent one reads as null.
fn json(folder: &Path, files: &[TokenizerFile], name: &str) -> Result<Value> {
    let Some(bytes) = find(files, name) else { return Ok(Value::Null) };
    serde_json::from_slice(bytes)
        .map_err(|error| Fault::new(format!("not valid JSON: {error}")).at(folder.join(name).display()).into())
}

/// `chat_template.jinja` first, then the key of `tokenizer_config.json`: a text, or a list of named texts.
fn template(folder: &Path, files: &[TokenizerFile], config: &Value) -> Result<String> {
    if let Some(bytes) = find(files, "chat_template.jinja") {
        return Ok(String::from_utf8_lossy(bytes).into_owned());
    }
    let declared = match &config["chat_template"] {
        Value::Array(named) => named.iter().find(|entry| entry["name"] == "default").map(|entry| &entry["template"]),
        other => Some(other),
    };
    if let Some(text) = declared.and_then(Value::as_str) {
        return Ok(text.to_owned());
    }
    Err(Fault::new(
        "the model has no chat template: neither `chat_template.jinja` nor `chat_template` in `tokenizer_config.json`",
    )
    .at(folder.display())
    .hint("start from an instruction-tuned model, or save its chat_template.jinja beside tokenizer.json")
    .into())
}

/// Every `*_token` that is set, as text or as an object with `content`.
fn special_tokens(config: &Value, map: &Value) -> SpecialTokens {
    let mut tokens = SpecialTokens::new();
    for source in [map, config] {
        for (key, value) in source.as_object().into_iter().flatten() {
            let text = value.as_str().or_else(|| value["content"].as_str());
            if let Some(text) = text.filter(|_| key.ends_with("_token")) {
                tokens.insert(key.clone(), text.to_owned());
            }
        }
    }
    tokens
}

/// `eos_token`, and the one or many `eos_token_id` of `generation_config.json`.
fn ends(folder: &Path, tokenizer: &Tokenizer, special_tokens: &SpecialTokens) -> Result<BTreeSet<u32>> {
    let mut ends: BTreeSet<u32> =
        special_tokens.get("eos_token").and_then(|token| tokenizer.token_to_id(token)).into_iter().collect();
    let path = folder.join("generation_config.json");
    if let Some(bytes) = read_optional(&path)? {
        let config: Value = serde_json::from_slice(&bytes)
            .map_err(|error| Fault::new(format!("not valid JSON: {error}")).at(path.display()))?;
        let declared = match &config["eos_token_id"] {
            Value::Array(ids) => ids.clone(),
            one => vec![one.clone()],
        };
        ends.extend(declared.iter().filter_map(Value::as_u64).filter_map(|id| u32::try_from(id).ok()));
    }
    Ok(ends)
}

/// An export carries the template both in `chat_template.jinja` and in `tokenizer_config.json`, since loaders differ in
/// which they read; a file that has it already stays byte for byte.
fn complete_template(files: &mut Vec<TokenizerFile>, mut config: Value, template: &str) {
    if find(files, "chat_template.jinja").is_none() {
        files.push(TokenizerFile { name: "chat_template.jinja".to_owned(), bytes: template.as_bytes().to_vec() });
    }
    if config["chat_template"].is_null() {
        if config.is_null() {
            config = Value::Object(serde_json::Map::new());
        }
        if let Value::Object(keys) = &mut config {
            keys.insert("chat_template".to_owned(), Value::String(template.to_owned()));
            files.retain(|file| file.name != "tokenizer_config.json");
            let bytes = format!("{config:#}\n").into_bytes();
            files.push(TokenizerFile { name: "tokenizer_config.json".to_owned(), bytes });
        }
    }
    files.sort_by(|left, right| left.name.cmp(&right.name));
}
