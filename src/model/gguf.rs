//! GGUF files: metadata become a config, quantised tensors become f32 under their Hugging Face names.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use candle_core::Device;
use candle_core::quantized::gguf_file::{Content, Value as Metadata};
use candle_core::quantized::{GgmlDType, QStorage, QTensor};
use serde_json::{Value, json};

use super::config::{ModelConfig, RopeScaling};
use super::family::Family;
use super::weights::{Compact, Weights};
use crate::error::{Error, Fault, Result};
use crate::kernel::FrozenWeight;
use crate::recipe::settings::BaseStorage;

/// Reads config and weights.
///
/// # Errors
/// A [`Fault`] for another architecture, missing metadata, or a file that is cut short.
pub fn read(path: &Path, device: &Device, storage: BaseStorage) -> Result<(ModelConfig, Weights, Compact)> {
    let place = path.display().to_string();
    let mut file = std::fs::File::open(path).map_err(|source| Error::read(path, source))?;
    let content = Content::read(&mut file).map_err(|error| unusable(&place, &error))?;
    let factors = if content.tensor_infos.contains_key(FACTORS) {
        let table = content.tensor(&mut file, FACTORS, device).and_then(|table| table.dequantize(device));
        let values = table.and_then(|table| table.flatten_all()?.to_vec1::<f32>());
        Some(values.map_err(|error| unusable(&place, &error))?)
    } else {
        None
    };
    let config = config(&content, factors.as_deref(), &place)?;
    let (mut weights, mut compact) = (Weights(BTreeMap::new()), Compact::default());
    let names: BTreeSet<&String> = content.tensor_infos.keys().filter(|name| *name != FACTORS).collect();
    for name in names {
        let Some(target) = hugging_face_name(name) else {
            let kind = config.family.model_type();
            return Err(Fault::new(format!("tensor `{name}` belongs to no `{kind}` decoder")).at(&place).into());
        };
        let tensor = content.tensor(&mut file, name, device).map_err(|error| unusable(&place, &error))?;
        let is_turned = ["self_attn.q_proj.", "self_attn.k_proj."].iter().any(|part| target.contains(part));
        let tensor = if is_turned && config.family.is_turned_in_gguf() {
            to_half_rotated(tensor, config.head_size, device)?
        } else {
            tensor
        };
        if storage == BaseStorage::AsStored && tensor.dtype() != GgmlDType::F32 && Compact::takes(&target) {
            compact.0.insert(target, FrozenWeight::Blocks(Arc::new(tensor)));
        } else {
            weights.0.insert(target, tensor.dequantize(device).map_err(|error| unusable(&place, &error))?);
        }
    }
    Ok((config, weights, compact))
}

/// Llama 3's frequency scaling as GGUF keeps it: a divisor of each pair's frequency.
const FACTORS: &str = "rope_freqs.weight";

fn unusable(place: &str, error: &candle_core::Error) -> Error {
    let text = error.to_string();
    Fault::new(format!("not a whole GGUF file: {}", text.lines().next().unwrap_or_default()))
        .at(place)
        .hint("fetch it again; a cut download is the usual cause")
        .into()
}

fn config(content: &Content, factors: Option<&[f32]>, place: &str) -> Result<ModelConfig> {
    let text = |key: &str| content.metadata.get(key).and_then(|value| value.to_string().ok()).map(String::as_str);
    let architecture = text("general.architecture").unwrap_or("none");
    let Some(family) = Family::ALL.into_iter().find(|family| family.model_type() == architecture) else {
        let fault = Fault::new("unsupported GGUF architecture").at(place).got(architecture).expected(Family::listed());
        return Err(fault.hint("other architectures do not load, whatever their file format").into());
    };
    if let Some(kind) = text(&format!("{architecture}.rope.scaling.type")).filter(|kind| *kind != "none") {
        return Err(Fault::new("unsupported rope scaling").at(place).got(kind).expected("none").into());
    }
    let mut json = config_json(content, family);
    let config = ModelConfig::from_json(json.clone(), place)?;
    let Some(factors) = factors else { return Ok(config) };
    json["rope_scaling"] = scaling_of(factors, &config).ok_or_else(|| {
        Fault::new(format!("unsupported table `{FACTORS}`")).at(place).expected("the factors of Llama 3's scaling")
    })?;
    ModelConfig::from_json(json, place)
}

/// The scaling whose divisors these are. Only its factor differs between Llama 3.1 and its successors.
fn scaling_of(factors: &[f32], config: &ModelConfig) -> Option<Value> {
    let largest = f64::from(factors.iter().copied().fold(1.0, f32::max));
    let frequencies = config.inverse_frequencies();
    if factors.len() != frequencies.len() {
        return None;
    }
    let scaling = RopeScaling {
        factor: largest,
        low_frequency_factor: 1.0,
        high_frequency_factor: 4.0,
        original_context: 8192.0,
    };
    let agrees = frequencies
        .iter()
        .zip(factors)
        .all(|(frequency, factor)| (frequency / scaling.apply(*frequency) / f64::from(*factor) - 1.0).abs() < 1e-4);
    agrees.then(|| {
        json!({
            "rope_type": "llama3",
            "factor": scaling.factor,
            "low_freq_factor": scaling.low_frequency_factor,
            "high_freq_factor": scaling.high_frequency_factor,
            "original_max_position_embeddings": scaling.original_context as u64,
        })
    })
}

