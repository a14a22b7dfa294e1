//! `checkpoint-<step>/`: everything that decides the rest of a run, and nothing that does not.
//!
//! There is no generator state: every random choice is a pure function of the seed and the step. `state.json` is written
//! last and holds the digest of each tensor file, so a cut or changed checkpoint is recognised.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use candle_core::{Device, Tensor};
use serde::{Deserialize, Serialize};

use super::tensors::{parse_tensors, write_tensors};
use crate::error::{Error, Fault, Result};
use crate::run::seed::Seed;
use crate::run::{atomic, digest};

const PREFIX: &str = "checkpoint-";
const STATE: &str = "state.json";
const TRAINABLE: &str = "trainable.safetensors";
const OPTIMIZER: &str = "optimizer.safetensors";
const FORMAT: u32 = 1;

/// Where a run stands after a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrainingState {
    /// Optimizer steps done.
    pub step: usize,
    /// Epoch of the last step, from 0.
    pub epoch: usize,
    /// Rows or trees of that epoch done.
    pub position: usize,
    /// Tokens read so far.
    pub tokens: u64,
    /// Seed of the run.
    pub seed: Seed,
    /// Digest of settings, data and model: a checkpoint only continues the run that wrote it.
    pub run_digest: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct StateFile {
    format: u32,
    #[serde(flatten)]
    state: TrainingState,
    files: BTreeMap<String, String>,
}

/// A loaded checkpoint.
#[derive(Debug)]
pub struct Checkpoint {
    /// Where the run stood.
    pub state: TrainingState,
    /// Trained parameters by name.
    pub trainable: BTreeMap<String, Tensor>,
    /// Optimizer state by name.
    pub optimizer: BTreeMap<String, Tensor>,
}

/// What a run folder offers to continue from.
#[derive(Debug)]
pub struct Resumable {
    /// The newest checkpoint that is whole; `None` if the folder holds none at all.
    pub checkpoint: Option<Checkpoint>,
    /// Newer ones that could not be used, each with the reason.
    pub skipped: Vec<(PathBuf, String)>,
}

/// `checkpoint-<step>` of a run folder.
pub fn folder_of(run_folder: &Path, step: usize) -> PathBuf {
    run_folder.join(format!("{PREFIX}{step}"))
}

/// Writes `checkpoint-<step>/` into the run folder and returns its path.
///
/// # Errors
/// [`Error::Write`]; a failed write leaves earlier checkpoints as they were.
pub fn save(
    run_folder: &Path,
    state: &TrainingState,
    trainable: &BTreeMap<String, Tensor>,
    optimizer: &BTreeMap<String, Tensor>,
) -> Result<PathBuf> {
    let path = folder_of(run_folder, state.step);
    atomic::write_folder(&path, |folder| {
        let mut files = BTreeMap::new();
        for (name, tensors) in [(TRAINABLE, trainable), (OPTIMIZER, optimizer)] {
            let file = folder.join(name);
            write_tensors(&file, tensors)?;
            files.insert(name.to_owned(), digest::of_file(&file)?);
        }
        let state = StateFile { format: FORMAT, state: state.clone(), files };
        let text = serde_json::to_string_pretty(&state).map_err(|error| Error::Failed(error.to_string()))?;
        atomic::write(&folder.join(STATE), text.as_bytes())
    })?;
    Ok(path)
}

/// Reads a checkpoint and checks that it is whole.
///
/// # Errors
/// [`Error::Read`], or a [`Fault`] naming the file that is cut, changed or not in the format.
pub fn load(folder: &Path, device: &Device) -> Result<Checkpoint> {
    let path = folder.join(STATE);
    let bytes = std::fs::read(&path).map_err(|source| Error::read(&path, source))?;
    let file: StateFile = serde_json::from_slice(&bytes)
        .map_err(|error| Fault::new(format!("not a checkpoint's state: {error}")).at(path.display()))?;
    if file.format != FORMAT {
        return Err(Fault::new("unknown checkpoint format")
            .at(path.display())
            .got(file.format)
            .expected(FORMAT)
            .into());
    }
    let read = |name: &str| -> Result<BTreeMap<String, Tensor>> {
        let path = folder.join(name);
        let bytes = std::fs::read(&path).map_err(|source| Error::read(&path, source))?;
        if file.files.get(name) != Some(&digest::of_bytes(&bytes)) {
            return Err(Fault::new("the file was cut or changed after it was written").at(path.display()).into());
        }
        parse_tensors(&bytes, &path, device)
    };
    Ok(Checkpoint { trainable: read(TRAINABLE)?, optimizer: read(OPTIMIZER)?, state: file.state })
}

