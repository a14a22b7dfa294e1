//! The data set's folder, written whole or not at all.
//!
//! In: [`Built`], at once or piece by piece, and the digests of what it was built from. Out: `sft.jsonl`, `dpo.jsonl`,
//! `audit.jsonl`, `quarantine.jsonl`, `README.md`, where they are asked for `sft.parquet` and `dpo.parquet`, and, last,
//! `manifest.json`. Only audited rows can come here: [`Built`] holds
//! no others.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use serde::Serialize;

use crate::audit::Severities;
use crate::error::{Error, Fault, Result};
use crate::recipe::settings::Tables;
use crate::run::atomic::{self, Pending};
use crate::run::digest;
use crate::run::seed::Seed;
use crate::trace::Part;

use super::card::card;
use super::sheet::Sheets;
use super::stream::{Sources, build_each};
use super::{Built, Counts, Options, Tallying, Writer};

/// Rows that one thread turns into text at a time.
const CHUNK: usize = 64;

/// What the data set was built from: digests by role, e.g. `traces`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Inputs(pub BTreeMap<String, String>);

/// How a data set came to be, for its manifest and card.
#[derive(Debug, Clone, Copy)]
pub struct Made<'a> {
    /// Digests of what it was built from.
    pub inputs: &'a Inputs,
    /// Who wrote the answers.
    pub writer: &'a Writer<'a>,
    /// Seed of all choices.
    pub seed: Seed,
    /// What the build did beyond the usual.
    pub options: &'a Options<'a>,
    /// In which forms rows are written.
    pub tables: Tables,
}

#[derive(Serialize)]
struct Manifest<'a> {
    version: &'static str,
    writer: &'a str,
    seed: Seed,
    #[serde(skip_serializing_if = "Severities::is_empty")]
    severities: &'a Severities,
    inputs: &'a Inputs,
    outputs: BTreeMap<&'static str, String>,
    counts: &'a Counts,
    notes: [&'static str; 2],
}

const NOTES: [&str; 2] = [
    "held-out traces give no SFT row and no preference pair",
    "only rows whose audit passed are in sft.jsonl and dpo.jsonl; everything else is in quarantine.jsonl",
];

/// Writes the folder; what was there before is replaced only once all of the new is complete.
///
/// # Errors
/// [`Error::Write`] with the path.
pub fn write(folder: &Path, built: &Built, counts: &Counts, made: Made<'_>) -> Result<()> {
    atomic::write_folder(folder, |folder| {
        let mut sink = Sink::create(folder, made.tables)?;
        sink.add(built)?;
        sink.finish(counts, made)
    })
}

/// Builds and writes piece by piece: memory does not grow with the number of traces, but for 16-byte digests.
///
/// # Errors
/// As [`Builder::take`](super::Builder::take) and [`write()`]; no training row at all. The folder is then as it was.
pub fn write_each(
    folder: &Path,
    sources: Sources<'_>,
    parts: &BTreeMap<String, Part>,
    made: Made<'_>,
) -> Result<Counts> {
    let mut tallying = Tallying::default();
    let mut counts = None;
    atomic::write_folder(folder, |folder| {
        let mut sink = Sink::create(folder, made.tables)?;
        build_each(sources, parts, (made.writer, made.seed, made.options), &mut |built, traces| {
            tallying.add(built, traces);
            sink.add(built)
        })?;
        let figures = tallying.counts();
        if figures.usable == 0 {
            return Err(Fault::new(format!("no trace of {} gives a training row\n{}", figures.traces, figures.text()))
                .at(sources.traces.display())
                .hint("the contracts must be of these traces and hold required values (`topalign contract`)")
                .into());
        }
        sink.finish(&figures, made)?;
        counts = Some(figures);
        Ok(())
    })?;
    counts.ok_or(Error::Interrupted)
}

/// The files of a folder, open.
struct Sink {
    folder: PathBuf,
    sft: Pending,
    pairs: Pending,
    selection_pairs: Option<Pending>,
    audits: Pending,
    quarantine: Pending,
    sheets: Option<Sheets>,
}

const SELECTION_PAIRS: &str = "dpo-selection.jsonl";

impl Sink {
    fn create(folder: &Path, tables: Tables) -> Result<Self> {
        let sheets = match tables {
            Tables::Json => None,
            Tables::JsonAndParquet => Some(Sheets::create(folder)?),
        };
        let create = |name: &str| Pending::create(&folder.join(name));
        Ok(Self {
            sft: create("sft.jsonl")?,
            pairs: create("dpo.jsonl")?,
            selection_pairs: None,
            audits: create("audit.jsonl")?,
            quarantine: create("quarantine.jsonl")?,
            sheets,
            folder: folder.to_path_buf(),
        })
    }

    fn add(&mut self, built: &Built) -> Result<()> {
        append(&mut self.sft, &built.sft)?;
        append(&mut self.pairs, &built.pairs)?;
        append(&mut self.audits, &built.audits)?;
        append(&mut self.quarantine, &built.quarantine)?;
        if let Some(sheets) = &mut self.sheets {
            sheets.add(built)?;
        }
        if built.selection_pairs.is_empty() {
            return Ok(());
        }
        if self.selection_pairs.is_none() {
            self.selection_pairs = Some(Pending::create(&self.folder.join(SELECTION_PAIRS))?);
        }
        self.selection_pairs.as_mut().map_or(Ok(()), |file| append(file, &built.selection_pairs))
    }

    fn finish(self, counts: &Counts, made: Made<'_>) -> Result<()> {
        let mut names = vec!["sft.jsonl", "dpo.jsonl", "audit.jsonl", "quarantine.jsonl", "README.md"];
        for file in [self.sft, self.pairs, self.audits, self.quarantine] {
            file.commit()?;
        }
        if let Some(file) = self.selection_pairs {
            file.commit()?;
            names.push(SELECTION_PAIRS);
        }
        if let Some(sheets) = self.sheets {
            names.extend(sheets.finish()?);
        }
        let folder = &self.folder;
        atomic::write(&folder.join("README.md"), card(counts, made).as_bytes())?;
        let mut outputs = BTreeMap::new();
        for name in names {
            outputs.insert(name, digest::of_file(&folder.join(name))?);
        }
        let manifest = Manifest {
            version: env!("CARGO_PKG_VERSION"),
            writer: made.writer.name(),
            seed: made.seed,
            severities: &made.options.severities,
            inputs: made.inputs,
            outputs,
            counts,
            notes: NOTES,
        };
        let text = serde_json::to_string_pretty(&manifest).map_err(|error| Error::Failed(error.to_string()))?;
        atomic::write(&folder.join("manifest.json"), format!("{text}\n").as_bytes())
    }
}

/// Appends rows, which become text on all threads.
fn append<T: Serialize + Sync>(file: &mut Pending, rows: &[T]) -> Result<()> {
    let text = |rows: &[T]| -> Result<Vec<u8>> {
        let mut text = Vec::new();
        for row in rows {
            serde_json::to_writer(&mut text, row).map_err(|error| Error::Failed(error.to_string()))?;
            text.push(b'\n');
        }
        Ok(text)
    };
    let texts: Vec<Vec<u8>> = rows.par_chunks(CHUNK).map(text).collect::<Result<_>>()?;
    texts.iter().try_for_each(|text| file.write_all(text)).map_err(|source| Error::write(file.path(), source))
}
