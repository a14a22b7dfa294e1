//! A model opened for training, generation or merging: weights, configuration and tokenizer together.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use candle_core::Device;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::error::{Error, Fault, Result};
use crate::kernel::FrozenWeight;
use crate::model::{Compact, LocalModel, ModelConfig, ModelSource, Weights, read_adapter};
use crate::recipe::settings::BaseStorage;
use crate::token::ChatTokenizer;

/// A model with everything that training and exporting need of it.
#[derive(Debug)]
pub struct SourceModel {
    /// Shape and constants, with the `config.json` they came from.
    pub config: ModelConfig,
    /// Weights, f32; an adapter is merged into them.
    pub weights: Weights,
    /// Projections that are kept as their file stores them, where that was asked for.
    pub compact: Compact,
    /// Tokenizer and chat template.
    pub tokenizer: ChatTokenizer,
    /// `generation_config.json`, where the model has one.
    pub generation_config: Option<Value>,
}

impl SourceModel {
    /// Whether this path is an adapter folder and not a model.
    pub fn is_adapter(path: &Path) -> bool {
        path.join("adapter_config.json").is_file()
    }

    /// Opens a model folder, a `.gguf` file, or an adapter folder, whose base is found through its configuration: where that
    /// says, or else beside the adapter's folder, should a whole run have been moved.
    ///
    /// # Errors
    /// A [`Fault`] naming file and reason.
    pub fn open(path: &Path, device: &Device) -> Result<Self> {
        Self::open_as(path, device, BaseStorage::F32)
    }

    /// [`SourceModel::open`], with projections kept as the file stores them where that is asked for. Under an adapter, which is
    /// merged, they are f32 all the same.
    ///
    /// # Errors
    /// A [`Fault`] naming file and reason.
    pub fn open_as(path: &Path, device: &Device, storage: BaseStorage) -> Result<Self> {
        if !Self::is_adapter(path) {
            return Self::open_base(path, device, storage);
        }
        let (config, _) = read_adapter(path, device)?;
        let base = config.base_model.ok_or_else(|| {
            Fault::new("the adapter does not name its base model")
                .at(path.join("adapter_config.json").display())
                .expected("`base_model_name_or_path`")
                .hint("merge it first: topalign merge --model BASE --adapter ADAPTER --out DIR")
        })?;
        let base = match moved(path, Path::new(&base)) {
            Some(beside) => beside,
            None => ModelSource::parse(&base)?.resolve()?.path,
        };
        Self::open_base(&base, device, BaseStorage::F32)?.with_adapter(path, device)
    }

    fn open_base(path: &Path, device: &Device, storage: BaseStorage) -> Result<Self> {
        let (config, weights, compact) = LocalModel { path: path.to_path_buf() }.read_as(device, storage)?;
        let tokenizer = ChatTokenizer::load(path)?;
        if tokenizer.vocabulary_size() > config.vocabulary {
            return Err(Fault::new("the tokenizer has more entries than the model")
                .at(path.display())
                .got(tokenizer.vocabulary_size())
                .expected(format!("at most {}", config.vocabulary))
                .hint("tokenizer and model do not belong together")
                .into());
        }
        Ok(Self { config, weights, compact, tokenizer, generation_config: generation_config(path)? })
    }

    /// The same model with an adapter folder merged into its weights.
    ///
    /// # Errors
    /// A [`Fault`] naming what does not fit.
    pub fn with_adapter(self, adapter: &Path, device: &Device) -> Result<Self> {
        let (config, tensors) = read_adapter(adapter, device)?;
        let weights = self.compact.widen_into(self.weights)?;
        let weights = weights.merge_adapter(&config, &tensors, &adapter.display().to_string())?;
        Ok(Self { weights, compact: Compact::default(), ..self })
    }

    /// SHA-256 over names, shapes and values of the weights in f32: equal models have equal digests, however they are stored.
    ///
    /// # Errors
    /// Tensor errors.
    pub fn digest(&self) -> Result<String> {
        let mut hasher = Sha256::new();
        let names: BTreeSet<&String> = self.weights.0.keys().chain(self.compact.0.keys()).collect();
        for name in names {
            let compact = self.compact.0.get(name).map(FrozenWeight::widened).transpose()?;
            let Some(tensor) = compact.as_ref().or_else(|| self.weights.0.get(name)) else { continue };
            hasher.update(format!("{name} {:?} {:?}\n", tensor.dtype(), tensor.dims()));
            hasher.update(safetensors::View::data(tensor));
        }
        Ok(hex::encode(hasher.finalize()))
    }
}

/// The base's namesake beside the adapter's folder, if the base itself is not where the adapter says.
fn moved(adapter: &Path, base: &Path) -> Option<PathBuf> {
    let beside = adapter.parent()?.join(base.file_name()?);
    (!base.exists() && beside.exists()).then_some(beside)
}

fn generation_config(path: &Path) -> Result<Option<Value>> {
    let file: PathBuf = path.join("generation_config.json");
    let bytes = match std::fs::read(&file) {
        Ok(bytes) => bytes,
        // A `.gguf` file has no files beside it that belong to it.
        Err(error) if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(source) => return Err(Error::read(&file, source)),
    };
    let value = serde_json::from_slice(&bytes)
        .map_err(|error| Fault::new(format!("not valid JSON: {error}")).at(file.display()))?;
    Ok(Some(value))
}
