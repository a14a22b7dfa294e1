//! The reader of every supported trace format.
//!
//! In: files or folders. Out: canonical [`Trace`]s in file and row order, with unique ids.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::value::RawValue;

use super::rows::{self, Row};
use super::{Source, Trace, Variant, canonical, topbench_v2, topbench_v3};
use crate::error::{Error, Fault, Result};

/// What a file holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Told by the keys of the first row.
    #[default]
    Auto,
    /// TOP-Bench v2: a JSON array with `metadata`, `user_goal`, `available_tools`.
    #[value(name = "topbench-v2")]
    TopBenchV2,
    /// TOP-Bench v3: rows with `scenario_input_id`; also this project's own scenarios.
    #[value(name = "topbench-v3")]
    TopBenchV3,
    /// `traces.jsonl` as this program writes it.
    Canonical,
    /// AgentLeak: one object a file with `llm_calls` and `channel_messages`; two sessions each.
    #[value(name = "agentleak")]
    AgentLeak,
}

impl Format {
    /// Whether it holds sessions, which become observations, and no traces.
    pub fn is_session_log(self) -> bool {
        match self {
            Self::Auto | Self::TopBenchV2 | Self::TopBenchV3 | Self::Canonical => false,
            Self::AgentLeak => true,
        }
    }
}

/// What a file holds, told by its content.
///
/// # Errors
/// [`Error::Read`], or a [`Fault`] that names the supported formats.
pub fn detect_file(path: &Path) -> Result<Format> {
    let bytes = std::fs::read(path).map_err(|source| Error::read(path, source))?;
    let place = path.display().to_string();
    let rows = rows::split(rows::text(&bytes, &place)?, &place)?;
    match rows.first() {
        Some(first) => detect(first, &place),
        None => Err(Fault::new("no rows").at(place).into()),
    }
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
    let bytes = std::fs::read(path).map_err(|source| Error::read(path, source))?;
    let place = path.display().to_string();
    let text = rows::text(&bytes, &place)?;
    let rows = rows::split(text, &place)?;
    let Some(first) = rows.first() else {
        return Err(Fault::new("no rows").at(place).expected("at least one trace").into());
    };
    let format = if format == Format::Auto { detect(first, &place)? } else { format };
    let file = path.file_name().map_or_else(|| place.clone(), |name| name.to_string_lossy().into_owned());
    let context = Context { place: &place, file: &file, variant };
    let mut traces = Vec::with_capacity(rows.len());
    let mut faults = Vec::new();
    for row in &rows {
        match context.trace(row, format) {
            Ok(trace) => traces.push(trace),
            Err(fault) if faults.len() < 10 => faults.push(fault),
            Err(_) => {}
        }
    }
    if faults.is_empty() { unique(traces, &place) } else { Err(Error::Invalid(faults)) }
}

/// Reads several files and, for a folder, the `.json` and `.jsonl` files in it by name.
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
    for path in paths {
        for file in files(path)? {
            traces.extend(read_as(&file, format, variant)?);
        }
    }
    unique(traces, "inputs")
}

/// The file itself or, for a folder, the `.json` and `.jsonl` files in it by name.
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
        if file.extension().is_some_and(|extension| extension == "json" || extension == "jsonl") {
            files.push(file);
        }
    }
    files.sort();
    if files.is_empty() {
        return Err(Fault::new("no `.json` or `.jsonl` file in the folder").at(path.display()).into());
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
            Format::TopBenchV2 => topbench_v2::parse,
            Format::TopBenchV3 => topbench_v3::parse,
            Format::Auto | Format::Canonical => canonical::parse,
            Format::AgentLeak => return Err(Fault::new("a session log holds no trace").at(self.at(row))),
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

fn detect(row: &Row<'_>, place: &str) -> Result<Format> {
    let keys: BTreeMap<String, &RawValue> = serde_json::from_str(row.text).unwrap_or_default();
    let has = |key: &str| keys.contains_key(key);
    if has("trace_id") && has("goal") {
        Ok(Format::Canonical)
    } else if has("user_goal") && has("metadata") {
        Ok(Format::TopBenchV2)
    } else if has("scenario_input_id") || has("benign_user_goal") {
        Ok(Format::TopBenchV3)
    } else if has("llm_calls") && has("channel_messages") {
        Ok(Format::AgentLeak)
    } else {
        let found = keys.keys().take(8).cloned().collect::<Vec<_>>().join(", ");
        Err(Fault::new("the keys of the first row are of no supported trace format")
            .at(place)
            .got(found)
            .expected(
                "`metadata` and `user_goal` (TOP-Bench v2), `scenario_input_id` (v3), or `trace_id` and `goal` (traces.jsonl)",
            )
            .hint("name the format with --format topbench-v2, topbench-v3 or canonical to see what the rows lack")
            .into())
    }
}

fn unique(traces: Vec<Trace>, place: &str) -> Result<Vec<Trace>> {
    let mut seen = BTreeMap::new();
    for trace in &traces {
        if let Some(other) = seen.insert(trace.trace_id.as_str(), &trace.source) {
            return Err(Fault::new("`trace_id` appears twice")
                .at(format!(
                    "{place}: {} row {} and {} row {}",
                    other.file, other.row, trace.source.file, trace.source.row
                ))
                .got(&trace.trace_id)
                .hint("if one file holds negative controls, import it with --variant negative-control")
                .into());
        }
    }
    Ok(traces)
}
