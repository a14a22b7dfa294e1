//! The data set's folder, written whole or not at all.
//!
//! In: [`Built`], at once or piece by piece, and the digests of what it was built from. Out: `sft.jsonl`, `dpo.jsonl`,
//! `audit.jsonl`, `quarantine.jsonl`, `README.md`, where they are asked for `sft.parquet` and `dpo.parquet`, and, last,
//! `manifest.json`. Only audited rows can come here: [`Built`] holds
//! no others.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::audit::{Severities, Verdict};
use crate::error::{Error, Fault, Result};
use crate::recipe::settings::Tables;
use crate::run::atomic::{self, Outputs, Pending};
use crate::run::digest;
use crate::run::seed::Seed;
use crate::run::shard::{Dealer, Dealt, Shard, ShardFile, Shards};
use crate::trace::Part;

use super::builder::Draft;
use super::card::card;
use super::settle::{Rules, Settler};
use super::sheet::Sheets;
use super::stream::{Sources, draft_each};
use super::{Built, Counts, Options, Tallying, Writer};

/// Rows that one thread turns into text at a time.
const CHUNK: usize = 64;

/// What the data set was built from: digests by role, e.g. `traces`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
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

/// What a manifest and a card say of how a data set came to be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Origin<'a> {
    pub inputs: &'a Inputs,
    pub writer: &'a str,
    pub seed: Seed,
    pub severities: &'a Severities,
}

impl<'a> From<Made<'a>> for Origin<'a> {
    fn from(made: Made<'a>) -> Self {
        let severities = &made.options.severities;
        Self { inputs: made.inputs, writer: made.writer.name(), seed: made.seed, severities }
    }
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

/// The files of a data set's folder.
pub(super) const OUTPUTS: Outputs = Outputs {
    what: "data set",
    mark: "manifest.json",
    names: &[&[
        "sft.jsonl",
        "dpo.jsonl",
        SELECTION_PAIRS,
        "audit.jsonl",
        "quarantine.jsonl",
        "sft.parquet",
        "dpo.parquet",
        "README.md",
        "manifest.json",
    ]],
};

/// Writes the folder; an earlier data set is replaced only once all of the new is complete.
///
/// # Errors
/// A [`Fault`] for a folder that holds anything else; [`Error::Write`] with the path; [`Error::Gate`] if a check of the whole set
/// fails.
pub fn write(folder: &Path, built: &Built, counts: &Counts, made: Made<'_>) -> Result<()> {
    atomic::refuse_other_folder(folder, &OUTPUTS)?;
    atomic::write_folder(folder, |folder| {
        let mut sink = Sink::create(folder, made.tables)?;
        sink.add(built)?;
        sink.finish(counts.clone(), made.into()).map(drop)
    })
}

/// Builds and writes piece by piece: memory does not grow with the number of traces, but for digests and sketches.
///
/// # Errors
/// As [`Builder::take`](super::Builder::take) and [`write()`]; no training row at all. The folder is then as it was.
pub fn write_each(
    folder: &Path,
    sources: Sources<'_>,
    parts: &BTreeMap<String, Part>,
    made: Made<'_>,
) -> Result<Counts> {
    let means = (made.writer, made.seed, made.options);
    let plan = Plan {
        origin: made.into(),
        rules: made.options.into(),
        keeps_out: made.options.keeps_out(parts),
        tables: made.tables,
        place: sources.traces.display().to_string(),
    };
    write_settled(folder, &plan, |visit| {
        // Pieces are drafted here while the one before is settled and written there.
        std::thread::scope(|scope| {
            let (sender, receiver) = mpsc::sync_channel::<Vec<Draft>>(1);
            let settling = scope.spawn(move || receiver.into_iter().try_for_each(visit));
            let drafted = draft_each(sources, parts, means, &mut Dealer::new(None), &mut |drafts| {
                sender.send(drafts).map_err(|_| Error::Failed("writing has stopped".to_owned()))
            });
            drop(sender);
            let settled = settling.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            settled.and(drafted)
        })
    })
}

/// Drafts the rows of one shard's traces and writes them into a file, for [`merge`] to settle.
///
/// # Errors
/// As [`Builder::take`](super::Builder::take); [`Error::Write`].
pub fn write_shard(
    mut file: ShardFile,
    sources: Sources<'_>,
    parts: &BTreeMap<String, Part>,
    made: Made<'_>,
    shard: Shard,
) -> Result<Dealt> {
    let means = (made.writer, made.seed, made.options);
    draft_each(sources, parts, means, &mut Dealer::new(Some(shard)), &mut |drafts| file.items(&drafts))?;
    file.commit(&())
}

