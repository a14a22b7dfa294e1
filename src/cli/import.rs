//! `topalign import`: any supported source to canonical traces, observations with contracts, or responses.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::Console;
use crate::contract::{self, Contract};
use crate::error::{Error, Fault, Result};
use crate::observation::{self, response};
use crate::run::atomic::Pending;
use crate::run::json::describe;
use crate::trace::{self, Difficulty, Family, Flag, Format, Ids, Rows, Trace, Variant};

/// Arguments.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Files, or folders of them.
    #[arg(required = true)]
    input: Vec<PathBuf>,
    /// Where the canonical traces go, or the responses; for session logs, the folder for `observations.jsonl` and
    /// `contracts.jsonl`.
    #[arg(long)]
    out: PathBuf,
    /// Format of the inputs; told by their content if absent.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Variant of all inputs; told by content and file name if absent.
    #[arg(long, value_enum)]
    variant: Option<Variant>,
    /// A contract written by hand (one JSON object), for session logs that do not say what is private.
    #[arg(long)]
    contract: Option<PathBuf>,
    /// The contract that observations name if none is given.
    #[arg(long, default_value = "by-hand", conflicts_with = "contract")]
    contract_id: String,
    /// Which tools of a session log are exits (TOML: a table a tool with `channel` and `recipients`).
    #[arg(long)]
    exits: Option<PathBuf>,
    /// The model, where the source does not name it.
    #[arg(long)]
    model: Option<String>,
}

#[derive(Serialize)]
struct Summary {
    traces: usize,
    by_format: BTreeMap<String, usize>,
    by_variant: BTreeMap<Variant, usize>,
    by_domain: BTreeMap<&'static str, usize>,
    by_difficulty: BTreeMap<&'static str, usize>,
    flags: BTreeMap<Flag, usize>,
    cut_files: usize,
    out: PathBuf,
}

#[derive(Default, Serialize)]
struct ResponseSummary {
    responses: usize,
    by_stage: BTreeMap<u8, usize>,
    by_model: BTreeMap<String, usize>,
    errors: usize,
    out: PathBuf,
}

/// Runs the command.
///
/// # Errors
/// Unreadable or invalid inputs, an unwritable output.
pub fn run(arguments: &Arguments, console: Console) -> Result<()> {
    let mut files = Vec::new();
    for input in &arguments.input {
        files.extend(trace::files(input)?);
    }
    let format = match (arguments.format, files.first()) {
        (Format::Auto, Some(first)) => Format::of_file(first)?,
        (format, _) => format,
    };
    match format.family() {
        Some(Family::Sessions) => {
            let contract = arguments.contract.as_deref().map(read_contract).transpose()?;
            let options = observation::Options {
                contract,
                contract_id: arguments.contract_id.clone(),
                model: arguments.model.clone(),
                exits: arguments.exits.as_deref().map(observation::Exits::load).transpose()?.unwrap_or_default(),
            };
            let imported = observation::import(&files, arguments.format, &options, &arguments.out)?;
            console.print(&imported, &format!("{} -> {}\n", imported.text(), arguments.out.display()))
        }
        Some(Family::Responses) => {
            let summary = responses(&files, arguments)?;
            console.print(&summary, &summary.text())
        }
        Some(Family::Traces) | None => {
            let summary = traces(&files, arguments)?;
            console.print(&summary, &summary.text())
        }
    }
}

/// Trace by trace from reader to writer: memory does not grow with the input, but for 16 bytes an id.
fn traces(files: &[PathBuf], arguments: &Arguments) -> Result<Summary> {
    let mut output = Pending::create(&arguments.out)?;
    let mut summary = Summary::new(arguments.out.clone());
    let mut ids = Ids::default();
    for file in files {
        let extent = trace::each(file, arguments.format, arguments.variant, &mut |mut trace| {
            ids.add(&trace.trace_id, &trace.source)?;
            for flag in contract::derive(&trace).flags {
                trace.flag(flag);
            }
            summary.add(&trace);
            output.row(&trace)
        })?;
        summary.cut_files += usize::from(extent.cut.is_some());
    }
    output.commit()?;
    Ok(summary)
}

