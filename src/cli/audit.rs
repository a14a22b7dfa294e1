//! `topalign audit`: audit any SFT or DPO file against contracts.

use std::path::PathBuf;

use super::Console;
use super::severity::read_severities;
use crate::audit;
use crate::audit::file::Options;
use crate::contract::Contract;
use crate::error::{Error, Result};
use crate::run::jsonl;
use crate::trace::{self, Format};

/// Arguments.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// SFT rows (`messages`, or `prompt` and `completion`) or preference pairs (`prompt`, `chosen`, `rejected`), as JSONL.
    data: PathBuf,
    /// The contracts of the rows' traces.
    #[arg(long)]
    contracts: PathBuf,
    /// The traces themselves: adds the checks of tool selection and of values from tools not shown.
    #[arg(long)]
    traces: Option<PathBuf>,
    /// Traces whose prompts no row may have, exactly or nearly.
    #[arg(long)]
    held_out: Option<PathBuf>,
    /// Files of rows whose prompts no row may have, exactly or nearly.
    #[arg(long)]
    exclude: Vec<PathBuf>,
    /// What weighs how much, e.g. `near-duplicate=fail` or `language=off`; may be given again.
    #[arg(long, value_name = "CHECK=off|warn|fail")]
    severity: Vec<String>,
    /// Exit with 3 if a row has an outcome of this severity.
    #[arg(long, value_enum)]
    fail_on: Option<FailOn>,
}

/// Severity at which the command fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum FailOn {
    /// A check fails.
    Error,
    /// A check fails or warns.
    Warning,
}

/// Runs the command.
///
/// # Errors
/// Unreadable or invalid input; [`Error::Gate`] under `--fail-on`.
pub fn run(arguments: &Arguments, console: Console) -> Result<()> {
    let contracts: Vec<Contract> = jsonl::read(&arguments.contracts)?;
    let traces = match &arguments.traces {
        Some(path) => trace::read(path, Format::Auto)?,
        None => Vec::new(),
    };
    let held_out = match &arguments.held_out {
        Some(path) => trace::read(path, Format::Auto)?,
        None => Vec::new(),
    };
    let severity = read_severities(&arguments.severity)?;
    let options = Options { held_out, exclude: arguments.exclude.clone(), severity };
    let outcome = audit::file::audit_with(&arguments.data, &contracts, &traces, &options)?;
    console.print(&outcome, &outcome.table())?;
    let warnings: usize = outcome.checks.values().map(|tally| tally.warn).sum();
    let fails = match arguments.fail_on {
        None => false,
        Some(FailOn::Error) => outcome.failed_rows > 0,
        Some(FailOn::Warning) => outcome.failed_rows + warnings > 0,
    };
    if fails {
        return Err(Error::Gate(format!(
            "{} of {} rows have a failed check; {warnings} warnings",
            outcome.failed_rows, outcome.rows
        )));
    }
    Ok(())
}
