//! `topalign exposure`: the ASLEval analysis of session logs.

use std::path::PathBuf;

use super::Console;
use super::endpoint::Tuning;
use super::verifier::Verifier;
use crate::error::{Error, Result};
use crate::exposure::{
    Files, Semantic, Settings, analyse, compare_labels, events, text_labels, text_published, text_summary,
};
use crate::report::{Reference, render_exposure, sessions_to_show};
use crate::run::atomic;
use crate::run::seed::Seed;
use crate::statistic::Resampling;

/// Arguments.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Contracts, derived or written by hand (those get their digest here).
    #[arg(long, required = true, num_args = 1..)]
    contracts: Vec<PathBuf>,
    /// Observations of sessions.
    #[arg(long, required = true, num_args = 1..)]
    observations: Vec<PathBuf>,
    /// What probe agents reported.
    #[arg(long, num_args = 1..)]
    candidates: Vec<PathBuf>,
    /// Which actions were delivered.
    #[arg(long, num_args = 1..)]
    actions: Vec<PathBuf>,
    /// Folder for `summary.json`, `matches.jsonl`, `contracts.jsonl` and `exposure.html`.
    #[arg(long)]
    out: PathBuf,
    /// A key of `pair_key`: sessions that share its value are resampled together.
    #[arg(long, value_name = "KEY")]
    cluster: Option<String>,
    /// The visible channel of the final answer, where its name does not tell.
    #[arg(long, value_name = "CHANNEL")]
    answer_channel: Option<String>,
    /// A release's own labels (`labels.jsonl` of `topalign import`): how far they agree with the matches, and why not.
    #[arg(long)]
    labels: Option<PathBuf>,
    /// Set the paper's numbers beside the figures, marked as published.
    #[arg(long)]
    paper: bool,
    /// Seed of resampling.
    #[arg(long, default_value_t = 2027)]
    seed: u64,
    /// Resamples behind each interval.
    #[arg(long, default_value_t = 10_000)]
    resamples: usize,
    /// Fail (status 3) when the mean exposure over all sessions is above this share.
    #[arg(long, value_name = "SHARE")]
    fail_above: Option<f64>,
    #[command(flatten)]
    verifier: Verifier,
    #[command(flatten)]
    tuning: Tuning,
}

/// Runs the command.
///
/// # Errors
/// Unreadable inputs, rows that do not fit their contracts, an unwritable folder, exposure above the gate.
pub fn run(arguments: &Arguments, console: Console) -> Result<()> {
    let files = Files {
        contracts: arguments.contracts.clone(),
        observations: arguments.observations.clone(),
        candidates: arguments.candidates.clone(),
        actions: arguments.actions.clone(),
        out: arguments.out.clone(),
    };
    let settings = Settings {
        resampling: Resampling { resamples: arguments.resamples, seed: Seed(arguments.seed) },
        cluster: arguments.cluster.clone(),
        answer_channel: arguments.answer_channel.clone(),
    };
    let opened = arguments.verifier.open(&arguments.tuning, Seed(arguments.seed))?;
    let mut verifier = opened.as_ref().map(|opened| Semantic::new(opened.asked().chat, opened.asked().workers));
    let summary = analyse(&files, &settings, verifier.as_mut())?;
    let reference = if arguments.paper { Reference::Paper } else { Reference::Own };
    let shown = events(&files, &sessions_to_show(&summary), verifier.as_mut())?;
    let page = render_exposure(&summary, &shown, "Exposure analysis", reference);
    atomic::write(&files.out.join("exposure.html"), page.as_bytes())?;
    let mut text = text_summary(&summary);
    if arguments.paper {
        text.push_str(&text_published(&summary));
    }
    if let Some(labels) = &arguments.labels {
        text.push('\n');
        text.push_str(&text_labels(&compare_labels(&files, labels)?));
    }
    console.print(&summary, &text)?;
    match (arguments.fail_above, summary.aggregate.overall.ecr.mean) {
        (Some(limit), Some(exposure)) if exposure > limit => {
            Err(Error::Gate(format!("mean exposure {exposure:.4} is above {limit}")))
        }
        _ => Ok(()),
    }
}
