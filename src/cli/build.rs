//! `topalign build`: audited SFT rows and preference pairs.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Console;
use super::severity::read_severities;
use super::writer::WriterOptions;
use crate::audit::{self, Severities};
use crate::build::{self, Inputs, Made, Merged, Mined, Options, Response, SelectionPairs, Sources, Writer};
use crate::contract::Contract;
use crate::error::{Error, Fault, Result};
use crate::pipeline::WritingModel;
use crate::recipe::settings::{Answers, Share, Tables};
use crate::run::seed::Seed;
use crate::run::shard::{Shard, ShardFile, Shards, Task};
use crate::run::{digest, jsonl};
use crate::split::Split;
use crate::trace::{self, Format, Part};

/// The command's name in shards.
pub(super) const NAME: &str = "build";

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
    #[command(flatten)]
    writer: WriterOptions,
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
    /// What weighs how much, e.g. `grounding=warn`; may be given again.
    #[arg(long, value_name = "CHECK=off|warn|fail")]
    severity: Vec<String>,
    /// Also write `sft.parquet` and `dpo.parquet`.
    #[arg(long)]
    parquet: bool,
    /// Seed of all choices.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Format of the traces.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Files of rows, of any form, whose prompts no row may have, exactly or nearly.
    #[arg(long)]
    exclude: Vec<PathBuf>,
    /// Build only part I of N of the traces, from 1, into a shard file; `merge-shards` joins all of them.
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,
}

/// What rows depend on, beside what is read.
#[derive(Debug, Serialize, Deserialize)]
struct Settings {
    writer: String,
    seed: u64,
    format: String,
    quota: Option<usize>,
    selection_pairs: bool,
    tries: NonZeroUsize,
    severities: Severities,
    parquet: bool,
    /// Prompts are compared with some that no row may have.
    keeps_out: bool,
    /// The kind of device that a writer of this machine computes on.
    device: String,
}

/// Runs the command.
///
/// # Errors
/// Unreadable or invalid input, a writer that is not available or stops answering, no usable trace, an unwritable folder.
pub fn run(arguments: &Arguments, console: Console) -> Result<()> {
    let parts = match &arguments.split {
        Some(path) => read_split(path)?,
        None => BTreeMap::new(),
    };
    let seed = Seed(arguments.seed);
    let severities = read_severities(&arguments.severity)?;
    let settings = arguments.writer.settings(&arguments.out)?;
    let compute = arguments.writer.compute()?;
    if arguments.answers == Answers::Unguarded {
        if arguments.shard.is_some() || !arguments.exclude.is_empty() {
            let fault = Fault::new("unguarded answers are built in one piece, and held against nothing");
            return Err(fault.at("--answers unguarded").hint("leave out --shard and --exclude").into());
        }
        return run_unguarded(arguments, console, &parts);
    }
    let responses: Vec<Response> = match &arguments.responses {
        Some(path) => jsonl::read(path)?,
        None => Vec::new(),
    };
    let options = Options {
        quota: arguments.quota,
        selection_pairs: if arguments.selection_pairs { SelectionPairs::Written } else { SelectionPairs::None },
        mined: Mined::new(&responses),
        tries: arguments.writer.tries,
        severities,
        excluded: audit::file::prompts_of(&arguments.exclude)?,
    };
    let opened = settings.map(|settings| WritingModel::open(&settings, seed, &compute)).transpose()?;
    let writer = opened.as_ref().map_or(Writer::Template, WritingModel::writer);
    let sources =
        Sources { traces: &arguments.traces, format: arguments.format, contracts: &arguments.contracts, only: None };
    let inputs = inputs(arguments)?;
    let tables = if arguments.parquet { Tables::JsonAndParquet } else { Tables::Json };
    let made = Made { inputs: &inputs, writer: &writer, seed, options: &options, tables };
    if let Some(shard) = arguments.shard {
        let settings = arguments.shard_settings(&made, &parts);
        let file = ShardFile::create(&arguments.out, shard, Task::new(NAME, &settings, inputs.0.clone())?)?;
        let dealt = build::write_shard(file, sources, &parts, made, shard)?;
        return console.print(&dealt, &dealt.text());
    }
    let counts = build::write_each(&arguments.out, sources, &parts, made)?;
    let asked = opened.as_ref().map_or_else(String::new, |model| {
        let counts = model.counts();
        format!(
            "\n  asked         {} answers, {} from the cache, {} failed{}",
            counts.requests,
            counts.cache_hits,
            counts.failures,
            if counts.failures > 0 { ": the same command asks these again" } else { "" }
        )
    });
    console.print(&counts, &format!("{}{asked}\n-> {}", counts.text(), arguments.out.display()))
}

/// Joins shards: what only the whole set decides is settled here.
///
/// # Errors
/// No usable trace, a check of the whole set that fails, an unwritable folder.
pub(super) fn merge(shards: Shards, out: &Path, console: Console) -> Result<()> {
    let settings: Settings = shards.task().settings()?;
    let inputs = Inputs(shards.task().inputs.clone());
    let merged = Merged {
        inputs: &inputs,
        writer: &settings.writer,
        seed: Seed(settings.seed),
        quota: settings.quota,
        severities: &settings.severities,
        keeps_out: settings.keeps_out,
        tables: if settings.parquet { Tables::JsonAndParquet } else { Tables::Json },
    };
    let counts = build::merge(out, shards, &merged)?;
    console.print(&counts, &format!("{}\n-> {}", counts.text(), out.display()))
}

impl Arguments {
    fn shard_settings(&self, made: &Made<'_>, parts: &BTreeMap<String, Part>) -> Settings {
        Settings {
            writer: made.writer.name().to_owned(),
            seed: self.seed,
            format: self.format.name().to_owned(),
            quota: self.quota,
            selection_pairs: self.selection_pairs,
            tries: self.writer.tries,
            severities: made.options.severities.clone(),
            parquet: self.parquet,
            keeps_out: made.options.keeps_out(parts),
            device: self.writer.device_kind().to_owned(),
        }
    }
}

fn run_unguarded(arguments: &Arguments, console: Console, parts: &BTreeMap<String, Part>) -> Result<()> {
    let traces = trace::read(&arguments.traces, arguments.format)?;
    let contracts: Vec<Contract> = jsonl::read(&arguments.contracts)?;
    let leaking = Share::try_from(arguments.leaking).map_err(|rule| Fault::new(rule).at("--leaking"))?;
    let seed = Seed(arguments.seed);
    let built = build::build_unguarded(&traces, &contracts, parts, leaking, seed)?;
    if built.sft.is_empty() {
        return Err(Fault::new(format!("no trace of {} gives a row", traces.len()))
            .at(arguments.traces.display())
            .hint(built.counts.text())
            .into());
    }
    build::write_unguarded(&arguments.out, &built, &inputs(arguments)?, leaking, seed)?;
    console.print(&built.counts, &format!("{}\n-> {}", built.counts.text(), arguments.out.display()))
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
    for (number, file) in arguments.exclude.iter().enumerate() {
        inputs.insert(format!("excluded {}", number + 1), digest::of_file(file)?);
    }
    Ok(Inputs(inputs))
}
