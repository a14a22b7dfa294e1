//! `manifest.json` of a training run: written first as `started`, replaced last as `complete`.
//!
//! Its `complete` means that everything else in the folder is whole.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::rows::DroppedRow;
use crate::error::{Error, Result};
use crate::recipe::settings::Arithmetic;
use crate::run::atomic;
use crate::run::seed::Seed;

/// File name in the run folder.
pub const MANIFEST: &str = "manifest.json";

/// What a run is and what it took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunManifest {
    /// How far it got.
    pub status: RunStatus,
    /// `sft` or `dpo`.
    pub stage: String,
    /// Version of this program.
    pub version: String,
    /// Commit of this program, where the build knew it.
    pub commit: Option<String>,
    /// Digest of the resolved recipe, where a recipe started the run.
    pub recipe_digest: Option<String>,
    /// Digests of the inputs by name.
    pub inputs: BTreeMap<String, String>,
    /// Digest of settings, data and model together: checkpoints carry it too.
    pub run_digest: String,
    /// Seed of the run.
    pub seed: Seed,
    /// `cpu`, `cuda:0`, ...
    pub device: String,
    /// Processes that trained together, those of the last start where there were several.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub ranks: usize,
    /// Number format of activations and matrix products: `f32`, `bf16`. Trained weights, moments and losses are f32 in both.
    pub dtype: String,
    /// How matrix products were computed: `f32`, `split-bf16`, `bf16`; `f32` too where the processor has no tile unit.
    #[serde(default)]
    pub arithmetic: Arithmetic,
    /// Rows and what became of them.
    pub data: DataCounts,
    /// Steps that the run has.
    pub steps: usize,
    /// Step that a resumed run continued from.
    pub resumed_from: Option<usize>,
    /// Trained and all parameters.
    pub parameters: ParameterCounts,
    /// When the run began, RFC 3339.
    pub started_at: String,
    /// What only a complete run knows.
    pub outcome: Option<RunOutcome>,
}

/// How far a run got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunStatus {
    /// Begun; perhaps still running, perhaps killed.
    Started,
    /// Everything is written.
    Complete,
}

/// Rows and what became of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataCounts {
    /// Rows read.
    pub rows: usize,
    /// Rows (SFT) or trees (DPO) trained on.
    pub units: usize,
    /// Answers trained on.
    pub answers: usize,
    /// Rows left out, each with its reason.
    pub dropped: Vec<DroppedRow>,
    /// Held-out rows (SFT) or trees (DPO) evaluated on.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub held_out_units: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

fn one() -> usize {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_one(count: &usize) -> bool {
    *count == 1
}

/// Sizes of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParameterCounts {
    /// Values that training changes.
    pub trained: usize,
    /// Tensors that training changes.
    pub tensors: usize,
    /// Those of them that weight decay is for: matrices, not norms and biases.
    #[serde(default)]
    pub decayed_tensors: usize,
}

/// What only a complete run knows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunOutcome {
    /// When it ended, RFC 3339.
    pub finished_at: String,
    /// Wall time from loading to export, and the logged steps of the processes that a resumed run continued.
    pub seconds: f64,
    /// Of which in optimizer steps, whichever process made them.
    pub step_seconds: f64,
    /// Of which computing the reference's log-probabilities, or reading them from the cache; absent without a reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference_seconds: Option<f64>,
    /// Tokens read over the whole run.
    pub tokens: u64,
    /// Loss of the first logged and of the last step.
    pub first_loss: Option<f64>,
    /// Loss of the last step.
    pub last_loss: Option<f64>,
    /// Steps done: fewer than the run has where the held-out loss ended it.
    #[serde(default)]
    pub steps_done: usize,
    /// Step of the lowest loss on the held-out rows, where there were some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best_step: Option<usize>,
    /// That loss.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best_loss: Option<f64>,
    /// Peak resident memory of the process, where the system tells it.
    pub peak_memory_bytes: Option<u64>,
}

impl RunManifest {
    /// Writes it into the run folder.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn write(&self, run_folder: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self).map_err(|error| Error::Failed(error.to_string()))?;
        atomic::write(&run_folder.join(MANIFEST), text.as_bytes())
    }

    /// Reads a run folder's manifest; `None` without one, or if it is not of a training run.
    pub fn read(run_folder: &Path) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(run_folder.join(MANIFEST)).ok()?).ok()
    }
}

/// Peak resident memory of this process, from the line `VmHWM` of `/proc/self/status`.
pub fn peak_memory_bytes() -> Option<u64> {
    status_bytes("VmHWM:")
}

/// Resident memory of this process now.
pub(super) fn resident_memory_bytes() -> Option<u64> {
    status_bytes("VmRSS:")
}

fn status_bytes(name: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kibibytes| kibibytes * 1024)
}