/// How the data set came to be that shards are merged into.
#[derive(Debug, Clone)]
pub struct Merged<'a> {
    /// Digests of what it was built from.
    pub inputs: &'a Inputs,
    /// Who wrote the answers.
    pub writer: &'a str,
    /// Seed of all choices.
    pub seed: Seed,
    /// Pairs of one kind, domain and difficulty at most.
    pub quota: Option<usize>,
    /// Severities of checks other than the usual ones.
    pub severities: &'a Severities,
    /// Whether prompts were compared with any that were kept out.
    pub keeps_out: bool,
    /// In which forms rows are written.
    pub tables: Tables,
}

/// Settles the drafts of all shards into the folder that one build would have written.
///
/// # Errors
/// As [`write_each`]; shards that are cut or changed.
pub fn merge(folder: &Path, shards: Shards, merged: &Merged<'_>) -> Result<Counts> {
    let Merged { inputs, writer, seed, quota, severities, keeps_out, tables } = *merged;
    let plan = Plan {
        origin: Origin { inputs, writer, seed, severities },
        rules: Rules { quota, severities },
        keeps_out,
        tables,
        place: "the shards' traces".to_owned(),
    };
    write_settled(folder, &plan, |visit| {
        // A shard's pieces need not be those of one build: rows do not depend on them.
        shards.each(|drafts: Vec<Draft>| visit(drafts)).map(drop)
    })
}

/// What a data set is settled and written by.
struct Plan<'a> {
    origin: Origin<'a>,
    rules: Rules<'a>,
    keeps_out: bool,
    tables: Tables,
    /// Where the traces are from, for errors.
    place: String,
}

type Visit<'v> = &'v mut (dyn FnMut(Vec<Draft>) -> Result<()> + Send);

/// Settles the drafts that `drafts` hands over, in order, and writes the folder.
fn write_settled(folder: &Path, plan: &Plan<'_>, drafts: impl FnOnce(Visit<'_>) -> Result<()>) -> Result<Counts> {
    atomic::refuse_other_folder(folder, &OUTPUTS)?;
    let mut closed = None;
    atomic::write_folder(folder, |folder| {
        let (mut tallying, mut sink) = (Tallying::default(), Sink::create(folder, plan.tables)?);
        let mut settler = Settler::new(plan.rules, plan.keeps_out);
        drafts(&mut |drafts| {
            let built = settler.settle(drafts)?;
            tallying.add(&built);
            sink.add(&built)
        })?;
        let figures = tallying.counts();
        if figures.usable == 0 {
            return Err(Fault::new(format!("no trace of {} gives a training row\n{}", figures.traces, figures.text()))
                .at(&plan.place)
                .hint("the contracts must be of these traces and hold required values (`topalign contract`)")
                .into());
        }
        closed = Some(sink.finish(figures, plan.origin)?);
        Ok(())
    })?;
    closed.ok_or(Error::Interrupted)
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

    /// Completes the files; returns the counts with what only the whole set shows.
    fn finish(mut self, mut counts: Counts, origin: Origin<'_>) -> Result<Counts> {
        let records = counts.close(origin.severities);
        append(&mut self.audits, &records)?;
        if let Some(failed) = records.iter().find(|record| record.verdict == Verdict::Fail) {
            let reason = failed.reason.clone().unwrap_or_default();
            return Err(Error::Gate(format!("the check `{}` of the whole set fails: {reason}", failed.check.name())));
        }
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
        atomic::write(&folder.join("README.md"), card(&counts, origin).as_bytes())?;
        let mut outputs = BTreeMap::new();
        for name in names {
            outputs.insert(name, digest::of_file(&folder.join(name))?);
        }
        let manifest = Manifest {
            version: env!("CARGO_PKG_VERSION"),
            writer: origin.writer,
            seed: origin.seed,
            severities: origin.severities,
            inputs: origin.inputs,
            outputs,
            counts: &counts,
            notes: NOTES,
        };
        let text = serde_json::to_string_pretty(&manifest).map_err(|error| Error::Failed(error.to_string()))?;
        atomic::write(&folder.join("manifest.json"), format!("{text}\n").as_bytes())?;
        Ok(counts)
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
