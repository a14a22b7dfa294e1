//! `topalign build`: audited SFT rows and preference pairs.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::Console;
use crate::build::{self, Counts, Inputs, Mined, Options, Response, SelectionPairs, Writer};
use crate::contract::Contract;
use crate::error::{Error, Fault, Result};
use crate::recipe::settings::{Answers, Share};
use crate::run::seed::Seed;
use crate::run::{digest, jsonl};
use crate::split::Split;
use crate::trace::{self, Format, Part, Trace};

/// Arguments.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// A trace file of any supported format.
    #[arg(long)]
    traces: PathBuf,
    /// The traces' contracts.
    #[arg(long)]
    contracts: PathBuf,
    /// Folder for the data set; replaced whole.
    #[arg(long)]
    out: PathBuf,
    /// `split.json`: held-out traces give no row. Without it every trace is a training trace.
    #[arg(long)]
    split: Option<PathBuf>,
    /// Who writes the answers.
    #[arg(long, value_enum, default_value_t = WriterName::Template)]
    writer: WriterName,
    /// Guarded rows align a model; unguarded ones leak on purpose, for a base model that shows the fault.
    #[arg(long, value_enum, default_value_t)]
    answers: Answers,
    /// Share of unguarded answers that state the conclusion.
    #[arg(long, default_value_t = Share::LEAKING.get())]
    leaking: f64,
    /// Answers of real runs (`trace_id`, `model`, `stage`, `content`, `error`): safe ones become targets, the others rejected answers.
    #[arg(long)]
    responses: Option<PathBuf>,
    /// Pairs of one kind, domain and difficulty at most.
    #[arg(long)]
    quota: Option<usize>,
    /// Also make pairs for stage 1, in `dpo-selection.jsonl`.
    #[arg(long)]
    selection_pairs: bool,
    /// Seed of all choices.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Format of the traces.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Writers by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum WriterName {
    /// Deterministic templates.
    Template,
    /// A local model.
    Local,
    /// A model behind an endpoint.
    Endpoint,
}

/// Runs the command.
///
/// # Errors
/// Unreadable or invalid input, a writer that is not available, no usable trace, an unwritable folder.
pub fn run(arguments: &Arguments, console: Console) -> Result<()> {
    let writer = writer(arguments.writer)?;
    let traces = trace::read(&arguments.traces, arguments.format)?;
    let contracts: Vec<Contract> = jsonl::read(&arguments.contracts)?;
    let parts = match &arguments.split {
        Some(path) => read_split(path)?,
        None => BTreeMap::new(),
    };
    let seed = Seed(arguments.seed);
    if arguments.answers == Answers::Unguarded {
        return run_unguarded(arguments, console, &traces, &contracts, &parts);
    }
    let responses: Vec<Response> = match &arguments.responses {
        Some(path) => jsonl::read(path)?,
        None => Vec::new(),
    };
    let options = Options {
        quota: arguments.quota,
        selection_pairs: if arguments.selection_pairs { SelectionPairs::Written } else { SelectionPairs::None },
        mined: Mined::new(&responses),
    };
    let built = build::build_with(&traces, &contracts, &parts, &writer, seed, &options)?;
    let counts = Counts::of(&built, &traces);
    if built.sft.is_empty() {
        return Err(Fault::new(format!("no trace of {} gives a training row\n{}", traces.len(), counts.text()))
            .at(arguments.traces.display())
            .hint("`--contracts` must hold contracts with required values for these traces (`topalign contract`)")
            .into());
    }
    let inputs = inputs(arguments)?;
    build::write(&arguments.out, &built, &counts, &inputs, writer, seed)?;
    console.print(&counts, &format!("{}\n-> {}", counts.text(), arguments.out.display()))
}

fn run_unguarded(
    arguments: &Arguments,
    console: Console,
    traces: &[Trace],
    contracts: &[Contract],
    parts: &BTreeMap<String, Part>,
) -> Result<()> {
    let leaking = Share::try_from(arguments.leaking).map_err(|rule| Fault::new(rule).at("--leaking"))?;
    let seed = Seed(arguments.seed);
    let built = build::build_unguarded(traces, contracts, parts, leaking, seed)?;
    if built.sft.is_empty() {
        return Err(Fault::new(format!("no trace of {} gives a row", traces.len()))
            .at(arguments.traces.display())
            .hint(built.counts.text())
            .into());
    }
    build::write_unguarded(&arguments.out, &built, &inputs(arguments)?, leaking, seed)?;
    console.print(&built.counts, &format!("{}\n-> {}", built.counts.text(), arguments.out.display()))
}

fn writer(name: WriterName) -> Result<Writer> {
    let name = match name {
        WriterName::Template => return Ok(Writer::Template),
        WriterName::Local => "local",
        WriterName::Endpoint => "endpoint",
    };
    Err(Fault::new("this writer is not available yet").at("--writer").got(name).expected("template").into())
}

/// Reads `split.json`.
pub(super) fn read_split(path: &std::path::Path) -> Result<BTreeMap<String, Part>> {
    let bytes = std::fs::read(path).map_err(|source| Error::read(path, source))?;
    let split: Split = serde_json::from_slice(&bytes).map_err(|error| {
        Fault::new(format!("not a split: {error}"))
            .at(path.display())
            .expected("`split.json` as `topalign split` writes it")
    })?;
    Ok(split.parts)
}

fn inputs(arguments: &Arguments) -> Result<Inputs> {
    let mut inputs = BTreeMap::new();
    inputs.insert("traces".to_owned(), digest::of_file(&arguments.traces)?);
    inputs.insert("contracts".to_owned(), digest::of_file(&arguments.contracts)?);
    if let Some(split) = &arguments.split {
        inputs.insert("split".to_owned(), digest::of_file(split)?);
    }
    if let Some(responses) = &arguments.responses {
        inputs.insert("responses".to_owned(), digest::of_file(responses)?);
    }
    Ok(Inputs(inputs))
}