fn responses(files: &[PathBuf], arguments: &Arguments) -> Result<ResponseSummary> {
    let mut output = Pending::create(&arguments.out)?;
    let mut summary = ResponseSummary { out: arguments.out.clone(), ..ResponseSummary::default() };
    for file in files {
        let stem = file.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
        let run = response::Run {
            model: arguments.model.as_deref().unwrap_or(&stem),
            variant: arguments.variant.unwrap_or_default(),
        };
        let mut rows = Rows::open(file)?;
        while let Some(row) = rows.next_row()? {
            let place = format!("{}:{} (row {})", file.display(), row.line, row.index);
            for response in response::parse(&row, &run).map_err(|fault| fault.at(place))? {
                summary.responses += 1;
                *summary.by_stage.entry(response.stage).or_default() += 1;
                *summary.by_model.entry(response.model.clone()).or_default() += 1;
                summary.errors += usize::from(response.error.is_some());
                output.row(&response)?;
            }
        }
    }
    output.commit()?;
    Ok(summary)
}

fn read_contract(path: &Path) -> Result<Contract> {
    let bytes = std::fs::read(path).map_err(|source| Error::read(path, source))?;
    serde_json::from_slice(&bytes).map_err(|error| {
        Fault::new(format!("not a contract: {}", describe(&error)))
            .at(path.display())
            .expected("one JSON object with `contract_id`, `channels` and `targets`")
            .into()
    })
}

impl Summary {
    fn new(out: PathBuf) -> Self {
        Self {
            traces: 0,
            by_format: BTreeMap::new(),
            by_variant: BTreeMap::new(),
            by_domain: BTreeMap::new(),
            by_difficulty: BTreeMap::new(),
            flags: BTreeMap::new(),
            cut_files: 0,
            out,
        }
    }

    fn add(&mut self, trace: &Trace) {
        self.traces += 1;
        *self.by_format.entry(trace.source.format.clone()).or_default() += 1;
        *self.by_variant.entry(trace.variant).or_default() += 1;
        *self.by_domain.entry(trace.domain.code()).or_default() += 1;
        *self.by_difficulty.entry(trace.difficulty.map_or("unknown", Difficulty::code)).or_default() += 1;
        for flag in &trace.flags {
            *self.flags.entry(*flag).or_default() += 1;
        }
    }

    fn text(&self) -> String {
        let mut text = format!("{} traces -> {}\n", self.traces, self.out.display());
        let formats = self.by_format.iter().map(|(format, count)| (format.as_str(), *count)).collect();
        let variants = self.by_variant.iter().map(|(variant, count)| (variant.name(), *count)).collect();
        let flags = self.flags.iter().map(|(flag, count)| (flag.name(), *count)).collect();
        for (name, counts) in [
            ("format", &formats),
            ("variant", &variants),
            ("domain", &self.by_domain),
            ("difficulty", &self.by_difficulty),
            ("flags", &flags),
        ] {
            let counts: Vec<String> = counts.iter().map(|(key, count)| format!("{key} {count}")).collect();
            if !counts.is_empty() {
                let _ = writeln!(text, "  {name:<11}{}", counts.join(", "));
            }
        }
        if self.cut_files > 0 {
            let _ = writeln!(text, "  files whose last row was cut: {}", self.cut_files);
        }
        text
    }
}

impl ResponseSummary {
    fn text(&self) -> String {
        let mut text =
            format!("{} responses, {} with an error -> {}\n", self.responses, self.errors, self.out.display());
        for (stage, count) in &self.by_stage {
            let _ = writeln!(text, "  stage {stage}: {count}");
        }
        for (model, count) in &self.by_model {
            let _ = writeln!(text, "  model {model}: {count}");
        }
        text
    }
}
