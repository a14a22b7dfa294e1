//! `topalign evaluate`: judge completions against contracts.

use std::path::PathBuf;

use super::Console;
use super::build::read_split;
use crate::completion::Completion;
use crate::contract::Contract;
use crate::error::{Error, Result};
use crate::evaluate::{Settings, evaluate_parts};
use crate::report::text_table;
use crate::run::seed::Seed;
use crate::run::{atomic, jsonl};
use crate::trace::{self, Format};

/// Arguments.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Completions of one or more systems; may be given many times.
    #[arg(long, required = true, num_args = 1..)]
    completions: Vec<PathBuf>,
    /// The traces that they answer, in any supported format.
    #[arg(long)]
    traces: PathBuf,
    /// Contracts of those traces.
    #[arg(long)]
    contracts: PathBuf,
    /// Folder for `verdicts.jsonl` and `summary.json`.
    #[arg(long)]
    out: PathBuf,
    /// `split.json`: donors of the negative control then stay within a part.
    #[arg(long)]
    split: Option<PathBuf>,
    /// Seed of resampling and of the negative control.
    #[arg(long, default_value_t = 2027)]
    seed: u64,
    /// Resamples behind each interval.
    #[arg(long, default_value_t = 10_000)]
    resamples: usize,
}

/// Runs the command.
///
/// # Errors
/// Unreadable inputs, rows that do not fit together, an unwritable folder.
pub fn run(arguments: &Arguments, console: Console) -> Result<()> {
    let mut completions: Vec<Completion> = Vec::new();
    for path in &arguments.completions {
        completions.extend(jsonl::read::<Completion>(path)?);
    }
    let traces = trace::read(&arguments.traces, Format::default())?;
    let contracts: Vec<Contract> = jsonl::read(&arguments.contracts)?;
    let settings = Settings { resamples: arguments.resamples, seed: Seed(arguments.seed) };
    let parts = arguments.split.as_deref().map(read_split).transpose()?.unwrap_or_default();
    let evaluation = evaluate_parts(&completions, &traces, &contracts, &parts, &settings)?;
    jsonl::write(&arguments.out.join("verdicts.jsonl"), &evaluation.verdicts)?;
    let json = serde_json::to_vec_pretty(&evaluation.summary).map_err(|error| Error::Failed(error.to_string()))?;
    atomic::write(&arguments.out.join("summary.json"), &json)?;
    console.print(&evaluation.summary, &text_table(&evaluation.summary))
}
