//! `log.jsonl`: one row a step, named as TRL names them. Strict JSON: a number that is not finite is `null`.
//!
//! Rows are appended as they come, so that a run can be watched; a row that a killed process left half-written is dropped
//! when the run resumes.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::run::{atomic, jsonl};

/// One step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepRow {
    /// Optimizer steps done, this one included.
    pub step: usize,
    /// Epochs done, with the fraction of the running one.
    pub epoch: f64,
    /// Loss of the step's batch.
    pub loss: Option<f64>,
    /// Global gradient norm before clipping.
    pub grad_norm: Option<f64>,
    /// Learning rate of this update.
    pub learning_rate: f64,
    /// Tokens read since the run began.
    pub num_tokens: u64,
    /// Wall time of the step.
    pub step_seconds: Option<f64>,
    /// The objective's own means, e.g. `rewards/margins`.
    #[serde(flatten)]
    pub metrics: BTreeMap<String, Option<f64>>,
}

/// Means over the rows or pairs of a step.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(into = "BTreeMap<String, (u64, usize)>", from = "BTreeMap<String, (u64, usize)>")]
pub struct Means(BTreeMap<String, (f64, usize)>);

/// Sums travel between ranks as their bits: JSON has no number for one that is not finite.
impl From<Means> for BTreeMap<String, (u64, usize)> {
    fn from(means: Means) -> Self {
        means.0.into_iter().map(|(name, (sum, count))| (name, (sum.to_bits(), count))).collect()
    }
}

impl From<BTreeMap<String, (u64, usize)>> for Means {
    fn from(bits: BTreeMap<String, (u64, usize)>) -> Self {
        Self(bits.into_iter().map(|(name, (sum, count))| (name, (f64::from_bits(sum), count))).collect())
    }
}

impl Means {
    /// Adds one value.
    pub fn add(&mut self, name: impl Into<String>, value: f64) {
        let entry = self.0.entry(name.into()).or_default();
        entry.0 += value;
        entry.1 += 1;
    }

    /// Takes over the values of other means.
    pub fn merge(&mut self, others: Self) {
        for (name, (sum, count)) in others.0 {
            let entry = self.0.entry(name).or_default();
            entry.0 += sum;
            entry.1 += count;
        }
    }

    /// The mean of each name; one that is not finite has no value.
    pub fn finish(&self) -> BTreeMap<String, Option<f64>> {
        self.0.iter().map(|(name, (sum, count))| (name.clone(), finite(sum / *count as f64))).collect()
    }
}

/// The row's numbers by name, without those that are not finite and without wall time.
pub(super) fn scalars(row: &StepRow) -> Vec<(String, f64)> {
    let own = [
        ("epoch", Some(row.epoch)),
        ("loss", row.loss),
        ("grad_norm", row.grad_norm),
        ("learning_rate", Some(row.learning_rate)),
    ];
    let own = own.into_iter().map(|(name, value)| (name.to_owned(), value));
    let metrics = row.metrics.iter().map(|(name, value)| (name.clone(), *value));
    own.chain(metrics).filter_map(|(name, value)| value.map(|value| (name, value))).collect()
}

/// Seconds to the millisecond: more digits would be noise.
pub fn milliseconds(seconds: f64) -> f64 {
    (seconds * 1000.0).round() / 1000.0
}

/// Seconds of the logged steps up to `last`, whichever process made them.
pub fn seconds_of(log: &[StepRow], last: usize) -> f64 {
    log.iter().filter(|row| row.step <= last).filter_map(|row| row.step_seconds).sum()
}

/// `None` for what JSON has no number for.
pub fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

/// The open log.
#[derive(Debug)]
pub struct Log {
    path: PathBuf,
    file: File,
}

impl Log {
    /// Opens the log with only the rows of the first `steps` steps: none for a fresh run.
    ///
    /// # Errors
    /// [`Error::Write`]; [`Error::Read`] if an old log cannot be read.
    pub fn open(path: &Path, steps: usize) -> Result<Self> {
        atomic::write(path, &if steps == 0 { Vec::new() } else { lines_until(path, steps)? })?;
        let file = File::options().append(true).open(path).map_err(|source| Error::write(path, source))?;
        Ok(Self { path: path.to_path_buf(), file })
    }

    /// Appends a row as one write.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn append(&mut self, row: &StepRow) -> Result<()> {
        let mut line = serde_json::to_vec(row).map_err(|error| Error::Failed(error.to_string()))?;
        line.push(b'\n');
        self.file.write_all(&line).map_err(|source| Error::write(&self.path, source))
    }
}

/// Reads the whole log.
///
/// # Errors
/// As [`jsonl::read`].
pub fn read_log(path: &Path) -> Result<Vec<StepRow>> {
    jsonl::read(path)
}

/// Whole lines of steps up to `steps`, byte for byte; those written after the checkpoint are written again by the resumed
/// run.
fn lines_until(path: &Path, steps: usize) -> Result<Vec<u8>> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(Error::read(path, source)),
    };
    let is_kept = |line: &&[u8]| serde_json::from_slice::<StepRow>(line).is_ok_and(|row| row.step <= steps);
    Ok(bytes
        .split_inclusive(|&byte| byte == b'\n')
        .filter(|line| line.ends_with(b"\n"))
        .filter(is_kept)
        .flatten()
        .copied()
        .collect())
}
