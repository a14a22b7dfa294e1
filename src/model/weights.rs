//! A model's tensors by their Hugging Face names, as f32, checked against the config.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use candle_core::{DType, Device, Tensor};

use super::config::ModelConfig;
use super::layer::module_path;
use super::safetensors_file::SafetensorsFile;
use crate::error::{Error, Fault, Result};
use crate::kernel::FrozenWeight;
use crate::recipe::settings::{BaseStorage, Projection};

/// Tensors by name, in name order.
#[derive(Debug, Clone)]
pub struct Weights(pub BTreeMap<String, Tensor>);

/// Weights of projections that are kept as their file stores them, by name; they are in no [`Weights`].
#[derive(Debug, Clone, Default)]
pub struct Compact(pub BTreeMap<String, FrozenWeight>);

impl Compact {
    /// Whether a tensor of this name may be kept as it is stored: every use of a projection can widen it.
    pub(super) fn takes(name: &str) -> bool {
        let is_projection = |projection: Projection| name.ends_with(&format!("{}.weight", module_path(projection)));
        name.starts_with("model.layers.") && Projection::ALL.into_iter().any(is_projection)
    }

    /// Adds every weight in f32 to `weights`, which then hold all.
    ///
    /// # Errors
    /// Tensor errors.
    pub fn widen_into(self, mut weights: Weights) -> Result<Weights> {
        for (name, weight) in self.0 {
            weights.0.insert(name, weight.widened()?);
        }
        Ok(weights)
    }
}

impl Weights {
    /// Reads `model.safetensors`, or the shards that `model.safetensors.index.json` lists.
    ///
    /// # Errors
    /// A [`Fault`] naming the file that is missing, cut short or not safetensors.
    pub fn read_folder(folder: &Path, device: &Device) -> Result<Self> {
        Ok(Self::read_folder_as(folder, device, BaseStorage::F32)?.0)
    }

    /// [`Weights::read_folder`], with the projections apart where they are to be kept as they are stored.
    pub(super) fn read_folder_as(folder: &Path, device: &Device, storage: BaseStorage) -> Result<(Self, Compact)> {
        let (mut weights, mut compact) = (Self(BTreeMap::new()), Compact::default());
        let index = Index::read(folder)?;
        let files = index.as_ref().map_or_else(|| BTreeSet::from([SINGLE]), Index::files);
        for name in files {
            let file = SafetensorsFile::open(&folder.join(name))?;
            if let Some(index) = &index {
                index.check(name, |tensor| file.metadata.info(tensor).is_some())?;
            }
            file.read_each(device, |name, tensor| {
                let is_half = matches!(tensor.dtype(), DType::BF16 | DType::F16);
                if storage == BaseStorage::AsStored && is_half && Compact::takes(&name) {
                    compact.0.insert(name, FrozenWeight::new(&tensor));
                } else {
                    weights.0.insert(name, tensor.to_dtype(DType::F32)?);
                }
                Ok(())
            })?;
        }
        Ok((weights, compact))
    }

    /// Checks names and shapes, and drops a head that repeats a tied embedding.
    ///
    /// # Errors
    /// All missing, unexpected and misshaped tensors at once.
    pub fn check(self, config: &ModelConfig, place: &str) -> Result<Self> {
        self.check_beside(config, &Compact::default(), place)
    }

    /// [`Weights::check`] of weights and compact ones together.
    pub(super) fn check_beside(mut self, config: &ModelConfig, compact: &Compact, place: &str) -> Result<Self> {
        if config.tied {
            self.0.remove("lm_head.weight");
        }
        // Some exports keep the tables of frequencies; they are computed here.
        self.0.retain(|name, _| !name.ends_with("rotary_emb.inv_freq"));
        let expected = config.tensors();
        let mut faults = Vec::new();
        for (name, shape) in &expected {
            let found = self.0.get(name).map(Tensor::dims).or_else(|| compact.0.get(name).map(FrozenWeight::dims));
            match found {
                None => faults.push(Fault::new(format!("tensor `{name}` is missing")).at(place)),
                Some(dims) if dims != shape.as_slice() => faults.push(
                    Fault::new(format!("tensor `{name}` has another shape than the config says"))
                        .at(place)
                        .got(format!("{dims:?}"))
                        .expected(format!("{shape:?}")),
                ),
                Some(_) => {}
            }
        }
        for name in self.0.keys().chain(compact.0.keys()).filter(|name| !expected.contains_key(*name)) {
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
    fn check(&self, file: &str, holds: impl Fn(&str) -> bool) -> Result<()> {
        let lacks = |(tensor, name): &(&String, &String)| name.as_str() == file && !holds(tensor);
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
