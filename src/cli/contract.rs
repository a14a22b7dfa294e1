//! `topalign contract`: derive, freeze and hash evaluation contracts.

use std::io::Write as _;
use std::path::PathBuf;

use serde::Serialize;

use super::Console;
use crate::contract::{self, Contract};
use crate::control::{Checks, Tally};
use crate::error::{Error, Fault, Result};
use crate::run::{atomic, digest, jsonl};
use crate::trace::{self, Format, Trace};

/// Reasons shown to people; `--json` has more.
const SHOWN_REASONS: usize = 20;

/// Arguments.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// A trace file of any supported format.
    traces: PathBuf,
    /// Where the contracts go.
    #[arg(long)]
    out: PathBuf,
    /// Format of the traces.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Audit which proper subsets of each support already carry a target, and that authorising everybody exposes nothing and
    /// nobody everything; the subsets of each trace go to this file.
    #[arg(long, value_name = "SUBSETS.jsonl")]
    subsets: Option<PathBuf>,
}

#[derive(Serialize)]
struct Summary {
    #[serde(flatten)]
    tally: Tally,
    #[serde(skip_serializing_if = "Option::is_none")]
    checks: Option<Checks>,
    sha256: String,
    out: PathBuf,
}

/// Runs the command.
///
/// # Errors
/// Unreadable or invalid traces, no contract at all, an unwritable output.
pub fn run(arguments: &Arguments, console: Console) -> Result<()> {
    let mut tally = Tally::default();
    let mut failure = None;
    let written = atomic::write_with(&arguments.out, |file| {
        let derived = contract::derive_each(
            |push| trace::read(&arguments.traces, arguments.format)?.into_iter().try_for_each(push),
            |_, derived| {
                tally.add(&derived);
                if let Ok(contract) = &derived.contract {
                    let fail = |source| Error::write(&arguments.out, source);
                    serde_json::to_writer(&mut *file, contract).map_err(|error| fail(error.into()))?;
                    file.write_all(b"\n").map_err(fail)?;
                }
                Ok(())
            },
        );
        let empty = || Fault::new("no trace gives a contract").at(arguments.traces.display());
        derived.and_then(|()| if tally.contracts == 0 { Err(empty().into()) } else { Ok(()) }).map_err(|error| {
            failure = Some(error);
            std::io::Error::other("nothing is written")
        })
    });
    if let Some(error) = failure {
        return Err(error);
    }
    written?;
    let checks = arguments.subsets.as_ref().map(|file| check(arguments, file)).transpose()?;
    let sha256 = digest::of_file(&arguments.out)?;
    let summary = Summary { tally, checks, sha256, out: arguments.out.clone() };
    console.print(&summary, &summary.text())
}

/// Audits the contracts that were just written against their traces.
fn check(arguments: &Arguments, file: &std::path::Path) -> Result<Checks> {
    let traces: Vec<Trace> = trace::read(&arguments.traces, arguments.format)?;
    let contracts: Vec<Contract> = jsonl::read(&arguments.out)?;
    let mut checks = Checks::default();
    let mut rows = Vec::new();
    let mut contracts = contracts.iter().peekable();
    for trace in &traces {
        let of_trace = |contract: &&Contract| contract.trace_id.as_deref() == Some(trace.trace_id.as_str());
        if let Some(contract) = contracts.next_if(of_trace) {
            rows.extend(checks.add(trace, contract)?);
        }
    }
    jsonl::write(file, &rows)?;
    Ok(checks)
}

impl Summary {
    fn text(&self) -> String {
        let tally = &self.tally;
        let mut lines =
            vec![format!("{} contracts from {} traces -> {}", tally.contracts, tally.traces, self.out.display())];
        lines.extend(tally.lines());
        lines.extend(self.checks.iter().flat_map(Checks::lines));
        let reasons = tally.reasons.iter().take(SHOWN_REASONS);
        lines.extend(reasons.map(|reason| format!("  {}: {}", reason.trace_id, reason.reason)));
        if tally.reasons.len() > SHOWN_REASONS {
            lines.push(format!("  and {} more (--json)", tally.reasons.len() - SHOWN_REASONS));
        }
        lines.push(format!("  sha256 {}", self.sha256));
        lines.join("\n")
    }
}
