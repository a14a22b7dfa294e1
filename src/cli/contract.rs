//! `topalign contract`: derive, freeze and hash evaluation contracts.

use std::path::PathBuf;

use serde::Serialize;

use super::Console;
use crate::contract::{self, Contract, Derived, TargetKind};
use crate::error::{Fault, Result};
use crate::run::{digest, jsonl};
use crate::trace::{self, Flag, Format};

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
}

#[derive(Serialize)]
struct Summary {
    traces: usize,
    contracts: usize,
    /// Contracts with a label beyond the conclusion itself.
    with_label: usize,
    with_clue: usize,
    with_label_or_clue: usize,
    /// Contracts with a clue that the requester may not have.
    with_private_clue: usize,
    with_required: usize,
    /// Traces whose criteria demand what they forbid.
    conflicts: usize,
    targets: usize,
    required_values: usize,
    without_contract: Vec<Reason>,
    sha256: String,
    out: PathBuf,
}

#[derive(Serialize)]
struct Reason {
    trace_id: String,
    reason: String,
}

/// Runs the command.
///
/// # Errors
/// Unreadable or invalid traces, no contract at all, an unwritable output.
pub fn run(arguments: &Arguments, console: Console) -> Result<()> {
    let traces = trace::read(&arguments.traces, arguments.format)?;
    let derived = contract::derive_all(&traces);
    let contracts: Vec<&Contract> = derived.iter().filter_map(|derived| derived.contract.as_ref().ok()).collect();
    if contracts.is_empty() {
        return Err(Fault::new("no trace gives a contract").at(arguments.traces.display()).into());
    }
    jsonl::write(&arguments.out, &contracts)?;
    let summary = summarise(&derived, &contracts, digest::of_file(&arguments.out)?, arguments.out.clone());
    console.print(&summary, &summary.text())
}

fn summarise(derived: &[Derived], contracts: &[&Contract], sha256: String, out: PathBuf) -> Summary {
    let count = |holds: &dyn Fn(&Contract) -> bool| contracts.iter().filter(|contract| holds(contract)).count();
    let has_label = |contract: &Contract| {
        contract
            .targets
            .iter()
            .any(|target| target.kind == TargetKind::Label && target.provenance.field.as_deref() != Some("conclusion"))
    };
    let has_clue = |contract: &Contract| contract.targets.iter().any(|target| target.kind == TargetKind::Clue);
    let has_private_clue = |contract: &Contract| {
        let private = |id: &str| !contract.authorized.iter().any(|pair| pair.target_id == id);
        contract.targets.iter().any(|target| target.kind == TargetKind::Clue && private(&target.target_id))
    };
    Summary {
        traces: derived.len(),
        contracts: contracts.len(),
        with_label: count(&has_label),
        with_clue: count(&has_clue),
        with_label_or_clue: count(&|contract| has_label(contract) || has_clue(contract)),
        with_private_clue: count(&has_private_clue),
        with_required: count(&|contract| !contract.required.is_empty()),
        conflicts: derived.iter().filter(|derived| derived.flags.contains(&Flag::Conflict)).count(),
        targets: contracts.iter().map(|contract| contract.targets.len()).sum(),
        required_values: contracts.iter().map(|contract| contract.required.len()).sum(),
        without_contract: derived
            .iter()
            .filter_map(|derived| {
                let reason = derived.contract.as_ref().err()?.clone();
                Some(Reason { trace_id: derived.trace_id.clone(), reason })
            })
            .collect(),
        sha256,
        out,
    }
}

impl Summary {
    fn text(&self) -> String {
        let mut lines =
            vec![format!("{} contracts from {} traces -> {}", self.contracts, self.traces, self.out.display())];
        for (name, count) in [
            ("with a derived label", self.with_label),
            ("with a grounded clue", self.with_clue),
            ("with either", self.with_label_or_clue),
            ("with a clue the requester may not have", self.with_private_clue),
            ("with required values", self.with_required),
            ("demanding what they forbid", self.conflicts),
        ] {
            lines.push(format!("  {count:>5}  {name}"));
        }
        lines.push(format!("  {:>5}  targets, {} required values", self.targets, self.required_values));
        lines.extend(
            self.without_contract.iter().map(|reason| format!("  none: {}: {}", reason.trace_id, reason.reason)),
        );
        lines.push(format!("  sha256 {}", self.sha256));
        lines.join("\n")
    }
}
