//! `topalign split`: deal traces to train and held-out by near-duplicate group.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

use super::Console;
use crate::control;
use crate::error::{Error, Result};
use crate::run::seed::Seed;
use crate::run::{atomic, jsonl};
use crate::split::{self, Reason, Split};
use crate::trace::{self, Format, Part, Trace};

/// Arguments.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// A trace file of any supported format.
    traces: PathBuf,
    /// Share of scenarios that is never trained on.
    #[arg(long, default_value_t = 0.2)]
    held_out: f64,
    /// Seed of the deal.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Folder for `train.jsonl`, `held-out.jsonl` and `split.json`.
    #[arg(long)]
    out: PathBuf,
    /// Format of the traces.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Serialize)]
struct Summary {
    train: usize,
    held_out: usize,
    groups: usize,
    largest_group: usize,
    /// Negative controls whose unrelated goal now comes from their own part.
    negative_controls_repaired: usize,
    links: BTreeMap<Reason, usize>,
    by_domain: BTreeMap<&'static str, [usize; 2]>,
    out: PathBuf,
}

/// Runs the command.
///
/// # Errors
/// Unreadable or invalid traces, a part that would stay empty, an unwritable folder.
pub fn run(arguments: &Arguments, console: Console) -> Result<()> {
    let mut traces = trace::read(&arguments.traces, arguments.format)?;
    let split = split::split(&mut traces, arguments.held_out, Seed(arguments.seed))?;
    let repaired = control::repair(&mut traces, &split.parts, Seed(arguments.seed));
    for (part, file) in [(Part::Train, "train.jsonl"), (Part::HeldOut, "held-out.jsonl")] {
        let dealt = traces.iter().filter(|trace| split.part(&trace.trace_id) == Some(part));
        jsonl::write(&arguments.out.join(file), dealt)?;
    }
    // Last, so that its presence means that the other two are whole.
    let json = serde_json::to_vec_pretty(&split).map_err(|error| Error::Failed(error.to_string()))?;
    atomic::write(&arguments.out.join("split.json"), &json)?;
    let mut summary = summarise(&split, &traces, arguments.out.clone());
    summary.negative_controls_repaired = repaired;
    console.print(&summary, &summary.text())
}

fn summarise(split: &Split, traces: &[Trace], out: PathBuf) -> Summary {
    let mut summary = Summary {
        train: split.count(Part::Train),
        held_out: split.count(Part::HeldOut),
        groups: split.groups.len(),
        largest_group: split.groups.values().map(Vec::len).max().unwrap_or(0),
        negative_controls_repaired: 0,
        links: BTreeMap::new(),
        by_domain: BTreeMap::new(),
        out,
    };
    for link in &split.reasons {
        *summary.links.entry(link.reason).or_default() += 1;
    }
    for trace in traces {
        let counts = summary.by_domain.entry(trace.domain.code()).or_default();
        match split.part(&trace.trace_id) {
            Some(Part::Train) => counts[0] += 1,
            Some(Part::HeldOut) => counts[1] += 1,
            None => {}
        }
    }
    summary
}

impl Summary {
    fn text(&self) -> String {
        let mut lines = vec![format!(
            "{} train, {} held-out traces in {} groups (largest {}) -> {}",
            self.train,
            self.held_out,
            self.groups,
            self.largest_group,
            self.out.display()
        )];
        let domains: Vec<String> =
            self.by_domain.iter().map(|(domain, [train, held])| format!("{domain} {train}+{held}")).collect();
        lines.push(format!("  domain (train+held-out)  {}", domains.join(", ")));
        let links: Vec<String> =
            self.links.iter().map(|(reason, count)| format!("{} {count}", reason.name())).collect();
        if !links.is_empty() {
            lines.push(format!("  kept together by         {}", links.join(", ")));
        }
        lines.join("\n")
    }
}
