//! `topalign import`: any supported source to canonical traces, observations with contracts, or responses.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Console;
use crate::contract::{self, Contract};
use crate::error::{Error, Fault, Result};
use crate::observation::response::Response;
use crate::observation::{self, response};
use crate::run::atomic::Pending;
use crate::run::digest;
use crate::run::json::describe;
use crate::run::shard::{Dealer, Shard, ShardFile, Shards, Task};
use crate::trace::{self, Difficulty, Family, Flag, Format, Ids, Rows, Trace, Variant};

/// The command's name in shards.
pub(super) const NAME: &str = "import";

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
    /// Read only part I of N, from 1, into a shard file; `merge-shards` joins all of them.
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,
}

/// What is told of an import.
trait Told: Default + Serialize {
    fn text(&self, out: &Path) -> String;
}

/// The file, and what is told of it.
struct Output<S> {
    file: Pending,
    ids: Ids,
    summary: S,
}

impl<S: Told> Output<S> {
    fn create(out: &Path) -> Result<Self> {
        Ok(Self { file: Pending::create(out)?, ids: Ids::default(), summary: S::default() })
    }

    fn finish(self, console: Console) -> Result<()> {
        #[derive(Serialize)]
        struct WithOut<'a, S> {
            #[serde(flatten)]
            summary: &'a S,
            out: &'a Path,
        }
        let out = self.file.path().to_path_buf();
        self.file.commit()?;
        console.print(&WithOut { summary: &self.summary, out: &out }, &self.summary.text(&out))
    }
}

impl Output<Summary> {
    fn trace(&mut self, trace: &Trace) -> Result<()> {
        self.ids.add(&trace.trace_id, &trace.source)?;
        self.summary.add(trace);
        self.file.row(trace)
    }
}

impl Output<ResponseSummary> {
    fn responses(&mut self, row: &[Response]) -> Result<()> {
        for response in row {
            self.summary.add(response);
            self.file.row(response)?;
        }
        Ok(())
    }
}

#[derive(Default, Serialize)]
struct Summary {
    traces: usize,
    by_format: BTreeMap<String, usize>,
    by_variant: BTreeMap<Variant, usize>,
    by_domain: BTreeMap<&'static str, usize>,
    by_difficulty: BTreeMap<&'static str, usize>,
    flags: BTreeMap<Flag, usize>,
    cut_files: usize,
}

#[derive(Default, Serialize)]
struct ResponseSummary {
    responses: usize,
    by_stage: BTreeMap<u8, usize>,
    by_model: BTreeMap<String, usize>,
    errors: usize,
}

/// What an import depends on, beside its files.
#[derive(Debug, Serialize, Deserialize)]
struct Settings {
    family: Family,
    format: String,
    variant: Option<Variant>,
    /// The contract written by hand, frozen.
    contract: Option<Contract>,
    contract_id: String,
    model: Option<String>,
}

/// What every shard knows of the whole.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Facts {
    /// Files whose last row was cut.
    cut_files: usize,
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
    let family = format.family().unwrap_or(Family::Traces);
    if let Some(shard) = arguments.shard {
        return run_shard(&files, family, arguments, shard, console);
    }
    match family {
        Family::Sessions => {
            let imported = observation::import(&files, arguments.format, &arguments.options()?, &arguments.out)?;
            print_sessions(&imported, &arguments.out, console)
        }
        Family::Responses => {
            let mut output = Output::<ResponseSummary>::create(&arguments.out)?;
            each_response(&files, arguments, &mut Dealer::new(None), |row| output.responses(&row))?;
            output.finish(console)
        }
        Family::Traces => {
            let mut output = Output::<Summary>::create(&arguments.out)?;
            let cut_files = each_trace(&files, arguments, &mut Dealer::new(None), |trace| output.trace(&trace))?;
            output.summary.cut_files = cut_files;
            output.finish(console)
        }
    }
}

fn run_shard(files: &[PathBuf], family: Family, arguments: &Arguments, shard: Shard, console: Console) -> Result<()> {
    let options = arguments.options()?;
    let settings = Settings {
        family,
        format: arguments.format.name().to_owned(),
        variant: arguments.variant,
        contract: options.given()?,
        contract_id: arguments.contract_id.clone(),
        model: arguments.model.clone(),
    };
    let mut inputs = BTreeMap::new();
    for (number, file) in files.iter().enumerate() {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        inputs.insert(format!("file {} `{name}`", number + 1), digest::of_file(file)?);
    }
    if let Some(exits) = &arguments.exits {
        inputs.insert("exits".to_owned(), digest::of_file(exits)?);
    }
    let mut output = ShardFile::create(&arguments.out, shard, Task::new(NAME, &settings, inputs)?)?;
    let dealer = &mut Dealer::new(Some(shard));
    let cut_files = match family {
        Family::Sessions => {
            observation::read_each(files, arguments.format, &options, dealer, &mut |read| output.items(&[read]))?
        }
        Family::Responses => {
            each_response(files, arguments, dealer, |row| output.items(&[row]))?;
            0
        }
        Family::Traces => each_trace(files, arguments, dealer, |trace| output.items(&[trace]))?,
    };
    let dealt = output.commit(&Facts { cut_files })?;
    console.print(&dealt, &dealt.text())
}

