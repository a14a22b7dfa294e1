//! The completions file while it grows: written whole and atomically every few completions, so that an interrupted run
//! loses little and a resumed one ends with the same bytes as one that was never interrupted.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::completion::{Completion, Finish};
use crate::endpoint::Counts;
use crate::error::{Error, Fault, Result};
use crate::prompt::Mitigation;
use crate::recipe::settings::SelectionSource;
use crate::run::seed::Seed;
use crate::run::{atomic, jsonl};
use crate::trace::Trace;

/// Completions between two writes.
const WRITE_EVERY: usize = 16;

/// Whether completions that the file already holds are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// Keep them all and answer only what is missing.
    Resume,
    /// Start over.
    Replace,
}

/// Where what a file's completions took is kept: `completions.jsonl` has its calls in `completions.calls.json`. They are apart from the
/// completions, since latencies are never the same twice.
fn calls_file(completions: &Path) -> PathBuf {
    completions.with_extension("calls.json")
}

/// Adds what a run over an endpoint took to the runs before it; a run that starts over starts the list over.
///
/// # Errors
/// [`Error::Write`]; an earlier list that cannot be read.
pub fn append_calls(completions: &Path, existing: Existing, counts: &Counts) -> Result<()> {
    let mut runs = if existing == Existing::Resume { read_calls(completions)? } else { Vec::new() };
    runs.push(counts.clone());
    write_calls(completions, &runs)
}

/// Keeps what the runs behind a file of completions took, in their order.
///
/// # Errors
/// [`Error::Write`].
pub fn write_calls(completions: &Path, runs: &[Counts]) -> Result<()> {
    let json = serde_json::to_vec_pretty(runs).map_err(|error| Error::Failed(error.to_string()))?;
    atomic::write(&calls_file(completions), &json)
}

/// What the runs behind a file of completions took, in their order; none where no endpoint was asked.
///
/// # Errors
/// A list that cannot be read.
pub fn read_calls(completions: &Path) -> Result<Vec<Counts>> {
    let file = calls_file(completions);
    if !file.is_file() {
        return Ok(Vec::new());
    }
    let bytes = std::fs::read(&file).map_err(|source| Error::read(&file, source))?;
    serde_json::from_slice(&bytes)
        .map_err(|error| Fault::new(format!("not a list of counts: {error}")).at(file.display()).into())
}

/// Whose completions a file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity<'a> {
    /// The system's name.
    pub system: &'a str,
    /// Its mitigation.
    pub mitigation: Mitigation,
    /// Seed of the first sample of each trace; the others have the seeds after it.
    pub seed: Seed,
    /// Samples of each trace.
    pub samples: usize,
}

impl Identity<'_> {
    /// Which sample a row is, if it is one of this system's.
    fn sample(&self, row: &Completion) -> Option<usize> {
        let is_own = row.system == self.system && row.mitigation == self.mitigation;
        (0..self.samples.max(1)).find(|sample| is_own && row.seed == self.seed.0.wrapping_add(*sample as u64))
    }
}

/// A completions file for one system.
#[derive(Debug)]
pub struct Output {
    path: PathBuf,
    /// Completions of other systems, mitigations, seeds or traces, in the order in which the file has them.
    others: Vec<Completion>,
    /// This system's completions by the index of their trace and the sample of it.
    own: BTreeMap<(usize, usize), Completion>,
    trace_index: BTreeMap<String, usize>,
    seed: Seed,
    samples: usize,
    unwritten: usize,
}

impl Output {
    /// Opens `path` for the completions of `traces` by one system. A file that is not there is empty.
    ///
    /// # Errors
    /// As [`jsonl::read`] when resuming.
    pub fn open(path: &Path, existing: Existing, traces: &[Trace], identity: Identity<'_>) -> Result<Self> {
        let trace_index: BTreeMap<String, usize> =
            traces.iter().enumerate().map(|(index, trace)| (trace.trace_id.clone(), index)).collect();
        let mut output = Self {
            path: path.to_path_buf(),
            others: Vec::new(),
            own: BTreeMap::new(),
            trace_index,
            seed: identity.seed,
            samples: identity.samples.max(1),
            unwritten: 0,
        };
        if existing == Existing::Resume && path.exists() {
            for row in jsonl::read::<Completion>(path)? {
                match output.trace_index.get(&row.trace_id).copied().zip(identity.sample(&row)) {
                    Some(place) => _ = output.own.insert(place, row),
                    None => output.others.push(row),
                }
            }
        }
        Ok(output)
    }

    /// Refuses to go on under another selection source than the kept completions': the two are not comparable.
    ///
    /// # Errors
    /// A [`Fault`] that names the first such completion.
    pub fn check_selection(&self, selection: SelectionSource) -> Result<()> {
        let Some(other) = self.own.values().find(|row| row.selection_source != selection) else { return Ok(()) };
        Err(Fault::new("the file holds completions of this system whose stage 2 answered from another selection")
            .at(format!("{}: {}", self.path.display(), other.trace_id))
            .got(format!("{:?}", other.selection_source).to_lowercase())
            .expected(format!("{selection:?}").to_lowercase())
            .hint("give this run another --system or --out")
            .into())
    }

    /// Drops this system's completions that failed for reasons of an endpoint, so that they are asked for again. One whose
    /// stage 1 was answered but could not be read, and that had no stage 2 for it, stays: that is the model's own doing.
    pub fn forget_failed_calls(&mut self) {
        let is_own_doing =
            |row: &Completion| row.selection_fault.is_some() && row.selection_source == SelectionSource::Protocol;
        self.own.retain(|_, row| row.finish != Finish::Error || is_own_doing(row));
    }

    /// The traces that have not all of their completions yet, in order.
    pub fn missing(&self, traces: &[Trace]) -> Vec<Trace> {
        let mut done: BTreeMap<&str, usize> = BTreeMap::new();
        for row in self.own.values() {
            *done.entry(&row.trace_id).or_default() += 1;
        }
        let is_done = |trace: &&Trace| done.get(trace.trace_id.as_str()).is_some_and(|count| *count >= self.samples);
        traces.iter().filter(|trace| !is_done(trace)).cloned().collect()
    }

    /// Takes a completion, and writes the file every few of them.
    ///
    /// # Errors
    /// [`crate::error::Error::Write`].
    pub fn add(&mut self, completion: &Completion) -> Result<()> {
        let sample = usize::try_from(completion.seed.wrapping_sub(self.seed.0)).unwrap_or(usize::MAX);
        match self.trace_index.get(&completion.trace_id).filter(|_| sample < self.samples) {
            Some(&index) => _ = self.own.insert((index, sample), completion.clone()),
            None => self.others.push(completion.clone()),
        }
        self.unwritten += 1;
        if self.unwritten >= WRITE_EVERY { self.write() } else { Ok(()) }
    }

    /// Writes the file: other systems first, then this one's completions in the order of the traces.
    ///
    /// # Errors
    /// [`crate::error::Error::Write`].
    pub fn write(&mut self) -> Result<()> {
        jsonl::write(&self.path, self.others.iter().chain(self.own.values()))?;
        self.unwritten = 0;
        Ok(())
    }

    /// This system's completions in the order of the traces, samples of one together.
    pub fn completions(&self) -> impl Iterator<Item = &Completion> {
        self.own.values()
    }
}
