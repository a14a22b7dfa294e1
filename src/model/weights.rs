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
        let Some(index) = Index::read(folder)? else {
            let tensors = read_safetensors(&folder.join(SINGLE), device)?;
            return Ok(Self(tensors));
        };
        let mut tensors = BTreeMap::new();
        for name in index.files() {
            let shard = read_safetensors(&folder.join(name), device)?;
            index.check(name, &shard)?;
            tensors.extend(shard);
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
            let kind = config.family.model_type();
            faults.push(Fault::new(format!("tensor `{name}` belongs to no `{kind}` decoder of this config")).at(place));
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

const SINGLE: &str = "model.safetensors";

/// The files that hold the weights of this folder, whether or not they are there: one, or what the index lists.
pub(super) fn file_names(folder: &Path) -> Result<Vec<String>> {
    let index = Index::read(folder)?;
    Ok(index.map_or_else(|| vec![SINGLE.to_owned()], |index| index.files().into_iter().map(str::to_owned).collect()))
}

/// `model.safetensors.index.json`: which shard holds which tensor.
struct Index {
    place: String,
    files: BTreeMap<String, String>,
}

impl Index {
    /// The folder's index; `None` where one file holds everything.
    fn read(folder: &Path) -> Result<Option<Self>> {
        let path = folder.join("model.safetensors.index.json");
        if folder.join(SINGLE).exists() || !path.exists() {
            return Ok(None);
        }
        let place = path.display().to_string();
        let fault = |what: &str| Fault::new(what).at(&place);
        let bytes = std::fs::read(&path).map_err(|source| Error::read(&path, source))?;
        let json: serde_json::Value =
            serde_json::from_slice(&bytes).map_err(|error| fault(&format!("not valid JSON: {error}")))?;
        let map = json.get("weight_map").and_then(serde_json::Value::as_object);
        let map = map.ok_or_else(|| fault("`weight_map` is missing"))?;
        let mut files = BTreeMap::new();
        for (tensor, file) in map {
            let name = file.as_str().ok_or_else(|| fault("`weight_map` does not name a file").got(file))?;
            if Path::new(name).components().count() != 1 || name == ".." {
                return Err(fault("a shard must be a file beside its index").got(name).into());
            }
            files.insert(tensor.clone(), name.to_owned());
        }
        if files.is_empty() {
            return Err(fault("`weight_map` names no file").into());
        }
        Ok(Some(Self { place, files }))
    }

    fn files(&self) -> BTreeSet<&str> {
        self.files.values().map(String::as_str).collect()
    }

    /// Checks that a shard holds what the index says of it.
    fn check(&self, file: &str, shard: &BTreeMap<String, Tensor>) -> Result<()> {
        let lacks = |(tensor, name): &(&String, &String)| name.as_str() == file && !shard.contains_key(*tensor);
        let faults: Vec<Fault> = self
            .files
            .iter()
            .filter(lacks)
            .map(|(tensor, _)| {
                Fault::new(format!("tensor `{tensor}` is not in the file that the index names"))
                    .at(&self.place)
                    .got(file)
                    .hint("index and shards are of different models, or one was changed")
            })
            .collect();
        if faults.is_empty() { Ok(()) } else { Err(summarise(faults, &self.place)) }
    }
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