/// The newest whole checkpoint of a run folder.
///
/// # Errors
/// [`Fault`]s naming every checkpoint if there are some but none is whole.
pub fn latest(run_folder: &Path, device: &Device) -> Result<Resumable> {
    let mut skipped = Vec::new();
    for (_, folder) in folders(run_folder)?.into_iter().rev() {
        match load(&folder, device) {
            Ok(checkpoint) => return Ok(Resumable { checkpoint: Some(checkpoint), skipped }),
            Err(error) => skipped.push((folder, error.to_string())),
        }
    }
    if skipped.is_empty() {
        return Ok(Resumable { checkpoint: None, skipped });
    }
    let faults = skipped.into_iter().map(|(folder, reason)| {
        Fault::new(format!("no whole checkpoint to resume from: {reason}")).at(folder.display()).hint(
            "remove the damaged checkpoints, or start again: without --resume, or by `topalign run --force STAGE`",
        )
    });
    Err(Error::Invalid(faults.collect()))
}

/// Where the checkpoints of a run folder stand, by step, as their states say: tensors are not read, and a checkpoint whose state
/// cannot be read is left out.
///
/// # Errors
/// [`Error::Read`].
pub fn states(run_folder: &Path) -> Result<Vec<TrainingState>> {
    let read = |folder: PathBuf| {
        let bytes = std::fs::read(folder.join(STATE)).ok()?;
        serde_json::from_slice::<StateFile>(&bytes).ok().map(|file| file.state)
    };
    Ok(folders(run_folder)?.into_values().filter_map(read).collect())
}

/// Whether the run folder holds any checkpoint, whole or not.
///
/// # Errors
/// [`Error::Read`].
pub fn exist(run_folder: &Path) -> Result<bool> {
    Ok(!folders(run_folder)?.is_empty())
}

/// Removes all but the newest `keep` checkpoints.
///
/// # Errors
/// [`Error::Write`].
pub fn prune(run_folder: &Path, keep: usize) -> Result<()> {
    rotate(run_folder, keep, None)
}

/// Removes all but the newest `keep` checkpoints and the one of step `best`.
///
/// # Errors
/// [`Error::Write`].
pub fn rotate(run_folder: &Path, keep: usize, best: Option<usize>) -> Result<()> {
    let folders = folders(run_folder)?;
    let old = folders.iter().take(folders.len().saturating_sub(keep));
    for (_, folder) in old.filter(|(step, _)| Some(**step) != best) {
        std::fs::remove_dir_all(folder).map_err(|source| Error::write(folder, source))?;
    }
    Ok(())
}

/// Removes every checkpoint: a run that starts again must not resume the old one.
///
/// # Errors
/// [`Error::Write`].
pub fn clear(run_folder: &Path) -> Result<()> {
    prune(run_folder, 0)
}

/// Removes what a killed write left behind: temporary folders as large as a checkpoint.
///
/// # Errors
/// [`Error::Read`], [`Error::Write`].
pub fn sweep(run_folder: &Path) -> Result<()> {
    let Ok(entries) = std::fs::read_dir(run_folder) else { return Ok(()) };
    for entry in entries {
        let path = entry.map_err(|source| Error::read(run_folder, source))?.path();
        let ours = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(".topalign-"));
        if ours && path.is_dir() {
            std::fs::remove_dir_all(&path).map_err(|source| Error::write(&path, source))?;
        }
    }
    Ok(())
}

/// `checkpoint-<step>` folders by step.
fn folders(run_folder: &Path) -> Result<BTreeMap<usize, PathBuf>> {
    let entries = match std::fs::read_dir(run_folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(source) => return Err(Error::read(run_folder, source)),
    };
    let mut found = BTreeMap::new();
    for entry in entries {
        let path = entry.map_err(|source| Error::read(run_folder, source))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if let Some(Ok(step)) = name.strip_prefix(PREFIX).map(str::parse)
            && path.is_dir()
        {
            found.insert(step, path);
        }
    }
    Ok(found)
}
