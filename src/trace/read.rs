//! The reader of every supported trace format.
//!
//! In: files or folders. Out: canonical [`Trace`]s in file and row order, with unique ids.

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::format::Format;
use super::rows::{Cut, Row, Rows};
use super::{Source, Trace, Variant, canonical, topbench_v1, topbench_v2, topbench_v3};
use crate::error::{Error, Fault, Result};
use crate::run::digest;
use crate::run::shard::Dealer;

/// Bad rows told at once.
const MOST_FAULTS: usize = 10;

/// Rows that are worked on together, on all threads: few enough to stay in the processor's cache.
const BATCH: usize = 256;
/// Bytes of text from which no more rows are added.
const BATCH_BYTES: usize = 4 << 20;

/// What was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Whole rows.
    pub rows: usize,
    /// Where the file was cut, if it was.
    pub cut: Option<Cut>,
}

/// Reads one file.
///
/// # Errors
/// [`Error::Read`], or a [`Fault`] for each of the first ten bad rows.
pub fn read(path: &Path, format: Format) -> Result<Vec<Trace>> {
    read_as(path, format, None)
}

/// Reads one file whose rows all belong to `variant`, where the caller knows it. Otherwise the variant of v2 rows is told
/// by content (`mitigation_logic`: social context) and, since the negative control looks like any other file, by the
/// word `negative` in the file's name.
///
/// # Errors
/// As [`read`].
pub fn read_as(path: &Path, format: Format, variant: Option<Variant>) -> Result<Vec<Trace>> {
    let mut traces = Vec::new();
    let mut ids = Ids::default();
    each(path, format, variant, &mut |trace| {
        ids.add(&trace.trace_id, &trace.source)?;
        traces.push(trace);
        Ok(())
    })?;
    Ok(traces)
}

/// Hands every trace of a file to `visit`, one at a time; ids are not compared (see [`Ids`]). A cut last row is warned about.
///
/// # Errors
/// [`Error::Read`], a [`Fault`] for each of the first ten bad rows, or what `visit` returns.
pub fn each(
    path: &Path,
    format: Format,
    variant: Option<Variant>,
    visit: &mut dyn FnMut(Trace) -> Result<()>,
) -> Result<Extent> {
    each_dealt(path, format, variant, &mut Dealer::new(None), visit)
}

/// [`each`] of one shard's traces; the rows of others are passed over unread.
///
/// # Errors
/// As [`each`].
pub fn each_dealt(
    path: &Path,
    format: Format,
    variant: Option<Variant>,
    dealer: &mut Dealer,
    visit: &mut dyn FnMut(Trace) -> Result<()>,
) -> Result<Extent> {
    each_with(path, (format, variant), dealer, |trace| trace, visit)
}

/// [`each_dealt`] with work on every trace before it is handed on, on all threads, right after it is read; `visit` gets what the
/// work gives, in the order of the traces.
///
/// # Errors
/// As [`each`].
pub fn each_with<R: Send>(
    path: &Path,
    (format, variant): (Format, Option<Variant>),
    dealer: &mut Dealer,
    work: impl Fn(Trace) -> R + Sync,
    visit: &mut dyn FnMut(R) -> Result<()>,
) -> Result<Extent> {
    let format = if format == Format::Auto { Format::of_file(path)? } else { format };
    let place = path.display().to_string();
    let file = path.file_name().map_or_else(|| place.clone(), |name| name.to_string_lossy().into_owned());
    each_row((Rows::open(path)?, dealer), &Context { place: &place, file: &file, variant }, format, work, visit)
}

/// [`each`] over bytes; `place` stands for the file.
///
/// # Errors
/// As [`each`].
pub fn each_in(
    bytes: &[u8],
    place: &str,
    format: Format,
    visit: &mut dyn FnMut(Trace) -> Result<()>,
) -> Result<Extent> {
    let format = if format == Format::Auto { Format::of_rows(&mut Rows::new(bytes, place)?)? } else { format };
    let (context, mut dealer) = (Context { place, file: place, variant: None }, Dealer::new(None));
    each_row((Rows::new(bytes, place)?, &mut dealer), &context, format, |trace| trace, visit)
}

fn each_row<R: Send>(
    (mut rows, dealer): (Rows<'_>, &mut Dealer),
    context: &Context<'_>,
    format: Format,
    work: impl Fn(Trace) -> R + Sync,
    visit: &mut dyn FnMut(R) -> Result<()>,
) -> Result<Extent> {
    let mut faults = Vec::new();
    let mut batch = Batch::default();
    loop {
        let end = batch.fill(&mut rows, dealer);
        let one = |at: usize| context.trace(&batch.row(at), format).map(&work);
        let worked: Vec<Result<R, Fault>> = (0..batch.rows.len()).into_par_iter().map(one).collect();
        for row in worked {
            match row {
                Ok(row) if faults.is_empty() => visit(row)?,
                Ok(_) => {}
                Err(fault) if faults.len() < MOST_FAULTS => faults.push(fault),
                Err(_) => return Err(Error::Invalid(faults)),
            }
        }
        if end? {
            break;
        }
    }
    if !faults.is_empty() {
        return Err(Error::Invalid(faults));
    }
    if rows.count() == 0 {
        return Err(Fault::new("no rows").at(context.place).expected("at least one trace").into());
    }
    Ok(Extent { rows: rows.count(), cut: rows.cut() })
}

/// Rows that are worked on together, all in one text.
#[derive(Default)]
struct Batch {
    text: String,
    /// Index, line and place in the text of each.
    rows: Vec<(usize, usize, Range<usize>)>,
}

impl Batch {
    /// Reads the next rows that `dealer` deals; whether they are the last. On an error those before it are there.
    fn fill(&mut self, rows: &mut Rows<'_>, dealer: &mut Dealer) -> Result<bool> {
        self.text.clear();
        self.rows.clear();
        while self.rows.len() < BATCH && self.text.len() < BATCH_BYTES {
            let Some(row) = rows.next_row()? else { return Ok(true) };
            if !dealer.takes_next() {
                continue;
            }
            let start = self.text.len();
            self.text.push_str(row.text);
            self.rows.push((row.index, row.line, start..self.text.len()));
        }
        Ok(false)
    }

    fn row(&self, at: usize) -> Row<'_> {
        let (index, line, place) = self.rows[at].clone();
        Row { index, line, text: &self.text[place] }
    }
}

