//! `topalign evaluate`: judge completions against contracts.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Console;
use super::build::read_split;
use super::endpoint::Tuning;
use super::verifier::Verifier;
use crate::completion::Completion;
use crate::contract::Contract;
use crate::endpoint::Client;
use crate::error::{Fault, Result};
use crate::evaluate::{self, Beside, Evaluation, Settings, Verdict};
use crate::pipeline::{Asked, Asking, Judged};
use crate::report::text_table;
use crate::run::seed::Seed;
use crate::run::shard::{Shard, ShardFile, Shards, Task};
use crate::run::{digest, jsonl};
use crate::trace::{self, Format, Trace};
use crate::verify::SemanticUse;

/// The command's name in shards.
pub(super) const NAME: &str = "evaluate";

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
    /// Folder for `verdicts.jsonl` and `summary.json`, and `calls.json` where models are asked.
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
    #[command(flatten)]
    verifier: Verifier,
    /// Let the semantic verifier's matches decide the headline figures.
    #[arg(long)]
    verifier_in_headline: bool,
    #[command(flatten)]
    judge: Judge,
    #[command(flatten)]
    tuning: Tuning,
    /// Judge only part I of N of the completions, from 1, into a shard file; `merge-shards` joins all of them.
    #[arg(long, value_name = "I/N", conflicts_with_all = ["verifier_url", "verifier_local", "judge_url"])]
    shard: Option<Shard>,
}

/// What verdicts and figures depend on, beside what is read.
#[derive(Debug, Serialize, Deserialize)]
struct Shared {
    resamples: usize,
    seed: u64,
}

/// A model that judges each answer by two questions, beside the deterministic judge. Goals, conclusions and answers are sent.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Endpoint judge")]
#[expect(
    clippy::struct_field_names,
    reason = "flags are named after fields, and flattened structs share one name space"
)]
struct Judge {
    /// OpenAI-compatible endpoint, with or without its `/v1`.
    #[arg(long, value_name = "URL", requires = "judge_model")]
    judge_url: Option<String>,
    /// The model's name there.
    #[arg(long, value_name = "NAME", requires = "judge_url")]
    judge_model: Option<String>,
    /// Environment variable that holds the key.
    #[arg(long, value_name = "VARIABLE", requires = "judge_url")]
    judge_key_env: Option<String>,
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
    if let Some(shard) = arguments.shard {
        return run_shard(arguments, (&completions, &traces, &contracts), shard, console);
    }
    let verifier = arguments.verifier.open(&arguments.tuning, Seed(arguments.seed))?;
    if arguments.verifier_in_headline && verifier.is_none() {
        let fault = Fault::new("`--verifier-in-headline` needs a verifier");
        return Err(fault.hint("give --verifier-url or --verifier-local").into());
    }
    let semantic_use = if arguments.verifier_in_headline { SemanticUse::Headline } else { SemanticUse::Beside };
    let judge = arguments.judge.open(arguments)?;
    let parts = arguments.split.as_deref().map(read_split).transpose()?.unwrap_or_default();
    let asking = Asking {
        parts: Some(&parts),
        verifier: verifier.as_ref().map(|model| (model.asked(), semantic_use)),
        judge: judge.as_ref().map(Asked::from),
    };
    let bar = indicatif::ProgressBar::new(0);
    let judged = asking.evaluate((&completions, &traces, &contracts), &settings, |done, total| {
        bar.set_length(total as u64);
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    let judged = judged?;
    judged.write(&arguments.out)?;
    console.print(&judged.evaluation.summary, &text(&judged))
}

fn run_shard(
    arguments: &Arguments,
    (completions, traces, contracts): (&[Completion], &[Trace], &[Contract]),
    shard: Shard,
    console: Console,
) -> Result<()> {
    let parts = arguments.split.as_deref().map(read_split).transpose()?.unwrap_or_default();
    let mut inputs = BTreeMap::new();
    let named = [
        ("traces", Some(&arguments.traces)),
        ("contracts", Some(&arguments.contracts)),
        ("split", arguments.split.as_ref()),
    ];
    for (role, path) in named {
        if let Some(path) = path {
            inputs.insert(role.to_owned(), digest::of_file(path)?);
        }
    }
    for (number, path) in arguments.completions.iter().enumerate() {
        inputs.insert(format!("completions {}", number + 1), digest::of_file(path)?);
    }
    let shared = Shared { resamples: arguments.resamples, seed: arguments.seed };
    let beside = Beside { parts, ..Beside::default() };
    let verdicts = evaluate::verdicts(completions, traces, contracts, Seed(arguments.seed), &beside, shard)?;
    let mut file = ShardFile::create(&arguments.out, shard, Task::new(NAME, &shared, inputs)?)?;
    file.items(&verdicts)?;
    let dealt = file.commit(&())?;
    console.print(&dealt, &dealt.text())
}

/// Joins shards: the figures are worked out anew, over all verdicts.
///
/// # Errors
/// An unwritable folder.
pub(super) fn merge(shards: Shards, out: &Path, console: Console) -> Result<()> {
    let Shared { resamples, seed } = shards.task().settings()?;
    let mut verdicts: Vec<Verdict> = Vec::new();
    shards.each(|items: Vec<Verdict>| {
        verdicts.extend(items);
        Ok(())
    })?;
    let summary = evaluate::summarise(&verdicts, Settings { resamples, seed: Seed(seed) });
    let judged = Judged { evaluation: Evaluation { verdicts, summary }, calls: BTreeMap::new() };
    judged.write(out)?;
    console.print(&judged.evaluation.summary, &text(&judged))
}

fn text(judged: &Judged) -> String {
    let mut text = text_table(&judged.evaluation.summary);
    for (role, counts) in &judged.calls {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{role}: {counts}");
    }
    text
}

impl Judge {
    fn open(&self, arguments: &Arguments) -> Result<Option<Client>> {
        let Some((url, model)) = self.judge_url.as_deref().zip(self.judge_model.as_deref()) else { return Ok(None) };
        arguments.tuning.client(url, model, self.judge_key_env.as_deref(), Seed(arguments.seed)).map(Some)
    }
}
