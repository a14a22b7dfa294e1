//! `topalign compare`: evaluations made apart, paired by trace.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::Console;
use crate::error::{Error, Result};
use crate::evaluate::{Comparison, Settings, Verdict, compare};
use crate::report::text_table;
use crate::run::seed::Seed;
use crate::run::{atomic, jsonl};

/// Traces without a partner that the terminal names; `summary.json` has all of them.
const SHOWN_MISSING: usize = 5;

/// Arguments.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Folders that `topalign evaluate` wrote.
    #[arg(required = true, num_args = 1..)]
    evaluations: Vec<PathBuf>,
    /// Folder for `summary.json`.
    #[arg(long)]
    out: PathBuf,
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
/// Unreadable verdicts, fewer than two systems, an unwritable folder.
pub fn run(arguments: &Arguments, console: Console) -> Result<()> {
    let mut evaluations = Vec::new();
    for (label, folder) in labels(&arguments.evaluations).into_iter().zip(&arguments.evaluations) {
        evaluations.push((label, jsonl::read::<Verdict>(&folder.join("verdicts.jsonl"))?));
    }
    let settings = Settings { resamples: arguments.resamples, seed: Seed(arguments.seed) };
    let comparison = compare(&evaluations, settings)?;
    let json = serde_json::to_vec_pretty(&comparison).map_err(|error| Error::Failed(error.to_string()))?;
    atomic::write(&arguments.out.join("summary.json"), &json)?;
    console.print(&comparison, &text(&comparison))
}

/// The folders' own names, or their paths where two share one (`a/evaluation`, `b/evaluation`).
fn labels(folders: &[PathBuf]) -> Vec<String> {
    let name = |folder: &Path| folder.file_name().map(|name| name.to_string_lossy().into_owned());
    folders
        .iter()
        .map(|folder| match name(folder) {
            Some(own) if folders.iter().filter(|other| name(other).as_ref() == Some(&own)).count() == 1 => own,
            _ => folder.display().to_string(),
        })
        .collect()
}

fn text(comparison: &Comparison) -> String {
    let mut text = text_table(&comparison.summary);
    for missing in &comparison.missing {
        for (has, lacks, traces) in
            [(&missing.a, &missing.b, &missing.only_a), (&missing.b, &missing.a, &missing.only_b)]
        {
            if traces.is_empty() {
                continue;
            }
            let shown = traces.iter().take(SHOWN_MISSING).cloned().collect::<Vec<_>>().join(", ");
            let more = if traces.len() > SHOWN_MISSING { ", ..." } else { "" };
            // Writing to a string cannot fail.
            let _ = writeln!(text, "unpaired: {} answered by {has}, not by {lacks}: {shown}{more}", traces.len());
        }
    }
    text
}
