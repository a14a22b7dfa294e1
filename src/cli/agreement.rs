//! `topalign agreement`: how far annotators agree, and a judge with them.

use std::path::PathBuf;

use super::Console;
use crate::error::{Error, Result};
use crate::exposure::{LabelRow, agreement, disagreements, text_agreement};
use crate::run::seed::Seed;
use crate::run::{atomic, jsonl};
use crate::statistic::Resampling;

/// Arguments.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Rows of `pair_id`, `slice`, `annotator_a`, `annotator_b`, `gold`, `prediction`.
    labels: PathBuf,
    /// Folder for `summary.json` and `disagreements.jsonl`.
    #[arg(long)]
    out: PathBuf,
    /// The label that is a positive of strict F1; every other one is a negative.
    #[arg(long, default_value = "full")]
    positive: String,
    /// Seed of resampling.
    #[arg(long, default_value_t = 2027)]
    seed: u64,
    /// Resamples behind each interval.
    #[arg(long, default_value_t = 10_000)]
    resamples: usize,
}

/// Runs the command.
///
/// # Errors
/// Unreadable labels, a pair that occurs twice, an unwritable folder.
pub fn run(arguments: &Arguments, console: Console) -> Result<()> {
    let rows: Vec<LabelRow> = jsonl::read(&arguments.labels)?;
    let resampling = Resampling { resamples: arguments.resamples, seed: Seed(arguments.seed) };
    let found = agreement(&rows, &arguments.positive, resampling)?;
    jsonl::write(&arguments.out.join("disagreements.jsonl"), disagreements(&rows))?;
    let json = serde_json::to_vec_pretty(&found).map_err(|error| Error::Failed(error.to_string()))?;
    atomic::write(&arguments.out.join("summary.json"), &json)?;
    console.print(&found, &text_agreement(&found))
}
