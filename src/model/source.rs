//! Where a model comes from: a Hugging Face folder, a GGUF file, or a hub id through hf-hub and its cache.

use std::path::{Path, PathBuf};

use candle_core::Device;
use hf_hub::api::sync::{ApiBuilder, ApiRepo};
use hf_hub::{Cache, CacheRepo, Repo};

use super::config::ModelConfig;
use super::gguf;
use super::weights::{self, Compact, Weights};
use crate::error::{Error, Fault, Result};
use crate::recipe::settings::BaseStorage;
use crate::run::digest;

/// A model as the user names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelSource {
    /// A folder with `config.json`, `model.safetensors` (or shards) and tokenizer files.
    Folder(PathBuf),
    /// A `.gguf` file.
    Gguf(PathBuf),
    /// `owner/name` on the hub.
    Hub(String),
}

/// A model on this machine; the tokenizer is loaded from the same path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalModel {
    /// Folder or `.gguf` file.
    pub path: PathBuf,
}

impl ModelSource {
    /// Reads a folder, a `.gguf` path or a hub id.
    ///
    /// # Errors
    /// A [`Fault`] if it is none of them.
    pub fn parse(text: &str) -> Result<Self> {
        let path = Path::new(text);
        if path.is_dir() {
            return Ok(Self::Folder(path.to_path_buf()));
        }
        let is_gguf = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gguf"));
        if is_gguf || path.is_file() {
            return Ok(Self::Gguf(path.to_path_buf()));
        }
        let is_path = text.starts_with(['.', '/', '~']) || text.contains('\\');
        let parts: Vec<&str> = text.split('/').collect();
        let plain = |part: &&str| {
            !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
        };
        if !is_path && parts.len() == 2 && parts.iter().all(plain) {
            return Ok(Self::Hub(text.to_owned()));
        }
        Err(Fault::new("no such model")
            .got(text)
            .expected("a folder, a .gguf file, or a hub id `owner/name`")
            .hint("scripts/fetch-smollm2 fetches SmolLM2-135M-Instruct into checkpoints/")
            .into())
    }

    /// The model's files on this machine, fetched from the hub if need be.
    ///
    /// # Errors
    /// A [`Fault`] naming the missing file, with what to do about it.
    pub fn resolve(&self) -> Result<LocalModel> {
        match self {
            Self::Folder(path) => Ok(LocalModel { path: path.clone() }),
            Self::Gguf(path) if path.is_file() => Ok(LocalModel { path: path.clone() }),
            Self::Gguf(path) => Err(Fault::new("no such file")
                .at(path.display())
                .hint("scripts/fetch-smollm2 fetches SmolLM2-135M-Instruct into checkpoints/")
                .into()),
            Self::Hub(id) => fetch(id),
        }
    }
}

impl LocalModel {
    /// Digest of the files: a folder's configuration, tokenizer and weights, or the `.gguf` file.
    ///
    /// # Errors
    /// [`Error::Read`].
    pub fn digest(&self) -> Result<String> {
        if self.path.is_file() {
            return digest::of_file(&self.path);
        }
        let fail = |source| Error::read(&self.path, source);
        let mut files = Vec::new();
        for entry in std::fs::read_dir(&self.path).map_err(fail)? {
            let path = entry.map_err(fail)?.path();
            if path.extension().is_some_and(|extension| extension == "safetensors" || extension == "json") {
                files.push(path);
            }
        }
        files.sort();
        let digests = files.iter().map(|file| digest::of_file(file)).collect::<Result<Vec<_>>>()?;
        digest::of_value(&digests)
    }

    /// Reads config and weights in f32, checked against each other.
    ///
    /// # Errors
    /// A [`Fault`] naming file and reason.
    pub fn read(&self, device: &Device) -> Result<(ModelConfig, Weights)> {
        let (config, weights, _) = self.read_as(device, BaseStorage::F32)?;
        Ok((config, weights))
    }

    /// Reads config and weights, projections apart where they are to be kept as the file stores them.
    ///
    /// # Errors
    /// A [`Fault`] naming file and reason.
    pub fn read_as(&self, device: &Device, storage: BaseStorage) -> Result<(ModelConfig, Weights, Compact)> {
        let place = self.path.display().to_string();
        let (config, weights, compact) = if self.path.is_dir() {
            let config = ModelConfig::read(&self.path.join("config.json"))?;
            let (weights, compact) = Weights::read_folder_as(&self.path, device, storage)?;
            (config, weights, compact)
        } else {
            gguf::read(&self.path, device, storage)?
        };
        let weights = weights.check_beside(&config, &compact, &place)?;
        Ok((config, weights, compact))
    }
}

/// Whether a file must be there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    Must,
    May,
}

const FILES: [(&str, Need); 7] = [
    ("config.json", Need::Must),
    ("tokenizer.json", Need::Must),
    ("tokenizer_config.json", Need::Must),
    ("special_tokens_map.json", Need::May),
    ("generation_config.json", Need::May),
    ("chat_template.jinja", Need::May),
    ("model.safetensors.index.json", Need::May),
];

/// The hub through hf-hub: its cache first, so that a model fetched once needs no network.
struct Hub {
    id: String,
    cache: CacheRepo,
    remote: Option<ApiRepo>,
}

