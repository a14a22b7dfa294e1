//! The completions file while it grows: written whole and atomically every few completions, so that an interrupted run
//! loses little and a resumed one ends with the same bytes as one that was never interrupted.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::completion::{Completion, Finish};
use crate::error::{Fault, Result};
use crate::prompt::Mitigation;
use crate::recipe::settings::SelectionSource;
use crate::run::jsonl;
use crate::run::seed::Seed;
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

/// A completions file for one system.
#[derive(Debug)]
pub struct Output {
    path: PathBuf,
    /// Completions of other systems, mitigations, seeds or traces, in the order in which the file has them.
    others: Vec<Completion>,
    /// This system's completions by the index of their trace.
    own: BTreeMap<usize, Completion>,
    trace_index: BTreeMap<String, usize>,
    unwritten: usize,
}

impl Output {
    /// Opens `path` for the completions of `traces` by one system. A file that is not there is empty.
    ///
    /// # Errors
    /// As [`jsonl::read`] when resuming.
    pub fn open(
        path: &Path,
        existing: Existing,
        traces: &[Trace],
        (system, mitigation, seed): (&str, Mitigation, Seed),
    ) -> Result<Self> {
        let trace_index: BTreeMap<String, usize> =
            traces.iter().enumerate().map(|(index, trace)| (trace.trace_id.clone(), index)).collect();
        let mut output =
            Self { path: path.to_path_buf(), others: Vec::new(), own: BTreeMap::new(), trace_index, unwritten: 0 };
        if existing == Existing::Resume && path.exists() {
            for row in jsonl::read::<Completion>(path)? {
                let same = row.system == system && row.mitigation == mitigation && row.seed == seed.0;
                match output.trace_index.get(&row.trace_id).filter(|_| same) {
                    Some(&index) => _ = output.own.insert(index, row),
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
    /// stage 1 was answered but could not be read stays: that is the model's own doing.
    pub fn forget_failed_calls(&mut self) {
        self.own.retain(|_, row| row.finish != Finish::Error || row.selection_fault.is_some());
    }

    /// The traces that have no completion yet, in order.
    pub fn missing(&self, traces: &[Trace]) -> Vec<Trace> {
        let done: BTreeSet<&str> = self.own.values().map(|row| row.trace_id.as_str()).collect();
        traces.iter().filter(|trace| !done.contains(trace.trace_id.as_str())).cloned().collect()
    }

    /// Takes a completion, and writes the file every few of them.
    ///
    /// # Errors
    /// [`crate::error::Error::Write`].
    pub fn add(&mut self, completion: &Completion) -> Result<()> {
        match self.trace_index.get(&completion.trace_id) {
            Some(&index) => _ = self.own.insert(index, completion.clone()),
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

    /// This system's completions in the order of the traces.
    pub fn completions(&self) -> impl Iterator<Item = &Completion> {
        self.own.values()
    }
}
