//! The command line: one short file per command, wiring only.

mod ablate;
mod agreement;
mod audit;
mod build;
mod check_device;
mod compare;
mod contract;
mod dpo;
mod endpoint;
mod evaluate;
mod export;
mod exposure;
mod generate;
mod import;
mod merge;
mod merge_shards;
mod plan;
mod report;
mod run_pipeline;
mod session;
mod severity;
mod sft;
mod split;
mod synthesize;
mod training;
mod validate;
mod verifier;
mod writer;

use clap::{Parser, Subcommand};

use crate::error::Result;
use crate::rank::{self, Place};
use crate::run::interrupt::Manner;

/// Audited SFT and DPO data from tool-use traces, training with Candle, and evaluation by one adjudicator.
#[derive(Debug, Parser)]
#[command(name = "topalign", version, propagate_version = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    console: Console,
}

/// Options of every command.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct Console {
    /// Print the result as JSON on stdout.
    #[arg(long, global = true)]
    pub json: bool,
    /// Say more on stderr; twice for debugging.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
}

impl Console {
    /// Prints a result: `value` as one JSON document under `--json`, else `text`.
    ///
    /// # Errors
    /// [`crate::error::Error::Failed`] if the value has no JSON form.
    pub fn print<T: serde::Serialize>(self, value: &T, text: &str) -> Result<()> {
        use std::io::Write as _;
        let mut out = std::io::stdout().lock();
        let written = if self.json {
            let json =
                serde_json::to_string_pretty(value).map_err(|error| crate::error::Error::Failed(error.to_string()))?;
            writeln!(out, "{json}")
        } else {
            writeln!(out, "{}", text.trim_end())
        };
        // A closed pipe (`| head`) is the reader's choice, not a failure of the work.
        let _ = written;
        Ok(())
    }
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The whole pipeline: traces, contracts, split, build, SFT, DPO, held-out evaluation, report.
    Run(run_pipeline::Arguments),
    /// One recipe with parts of it changed or left out, under several seeds; one table.
    Ablate(ablate::Arguments),
    /// Read any supported source into canonical traces.
    Import(import::Arguments),
    /// Derive, freeze and hash evaluation contracts.
    Contract(contract::Arguments),
    /// Make scenarios with exact ground truth.
    Synthesize(synthesize::Arguments),
    /// Deal traces to train and held-out by near-duplicate group.
    Split(split::Arguments),
    /// Build audited SFT rows and preference pairs.
    Build(build::Arguments),
    /// Audit any SFT or DPO file against contracts.
    Audit(audit::Arguments),
    /// Supervised fine-tuning.
    Sft(sft::Arguments),
    /// Direct preference optimisation.
    Dpo(dpo::Arguments),
    /// Answer traces with a model by the two-stage protocol.
    Generate(generate::Arguments),
    /// Judge completions against contracts; needs no model.
    Evaluate(evaluate::Arguments),
    /// Compare evaluations, paired by trace.
    Compare(compare::Arguments),
    /// Analyse session logs: what was exposed, where, and what local views of it miss.
    Exposure(exposure::Arguments),
    /// Play sessions of probe agents against target agents, and analyse them.
    Session(session::Arguments),
    /// How far annotators agree, and a judge with them.
    Agreement(agreement::Arguments),
    /// Merge an adapter into its model.
    Merge(merge::Arguments),
    /// Whether a device computes what the CPU computes.
    CheckDevice(check_device::Arguments),
    /// Join what the shards of one command wrote (`--shard I/N`): the same bytes as one run.
    MergeShards(merge_shards::Arguments),
    /// Data and settings for other trainers.
    Export(export::Arguments),
    /// Check a recipe and print what it means.
    Validate(validate::Arguments),
    /// Render the page of a finished run.
    Report(report::Arguments),
}

/// Runs the parsed command.
///
/// # Errors
/// Whatever the command returns; see [`crate::error::Error::exit_status`].
pub fn run(cli: &Cli) -> Result<()> {
    let console = cli.console;
    match &cli.command {
        Command::Run(arguments) => run_pipeline::run(arguments, console, rank::start()?),
        Command::Ablate(arguments) => ablate::run(arguments, console, rank::start()?),
        Command::Import(arguments) => import::run(arguments, console),
        Command::Contract(arguments) => contract::run(arguments, console),
        Command::Synthesize(arguments) => synthesize::run(arguments, console),
        Command::Split(arguments) => split::run(arguments, console),
        Command::Build(arguments) => build::run(arguments, console),
        Command::Audit(arguments) => audit::run(arguments, console),
        Command::Sft(arguments) => sft::run(arguments, console, rank::start()?),
        Command::Dpo(arguments) => dpo::run(arguments, console, rank::start()?),
        Command::Generate(arguments) => generate::run(arguments, console, rank::start()?),
        Command::Evaluate(arguments) => evaluate::run(arguments, console),
        Command::Compare(arguments) => compare::run(arguments, console),
        Command::Exposure(arguments) => exposure::run(arguments, console),
        Command::Session(arguments) => session::run(arguments, console),
        Command::Agreement(arguments) => agreement::run(arguments, console),
        Command::Merge(arguments) => merge::run(arguments, console),
        Command::CheckDevice(arguments) => check_device::run(arguments, console),
        Command::MergeShards(arguments) => merge_shards::run(arguments, console),
        Command::Export(arguments) => export::run(arguments, console),
        Command::Validate(arguments) => validate::run(arguments, console),
        Command::Report(arguments) => report::run(arguments, console),
    }
}

impl Cli {
    /// The options that every command shares.
    pub fn console(&self) -> Console {
        self.console
    }

    /// This process's place among the ranks of a launcher, for the commands that ranks share. The others do what they are told in every
    /// process: a scheduler may start one for each part of the data.
    pub fn place(&self) -> Option<Place> {
        let is_shared = matches!(
            self.command,
            Command::Run(_) | Command::Ablate(_) | Command::Sft(_) | Command::Dpo(_) | Command::Generate(_)
        );
        // Variables that make no sense are reported by the command itself.
        if is_shared { Place::of_process().ok().flatten() } else { None }
    }

    /// How Ctrl-C ends the command: those that keep checkpoints, answers or sessions stop where they save.
    pub fn interruption(&self) -> Manner {
        match self.command {
            Command::Run(_)
            | Command::Ablate(_)
            | Command::Sft(_)
            | Command::Dpo(_)
            | Command::Generate(_)
            | Command::Session(_) => Manner::AtSafePoint,
            _ => Manner::AtOnce,
        }
    }

    /// Parses the process's arguments; clap prints usage errors itself and exits with 2.
    pub fn from_process() -> Self {
        Self::parse()
    }
}