impl Hub {
    fn open(id: &str) -> Result<Self> {
        let cache = Cache::from_env().repo(Repo::model(id.to_owned()));
        let flag = std::env::var("HF_HUB_OFFLINE").unwrap_or_default();
        let offline = matches!(flag.to_ascii_lowercase().as_str(), "1" | "true" | "yes" | "on");
        let remote = if offline {
            None
        } else {
            let mut builder = ApiBuilder::from_env().with_progress(false).with_retries(1);
            if let Some(token) = std::env::var("HF_TOKEN").ok().filter(|token| !token.is_empty()) {
                builder = builder.with_token(Some(token));
            }
            let api = builder.build().map_err(|error| Error::Failed(format!("hub client: {error}")))?;
            Some(api.model(id.to_owned()))
        };
        Ok(Self { id: id.to_owned(), cache, remote })
    }

    /// The folder of the snapshot, if every file that must be there is.
    fn whole_in_cache(&self) -> Option<PathBuf> {
        let needed = FILES.iter().filter(|(_, need)| *need == Need::Must);
        let found: Option<Vec<PathBuf>> = needed.map(|(file, _)| self.cache.get(file)).collect();
        let folder = found?.first()?.parent()?.to_path_buf();
        let weights = weights::file_names(&folder).ok()?;
        weights.iter().all(|name| folder.join(name).exists()).then_some(folder)
    }

    fn get(&self, file: &str, need: Need) -> Result<Option<PathBuf>> {
        if let Some(path) = self.cache.get(file) {
            return Ok(Some(path));
        }
        let failure = match &self.remote {
            None => "HF_HUB_OFFLINE is set and the file is not in the cache".to_owned(),
            Some(remote) => match remote.get(file) {
                Ok(path) => return Ok(Some(path)),
                Err(error) => first_line(&error),
            },
        };
        match need {
            Need::May => Ok(None),
            Need::Must => Err(Fault::new(format!("`{file}` of hub model `{}` cannot be had: {failure}", self.id))
                .hint("check the id and the network, or give a local folder or .gguf file instead")
                .into()),
        }
    }
}

fn first_line(error: &dyn std::fmt::Display) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

fn fetch(id: &str) -> Result<LocalModel> {
    let hub = Hub::open(id)?;
    // Optional files are asked for before the weights, so a cache that holds the weights has what the hub has.
    if let Some(path) = hub.whole_in_cache() {
        return Ok(LocalModel { path });
    }
    let mut folder = None;
    for (file, need) in FILES {
        let found = hub.get(file, need)?;
        if file == "config.json" {
            folder = found.as_deref().and_then(Path::parent).map(Path::to_path_buf);
        }
    }
    let folder = folder.ok_or_else(|| Error::Failed(format!("hub model `{id}` has no folder in the cache")))?;
    for name in weights::file_names(&folder)? {
        hub.get(&name, Need::Must)?;
    }
    Ok(LocalModel { path: folder })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cache as hf-hub lays it out, holding these files of `owner/name`.
    fn hub(root: &Path, files: &[&str]) -> Hub {
        let model = root.join("models--owner--name");
        let snapshot = model.join("snapshots/1234");
        std::fs::create_dir_all(&snapshot).unwrap();
        std::fs::create_dir_all(model.join("refs")).unwrap();
        std::fs::write(model.join("refs/main"), "1234").unwrap();
        for file in files {
            let content =
                if file.ends_with("index.json") { r#"{"weight_map": {"a": "one", "b": "two"}}"# } else { "{}" };
            std::fs::write(snapshot.join(file), content).unwrap();
        }
        let cache = Cache::new(root.to_path_buf()).repo(Repo::model("owner/name".to_owned()));
        Hub { id: "owner/name".to_owned(), cache, remote: None }
    }

    const BASE: [&str; 3] = ["config.json", "tokenizer.json", "tokenizer_config.json"];

    #[test]
    fn a_model_that_is_whole_in_the_cache_needs_no_network() {
        let folder = tempfile::tempdir().unwrap();
        let whole = hub(folder.path(), &[&BASE[..], &["model.safetensors"]].concat());
        assert!(whole.whole_in_cache().unwrap().join("config.json").exists());
    }

    #[test]
    fn a_model_without_one_of_its_shards_is_not_whole() {
        let folder = tempfile::tempdir().unwrap();
        let files = [&BASE[..], &["model.safetensors.index.json", "one"]].concat();
        assert_eq!(hub(folder.path(), &files).whole_in_cache(), None);
        assert!(hub(folder.path(), &[&files[..], &["two"]].concat()).whole_in_cache().is_some());
    }

    #[test]
    fn offline_the_missing_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let hub = hub(folder.path(), &["config.json"]);
        assert!(hub.get("config.json", Need::Must).unwrap().is_some());
        assert!(hub.get("chat_template.jinja", Need::May).unwrap().is_none());
        let error = hub.get("tokenizer.json", Need::Must).unwrap_err();
        assert_eq!(error.exit_status(), 2);
        assert!(error.to_string().contains("`tokenizer.json` of hub model `owner/name`"), "{error}");
    }
}