fn config_json(content: &Content, family: Family) -> Value {
    let metadata = &content.metadata;
    let own = |key: &str| metadata.get(&format!("{}.{key}", family.model_type()));
    let size = |key: &str| own(key).and_then(whole_number);
    let number = |key: &str| own(key).and_then(|value| value.to_f32().ok()).map(shortest);
    let token = |key: &str| metadata.get(&format!("tokenizer.ggml.{key}_token_id")).and_then(whole_number);
    let has = |tensor: &str| content.tensor_infos.contains_key(tensor);
    let end = token("eos");
    let mut json = json!({
        "architectures": [family.architecture()],
        "model_type": family.model_type(),
        "hidden_act": "silu",
        "attention_dropout": 0.0,
        "bos_token_id": token("bos"),
        "eos_token_id": end,
        "pad_token_id": token("padding").or(end),
        "hidden_size": size("embedding_length"),
        "intermediate_size": size("feed_forward_length"),
        "num_hidden_layers": size("block_count"),
        "num_attention_heads": size("attention.head_count"),
        "num_key_value_heads": size("attention.head_count_kv"),
        "head_dim": size("attention.key_length").or_else(|| size("rope.dimension_count")),
        "max_position_embeddings": size("context_length"),
        "rms_norm_eps": number("attention.layer_norm_rms_epsilon"),
        "rope_theta": number("rope.freq_base").unwrap_or(10_000.0),
        "rope_scaling": null,
        "initializer_range": 0.02,
        "tie_word_embeddings": !has("output.weight"),
        "vocab_size": content.tensor_infos.get("token_embd.weight").and_then(|info| info.shape.dims().first()),
        "torch_dtype": "float32",
        "use_cache": true,
    });
    if family != Family::Qwen2 {
        json["attention_bias"] = has("blk.0.attn_output.bias").into();
    }
    if matches!(family, Family::Llama | Family::SmolLm3) {
        json["mlp_bias"] = has("blk.0.ffn_down.bias").into();
    }
    if json["head_dim"].is_null() {
        // Files of other writers leave it out: the width over the heads, whatever the family's own default.
        let heads = size("attention.head_count").filter(|heads| *heads > 0);
        json["head_dim"] = size("embedding_length").zip(heads).map(|(width, heads)| width / heads).into();
    }
    json
}

fn whole_number(value: &Metadata) -> Option<u64> {
    value.to_u64().ok().or_else(|| value.to_u32().ok().map(u64::from)).or_else(|| value.to_i32().ok()?.try_into().ok())
}

/// 1e-5 stored as f32 would read 9.999999747378752e-6 as f64.
fn shortest(value: f32) -> f64 {
    value.to_string().parse().unwrap_or(f64::from(value))
}

fn hugging_face_name(name: &str) -> Option<String> {
    match name {
        "token_embd.weight" => return Some("model.embed_tokens.weight".to_owned()),
        "output_norm.weight" => return Some("model.norm.weight".to_owned()),
        "output.weight" => return Some("lm_head.weight".to_owned()),
        _ => {}
    }
    let (layer, rest) = name.strip_prefix("blk.")?.split_once('.')?;
    let (inner, kind) = rest.rsplit_once('.')?;
    let inner = match inner {
        "attn_norm" => "input_layernorm",
        "ffn_norm" => "post_attention_layernorm",
        "attn_q" => "self_attn.q_proj",
        "attn_k" => "self_attn.k_proj",
        "attn_v" => "self_attn.v_proj",
        "attn_output" => "self_attn.o_proj",
        "attn_q_norm" => "self_attn.q_norm",
        "attn_k_norm" => "self_attn.k_norm",
        "ffn_gate" => "mlp.gate_proj",
        "ffn_up" => "mlp.up_proj",
        "ffn_down" => "mlp.down_proj",
        _ => return None,
    };
    matches!(kind, "weight" | "bias").then(|| format!("model.layers.{layer}.{inner}.{kind}"))
}

/// GGUF stores the rows of a head for rotary over neighbours (0, 1), (2, 3), ...; Hugging Face pairs i with i + size / 2.
/// `[heads, size / 2, 2, input] -> [heads, 2, size / 2, input]`; a bias has no `input`. A row's blocks stay as they are.
fn to_half_rotated(tensor: QTensor, head_size: usize, device: &Device) -> Result<QTensor> {
    let rows = tensor.shape().dims().first().copied().unwrap_or(0);
    let bytes = tensor.data()?;
    let width = bytes.len().checked_div(rows).unwrap_or(0);
    // Another shape than the config's is named when all tensors are checked.
    if !rows.is_multiple_of(head_size) || width * rows != bytes.len() {
        return Ok(tensor);
    }
    let half = head_size / 2;
    let mut turned = Vec::with_capacity(bytes.len());
    for row in 0..rows {
        let (head, place) = (row / head_size, row % head_size);
        let from = head * head_size + 2 * (place % half) + place / half;
        turned.extend_from_slice(&bytes[from * width..(from + 1) * width]);
    }
    let storage = QStorage::from_data(turned.into(), device, tensor.dtype())?;
    Ok(QTensor::new(storage, tensor.shape().clone())?)
}
