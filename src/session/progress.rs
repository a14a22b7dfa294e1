//! Finished sessions, a line each, as they end: what a resumed run does not play again.
//!
//! A line is whole or not there: one that a kill cut is dropped. The first line says which recipe the rest belongs to.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::play::Played;
use crate::error::{Error, Fault, Result};
use crate::run::atomic::Pending;

/// Its name in the run folder while a run is under way.
const FILE: &str = "progress.jsonl";

/// Whether finished sessions are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// Keep them.
    Resume,
    /// Start over.
    Replace,
}

#[derive(Serialize, Deserialize)]
struct Header {
    recipe_digest: String,
}

#[derive(Serialize)]
struct Line<'a> {
    place: usize,
    #[serde(flatten)]
    played: &'a Played,
}

/// Only the place: enough to know that a line is whole.
#[derive(Deserialize)]
struct Place {
    place: usize,
}

/// A line whose parts go into their files as they stand.
#[derive(Deserialize)]
struct Parts<'a> {
    #[serde(borrow)]
    row: &'a RawValue,
    #[serde(borrow)]
    observations: Vec<&'a RawValue>,
    #[serde(borrow)]
    candidates: Option<&'a RawValue>,
    #[serde(borrow)]
    actions: Vec<&'a RawValue>,
    #[serde(borrow)]
    requests: Vec<&'a RawValue>,
}

/// The file while it grows.
#[derive(Debug)]
pub struct Progress {
    path: PathBuf,
    file: File,
    /// Start and length of each session's line.
    lines: BTreeMap<usize, (u64, usize)>,
    end: u64,
}

impl Progress {
    /// Opens the progress of a run folder.
    ///
    /// # Errors
    /// Progress of another recipe; a file that cannot be read or written.
    pub fn open(folder: &Path, recipe_digest: &str, existing: Existing) -> Result<Self> {
        let path = folder.join(FILE);
        let fail = |source| Error::write(&path, source);
        std::fs::create_dir_all(folder).map_err(fail)?;
        let keeps = existing == Existing::Resume && path.exists();
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(!keeps).open(&path).map_err(fail)?;
        let mut progress = Self { path: path.clone(), file, lines: BTreeMap::new(), end: 0 };
        if keeps {
            progress.read_lines(recipe_digest)?;
        }
        progress.file.set_len(progress.end).map_err(fail)?;
        progress.file.seek(SeekFrom::Start(progress.end)).map_err(fail)?;
        if progress.end == 0 {
            let header = Header { recipe_digest: recipe_digest.to_owned() };
            progress.append(&header)?;
        }
        Ok(progress)
    }

    fn read_lines(&mut self, recipe_digest: &str) -> Result<()> {
        let fail = |source| Error::read(&self.path, source);
        let mut reader = BufReader::new(&self.file);
        loop {
            let mut line = Vec::new();
            let read = reader.read_until(b'\n', &mut line).map_err(fail)?;
            if read == 0 || line.last() != Some(&b'\n') {
                return Ok(());
            }
            if self.end == 0 {
                match serde_json::from_slice::<Header>(&line) {
                    Ok(header) if header.recipe_digest == recipe_digest => {}
                    Ok(_) => {
                        return Err(Fault::new("the finished sessions are of another recipe")
                            .at(self.path.display())
                            .hint("run without --resume to start over, or give another --out")
                            .into());
                    }
                    Err(_) => return Ok(()),
                }
            } else {
                let Ok(Place { place }) = serde_json::from_slice(&line) else { return Ok(()) };
                self.lines.insert(place, (self.end, read));
            }
            self.end += read as u64;
        }
    }

    /// Whether a session is finished.
    pub fn has(&self, place: usize) -> bool {
        self.lines.contains_key(&place)
    }

    /// How many sessions are finished.
    pub fn finished(&self) -> usize {
        self.lines.len()
    }

    /// Adds a finished session.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn add(&mut self, place: usize, played: &Played) -> Result<()> {
        let start = self.end;
        let length = self.append(&Line { place, played })?;
        self.lines.insert(place, (start, length));
        Ok(())
    }

    fn append<T: Serialize>(&mut self, row: &T) -> Result<usize> {
        let fail = |source: std::io::Error| Error::write(&self.path, source);
        let mut bytes = serde_json::to_vec(row).map_err(|error| fail(error.into()))?;
        bytes.push(b'\n');
        self.file.write_all(&bytes).map_err(fail)?;
        self.end += bytes.len() as u64;
        Ok(bytes.len())
    }

    /// Writes the logs of all finished sessions in order, each file whole or not at all, and removes the progress.
    ///
    /// # Errors
    /// A file that cannot be read or written.
    pub fn finish(mut self, folder: &Path) -> Result<()> {
        let mut outputs = Outputs::create(folder)?;
        let places: Vec<(u64, usize)> = self.lines.values().copied().collect();
        for (start, length) in places {
            let mut line = vec![0; length];
            let read = self.file.seek(SeekFrom::Start(start)).and_then(|_| self.file.read_exact(&mut line));
            read.map_err(|source| Error::read(&self.path, source))?;
            let parts: Parts<'_> =
                serde_json::from_slice(&line).map_err(|error| Error::read(&self.path, error.into()))?;
            outputs.write(&parts)?;
        }
        outputs.commit()?;
        std::fs::remove_file(&self.path).map_err(|source| Error::write(&self.path, source))
    }
}

/// The five logs.
struct Outputs {
    sessions: Pending,
    observations: Pending,
    candidates: Pending,
    actions: Pending,
    requests: Pending,
}

impl Outputs {
    fn create(folder: &Path) -> Result<Self> {
        let open = |name: &str| Pending::create(&folder.join(name));
        Ok(Self {
            sessions: open("sessions.jsonl")?,
            observations: open("observations.jsonl")?,
            candidates: open("candidates.jsonl")?,
            actions: open("actions.jsonl")?,
            requests: open("requests.jsonl")?,
        })
    }

    fn write(&mut self, parts: &Parts<'_>) -> Result<()> {
        self.sessions.row(&parts.row)?;
        parts.observations.iter().try_for_each(|row| self.observations.row(row))?;
        parts.candidates.iter().try_for_each(|row| self.candidates.row(row))?;
        parts.actions.iter().try_for_each(|row| self.actions.row(row))?;
        parts.requests.iter().try_for_each(|row| self.requests.row(row))
    }

    fn commit(self) -> Result<()> {
        let files = [self.observations, self.candidates, self.actions, self.requests, self.sessions];
        files.into_iter().try_for_each(Pending::commit)
    }
}