/// Reads several files and, for a folder, the `.json`, `.jsonl` and `.eval` files in it by name.
///
/// # Errors
/// As [`read`], and a [`Fault`] for an id that appears twice.
pub fn read_many(paths: &[PathBuf], format: Format) -> Result<Vec<Trace>> {
    read_many_as(paths, format, None)
}

/// [`read_many`] with the variant declared, as in [`read_as`].
///
/// # Errors
/// As [`read_many`].
pub fn read_many_as(paths: &[PathBuf], format: Format, variant: Option<Variant>) -> Result<Vec<Trace>> {
    let mut traces = Vec::new();
    let mut ids = Ids::default();
    for path in paths {
        for file in files(path)? {
            each(&file, format, variant, &mut |trace| {
                ids.add(&trace.trace_id, &trace.source)?;
                traces.push(trace);
                Ok(())
            })?;
        }
    }
    Ok(traces)
}

/// The file itself or, for a folder, the `.json`, `.jsonl` and `.eval` files in it by name.
///
/// # Errors
/// [`Error::Read`], or a [`Fault`] for a folder without such files.
pub fn files(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_path_buf()]);
    }
    let entries = std::fs::read_dir(path).map_err(|source| Error::read(path, source))?;
    let mut files = Vec::new();
    for entry in entries {
        let file = entry.map_err(|source| Error::read(path, source))?.path();
        if file.extension().is_some_and(|extension| ["json", "jsonl", "eval"].iter().any(|known| extension == *known)) {
            files.push(file);
        }
    }
    files.sort();
    if files.is_empty() {
        return Err(Fault::new("no `.json`, `.jsonl` or `.eval` file in the folder").at(path.display()).into());
    }
    Ok(files)
}

/// What the readers of single rows need to know about the file.
pub(super) struct Context<'a> {
    place: &'a str,
    file: &'a str,
    /// The variant, where the caller declared it.
    pub variant: Option<Variant>,
}

impl Context<'_> {
    fn trace(&self, row: &Row<'_>, format: Format) -> Result<Trace, Fault> {
        let parse = match format {
            Format::TopBenchV1 => topbench_v1::parse,
            Format::TopBenchV2 => topbench_v2::parse,
            Format::TopBenchV3 => topbench_v3::parse,
            Format::Auto | Format::Canonical => canonical::parse,
            Format::TopBenchRun | Format::AgentLeak | Format::OpenAiChat | Format::Inspect | Format::AgentDojo => {
                return Err(Fault::new(format!("`{}` holds no traces", format.name()))
                    .at(self.at(row))
                    .hint("`topalign import` turns it into observations or responses"));
            }
        };
        parse(row, self).map_err(|fault| fault.at(self.at(row)))
    }

    /// File, row and line of a row, for errors.
    fn at(&self, row: &Row<'_>) -> String {
        format!("{}:{} (row {})", self.place, row.line, row.index)
    }

    /// The source of a row.
    pub fn source(&self, format: &str, row: &Row<'_>) -> Source {
        Source { format: format.to_owned(), file: self.file.to_owned(), row: row.index }
    }

    /// Whether the file's name says that it holds negative controls.
    pub fn is_named_negative(&self) -> bool {
        self.file.to_lowercase().contains("negative")
    }
}

/// The ids seen so far: 16 bytes of a digest each, so that a million cost little.
#[derive(Debug, Default)]
pub struct Ids {
    seen: HashMap<[u8; 16], (u32, u32)>,
    files: Vec<String>,
}

impl Ids {
    /// Adds the id of a trace with where it was read.
    ///
    /// # Errors
    /// A [`Fault`] if it was seen before.
    pub fn add(&mut self, trace_id: &str, source: &Source) -> Result<()> {
        if self.files.last() != Some(&source.file) {
            self.files.push(source.file.clone());
        }
        let at = (self.files.len() as u32 - 1, source.row as u32);
        let Some((file, row)) = self.seen.insert(digest::short(trace_id.as_bytes()), at) else { return Ok(()) };
        Err(Fault::new("`trace_id` appears twice")
            .at(format!("{} row {row} and {} row {}", self.files[file as usize], source.file, source.row))
            .got(trace_id)
            .hint("if one file holds negative controls, import it with --variant negative-control")
            .into())
    }
}
