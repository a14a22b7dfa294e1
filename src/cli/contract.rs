//! `topalign contract`: derive, freeze and hash evaluation contracts.

use std::path::PathBuf;

use serde::Serialize;

use super::Console;
use crate::contract::{self, Contract};
use crate::control::{Checks, Tally, TraceSubsets};
use crate::error::{Error, Fault, Result};
use crate::run::{atomic, digest, jsonl};
use crate::trace::{self, Format, Ids, Source, Trace};

/// Bytes that a row mostly has at most.
const USUAL_BYTES: usize = 4096;
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
    let mut run = Run { tally: Tally::default(), checks: Checks::default(), subsets: Vec::new() };
    let mut failure = None;
    let written = atomic::write_with(&arguments.out, |file| {
        run.derive(arguments, file).map_err(|error| {
            failure = Some(error);
            std::io::Error::other("nothing is written")
        })
    });
    if let Some(error) = failure {
        return Err(error);
    }
    written?;
    if let Some(file) = &arguments.subsets {
        jsonl::write(file, &run.subsets)?;
    }
    let summary = Summary {
        tally: run.tally,
        checks: arguments.subsets.is_some().then_some(run.checks),
        sha256: digest::of_file(&arguments.out)?,
        out: arguments.out.clone(),
    };
    console.print(&summary, &summary.text())
}

/// What a pass over the traces gathers.
struct Run {
    tally: Tally,
    checks: Checks,
    subsets: Vec<TraceSubsets>,
}

/// What the threads make of a trace.
struct Worked {
    trace_id: String,
    source: Source,
    tally: Tally,
    /// Of `contracts.jsonl`; empty without a contract.
    row: Vec<u8>,
    /// For the audit of subsets.
    audited: Option<(Trace, Contract)>,
}

impl Run {
    /// One pass over the traces: only a batch of them is held at a time.
    fn derive(&mut self, arguments: &Arguments, file: &mut impl std::io::Write) -> Result<()> {
        let audits_subsets = arguments.subsets.is_some();
        let work = |trace: Trace| {
            let derived = contract::derive(&trace);
            let mut row = Vec::with_capacity(USUAL_BYTES);
            if let Ok(contract) = &derived.contract {
                contract.write_row(&mut row);
            }
            let tally = Tally::of(&derived);
            let audited =
                if audits_subsets { derived.contract.ok().map(|contract| (trace.clone(), contract)) } else { None };
            Worked { trace_id: trace.trace_id, source: trace.source, tally, row, audited }
        };
        let mut ids = Ids::default();
        trace::each_with(&arguments.traces, arguments.format, None, work, &mut |worked| {
            ids.add(&worked.trace_id, &worked.source)?;
            self.tally.merge(worked.tally);
            if let Some((trace, contract)) = &worked.audited {
                self.subsets.extend(self.checks.add(trace, contract)?);
            }
            file.write_all(&worked.row).map_err(|source| Error::write(&arguments.out, source))
        })?;
        if self.tally.contracts == 0 {
            return Err(Fault::new("no trace gives a contract").at(arguments.traces.display()).into());
        }
        Ok(())
    }
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
