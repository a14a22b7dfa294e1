//! A model's tensors by their Hugging Face names, as f32, checked against the config.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use candle_core::{DType, Device, Tensor};

use super::config::ModelConfig;
use crate::error::{Error, Fault, Result};

/// Tensors by name, in name order.
#[derive(Debug, Clone)]
pub struct Weights(pub BTreeMap<String, Tensor>);

impl Weights {
    /// Reads `model.safetensors`, or the shards that `model.safetensors.index.json` lists.
    ///
    /// # Errors
    /// A [`Fault`] naming the file that is missing, cut short or not safetensors.
    pub fn read_folder(folder: &Path, device: &Device) -> Result<Self> {
        let mut tensors = BTreeMap::new();
        for name in file_names(folder)? {
            tensors.extend(read_safetensors(&folder.join(name), device)?);
        }
        Ok(Self(tensors))
    }

    /// Checks names and shapes, and drops a head that repeats a tied embedding.
    ///
    /// # Errors
    /// All missing, unexpected and misshaped tensors at once.
    pub fn check(mut self, config: &ModelConfig, place: &str) -> Result<Self> {
        if config.tied {
            self.0.remove("lm_head.weight");
        }
        // Some exports keep the tables of frequencies; they are computed here.
        self.0.retain(|name, _| !name.ends_with("rotary_emb.inv_freq"));
        let expected = config.tensors();
        let mut faults = Vec::new();
        for (name, shape) in &expected {
            match self.0.get(name) {
                None => faults.push(Fault::new(format!("tensor `{name}` is missing")).at(place)),
                Some(tensor) if tensor.dims() != shape.as_slice() => faults.push(
                    Fault::new(format!("tensor `{name}` has another shape than the config says"))
                        .at(place)
                        .got(format!("{:?}", tensor.dims()))
                        .expected(format!("{shape:?}")),
                ),
                Some(_) => {}
            }
        }
        for name in self.0.keys().filter(|name| !expected.contains_key(*name)) {
            faults.push(Fault::new(format!("tensor `{name}` belongs to no Llama decoder")).at(place));
        }
        if faults.is_empty() { Ok(self) } else { Err(summarise(faults, place)) }
    }
}

/// Ten faults tell what is wrong; a thousand hide it.
fn summarise(mut faults: Vec<Fault>, place: &str) -> Error {
    let count = faults.len();
    if count > 10 {
        faults.truncate(10);
        faults.push(Fault::new(format!("and {} more tensors", count - 10)).at(place));
    }
    Error::Invalid(faults)
}

/// The files that hold the weights of this folder, whether or not they are there: one, or what the index lists.
pub(super) fn file_names(folder: &Path) -> Result<Vec<String>> {
    let single = folder.join("model.safetensors");
    let index = folder.join("model.safetensors.index.json");
    if single.exists() || !index.exists() {
        return Ok(vec!["model.safetensors".to_owned()]);
    }
    let bytes = std::fs::read(&index).map_err(|source| Error::read(&index, source))?;
    let json: serde_json::Value = serde_json::from_slice(&bytes)
        .map_err(|error| Fault::new(format!("not valid JSON: {error}")).at(index.display()))?;
    let map = json.get("weight_map").and_then(serde_json::Value::as_object);
    let map = map.ok_or_else(|| Fault::new("`weight_map` is missing").at(index.display()))?;
    let names: BTreeSet<&str> = map.values().filter_map(serde_json::Value::as_str).collect();
    if let Some(name) = names.iter().find(|name| Path::new(name).components().count() != 1) {
        return Err(Fault::new("a shard must be a file beside its index").at(index.display()).got(name).into());
    }
    Ok(names.into_iter().map(str::to_owned).collect())
}

/// Reads one safetensors file as f32.
///
/// # Errors
/// [`Error::Read`] if it is not there, a [`Fault`] if it is not whole.
pub fn read_safetensors(file: &Path, device: &Device) -> Result<BTreeMap<String, Tensor>> {
    let bytes = std::fs::read(file).map_err(|source| Error::read(file, source))?;
    let unusable = |error: &dyn std::fmt::Display| {
        let text = error.to_string();
        Fault::new(format!("not a whole safetensors file: {}", text.lines().next().unwrap_or_default()))
            .at(file.display())
            .hint("fetch it again; a cut download is the usual cause")
    };
    let tensors = candle_core::safetensors::load_buffer(&bytes, device).map_err(|error| unusable(&error))?;
    drop(bytes);
    tensors
        .into_iter()
        .map(|(name, tensor)| {
            if !matches!(tensor.dtype(), DType::F32 | DType::BF16 | DType::F16 | DType::F64) {
                return Err(Fault::new(format!("tensor `{name}` is not a floating-point tensor"))
                    .at(file.display())
                    .got(format!("{:?}", tensor.dtype()))
                    .into());
            }
            Ok((name, tensor.to_dtype(DType::F32)?))
        })
        .collect()
}