/// Joins shards.
///
/// # Errors
/// A trace, session or contract that appears twice, an unwritable output.
pub(super) fn merge(shards: Shards, out: &Path, console: Console) -> Result<()> {
    let settings: Settings = shards.task().settings()?;
    let facts = |value: serde_json::Value| {
        Facts::deserialize(value).map_err(|error| Fault::new(format!("a shard's end cannot be read: {error}")))
    };
    match settings.family {
        Family::Sessions => {
            let mut sink = observation::Sink::create(out, settings.contract)?;
            let end =
                shards.each(|rows: Vec<observation::Read>| rows.into_iter().try_for_each(|row| sink.write(row)))?;
            print_sessions(&sink.commit(facts(end)?.cut_files)?, out, console)
        }
        Family::Responses => {
            let mut output = Output::<ResponseSummary>::create(out)?;
            shards.each(|rows: Vec<Vec<Response>>| rows.iter().try_for_each(|row| output.responses(row)))?;
            output.finish(console)
        }
        Family::Traces => {
            let mut output = Output::<Summary>::create(out)?;
            let end = shards.each(|traces: Vec<Trace>| traces.iter().try_for_each(|trace| output.trace(trace)))?;
            output.summary.cut_files = facts(end)?.cut_files;
            output.finish(console)
        }
    }
}

impl Arguments {
    fn options(&self) -> Result<observation::Options> {
        Ok(observation::Options {
            contract: self.contract.as_deref().map(read_contract).transpose()?,
            contract_id: self.contract_id.clone(),
            model: self.model.clone(),
            exits: self.exits.as_deref().map(observation::Exits::load).transpose()?.unwrap_or_default(),
        })
    }
}

/// Some traces at a time from reader to writer: memory does not grow with the input, but for 16 bytes an id. Returns the number of files
/// whose last row was cut.
fn each_trace(
    files: &[PathBuf],
    arguments: &Arguments,
    dealer: &mut Dealer,
    mut visit: impl FnMut(Trace) -> Result<()>,
) -> Result<usize> {
    let mut cut_files = 0;
    for file in files {
        let work = |mut trace: Trace| {
            for flag in contract::derive(&trace).flags {
                trace.flag(flag);
            }
            trace
        };
        let extent = trace::each_with(file, (arguments.format, arguments.variant), dealer, work, &mut visit)?;
        cut_files += usize::from(extent.cut.is_some());
    }
    Ok(cut_files)
}

/// The responses of each row.
fn each_response(
    files: &[PathBuf],
    arguments: &Arguments,
    dealer: &mut Dealer,
    mut visit: impl FnMut(Vec<Response>) -> Result<()>,
) -> Result<()> {
    for file in files {
        let stem = file.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
        let run = response::Run {
            model: arguments.model.as_deref().unwrap_or(&stem),
            variant: arguments.variant.unwrap_or_default(),
        };
        let mut rows = Rows::open(file)?;
        while let Some(row) = rows.next_row()? {
            if dealer.takes_next() {
                let place = format!("{}:{} (row {})", file.display(), row.line, row.index);
                visit(response::parse(&row, &run).map_err(|fault| fault.at(place))?)?;
            }
        }
    }
    Ok(())
}

fn print_sessions(imported: &observation::Imported, out: &Path, console: Console) -> Result<()> {
    console.print(imported, &format!("{} -> {}\n", imported.text(), out.display()))
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
}

impl Told for Summary {
    fn text(&self, out: &Path) -> String {
        let mut text = format!("{} traces -> {}\n", self.traces, out.display());
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
    fn add(&mut self, response: &Response) {
        self.responses += 1;
        *self.by_stage.entry(response.stage).or_default() += 1;
        *self.by_model.entry(response.model.clone()).or_default() += 1;
        self.errors += usize::from(response.error.is_some());
    }
}

impl Told for ResponseSummary {
    fn text(&self, out: &Path) -> String {
        let mut text = format!("{} responses, {} with an error -> {}\n", self.responses, self.errors, out.display());
        for (stage, count) in &self.by_stage {
            let _ = writeln!(text, "  stage {stage}: {count}");
        }
        for (model, count) in &self.by_model {
            let _ = writeln!(text, "  model {model}: {count}");
        }
        text
    }
}
