//! Skip-if-complete: a stage is done when its inputs' digest and its outputs' digests are those on record.
//!
//! The record is written after the stage's outputs, so that a killed run repeats the stage it was in and nothing else.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::run::{atomic, digest, interrupt};

/// What a finished stage was made from and what it left.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Digest of everything the stage reads: settings, input files, program version.
    pub inputs: String,
    /// Digest of each output, by its path within the run folder.
    pub outputs: BTreeMap<String, String>,
    /// Wall time in seconds; attempts for the same inputs that were interrupted or failed are included.
    pub seconds: f64,
    /// The outputs are whole. An attempt that ended before leaves a record that only keeps its time.
    #[serde(default = "complete")]
    pub complete: bool,
}

fn complete() -> bool {
    true
}

/// The stages of one run folder.
#[derive(Debug)]
pub struct Stages {
    folder: PathBuf,
    records: BTreeMap<String, Record>,
    force: Vec<String>,
    announce: fn(&str),
}

const FILE: &str = "stages.json";

impl Stages {
    /// Opens a run folder; an unreadable record means that nothing is known to be complete.
    pub fn open(folder: &Path, force: &[String], announce: fn(&str)) -> Self {
        let records = std::fs::read(folder.join(FILE))
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_default();
        Self { folder: folder.to_path_buf(), records, force: force.to_vec(), announce }
    }

    /// The records so far.
    pub fn records(&self) -> &BTreeMap<String, Record> {
        &self.records
    }

    /// Takes over the records of the rank that writes them.
    pub fn replace_records(&mut self, records: BTreeMap<String, Record>) {
        self.records = records;
    }

    /// Whether [`Stages::run_forced`] would do the work.
    ///
    /// # Errors
    /// [`Error::Failed`] for inputs without a JSON form.
    pub fn is_due(&self, forced: bool, name: &str, inputs: &impl Serialize, outputs: &[&str]) -> Result<bool> {
        Ok(forced || !self.is_complete(name, &digest_inputs(inputs)?, outputs))
    }

    /// Digest of an output of an earlier stage, for use among a later stage's inputs.
    pub fn output(&self, stage: &str) -> Option<&BTreeMap<String, String>> {
        self.records.get(stage).filter(|record| record.complete).map(|record| &record.outputs)
    }

    /// Runs `work` unless the stage is complete for these inputs.
    ///
    /// # Errors
    /// Whatever `work` returns; [`Error::Interrupted`] between stages.
    pub fn run(
        &mut self,
        name: &str,
        inputs: &impl Serialize,
        outputs: &[&str],
        work: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        self.run_forced(self.is_forced(name), name, inputs, outputs, work)
    }

    /// Whether the user asked to redo this stage.
    pub fn is_forced(&self, name: &str) -> bool {
        self.force.iter().any(|forced| forced == name)
    }

    /// As [`Stages::run`], where the caller says whether to redo a complete stage.
    ///
    /// # Errors
    /// As [`Stages::run`].
    pub fn run_forced(
        &mut self,
        forced: bool,
        name: &str,
        inputs: &impl Serialize,
        outputs: &[&str],
        work: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        interrupt::check()?;
        let inputs = digest_inputs(inputs)?;
        if !forced && self.is_complete(name, &inputs, outputs) {
            (self.announce)(&format!("{name}: complete, skipped"));
            return Ok(());
        }
        (self.announce)(&format!("{name}: running"));
        let earlier = self.unfinished_seconds(name, &inputs);
        let start = Instant::now();
        let worked = work();
        let seconds = ((earlier + start.elapsed().as_secs_f64()) * 1000.0).round() / 1000.0;
        if let Err(error) = worked {
            self.record(name, Record { inputs, outputs: BTreeMap::new(), seconds, complete: false })?;
            return Err(error);
        }
        let outputs = self.digests(outputs)?;
        (self.announce)(&format!("{name}: done in {seconds:.1} s"));
        self.record(name, Record { inputs, outputs, seconds, complete: true })
    }

    /// What earlier attempts at the same work took before they ended.
    fn unfinished_seconds(&self, name: &str, inputs: &str) -> f64 {
        let unfinished = self.records.get(name).filter(|record| !record.complete && record.inputs == inputs);
        unfinished.map_or(0.0, |record| record.seconds)
    }

    fn record(&mut self, name: &str, record: Record) -> Result<()> {
        self.records.insert(name.to_owned(), record);
        let json = serde_json::to_vec_pretty(&self.records).map_err(|error| Error::Failed(error.to_string()))?;
        atomic::write(&self.folder.join(FILE), &json)
    }

    fn is_complete(&self, name: &str, inputs: &str, outputs: &[&str]) -> bool {
        self.records.get(name).is_some_and(|record| {
            record.complete
                && record.inputs == inputs
                && self.digests(outputs).is_ok_and(|found| found == record.outputs)
        })
    }

    fn digests(&self, outputs: &[&str]) -> Result<BTreeMap<String, String>> {
        outputs.iter().map(|output| Ok(((*output).to_owned(), digest_path(&self.folder.join(output))?))).collect()
    }
}

fn digest_inputs(inputs: &impl Serialize) -> Result<String> {
    digest::of_value(&(env!("CARGO_PKG_VERSION"), inputs))
}

/// Digest of a file, or of a folder's files with their names.
fn digest_path(path: &Path) -> Result<String> {
    if !path.is_dir() {
        return digest::of_file(path);
    }
    let mut files = BTreeMap::new();
    let entries = std::fs::read_dir(path).map_err(|source| Error::read(path, source))?;
    for entry in entries {
        let entry = entry.map_err(|source| Error::read(path, source))?;
        files.insert(entry.file_name().to_string_lossy().into_owned(), digest_path(&entry.path())?);
    }
    digest::of_value(&files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_attempt_is_not_complete_and_its_time_is_added() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        let mut stages = Stages::open(folder.path(), &[], |_| {});
        let pause = std::time::Duration::from_millis(30);
        let interrupted = stages.run("work", &1, &["out"], || {
            std::thread::sleep(pause);
            Err(Error::Interrupted)
        });
        assert!(matches!(interrupted, Err(Error::Interrupted)));
        assert!(stages.output("work").is_none());
        let mut stages = Stages::open(folder.path(), &[], |_| {});
        let mut ran = 0;
        for _ in 0..2 {
            stages
                .run("work", &1, &["out"], || {
                    ran += 1;
                    std::thread::sleep(pause);
                    atomic::write(&out, b"whole")
                })
                .unwrap();
        }
        assert_eq!(ran, 1, "a complete stage is skipped");
        assert!(stages.records()["work"].seconds >= 0.06);
    }

    #[test]
    fn time_spent_on_other_inputs_is_not_added() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        let mut stages = Stages::open(folder.path(), &[], |_| {});
        let failed = stages.run("work", &1, &["out"], || {
            std::thread::sleep(std::time::Duration::from_secs(1));
            Err(Error::Failed("on purpose".to_owned()))
        });
        assert!(failed.is_err());
        stages.run("work", &2, &["out"], || atomic::write(&out, b"whole")).unwrap();
        assert!(stages.records()["work"].seconds < 1.0);
    }
}
