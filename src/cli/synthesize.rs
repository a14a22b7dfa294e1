//! `topalign synthesize`: scenarios with exact ground truth from the embedded libraries.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

use super::Console;
use crate::dataset::Part;
use crate::error::{Fault, Result};
use crate::run::seed::Seed;
use crate::run::{digest, jsonl};
use crate::synthesis::{self, Request};

/// Arguments.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Base scenarios to make.
    #[arg(long)]
    count: usize,
    /// Seed of all choices.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Names, values and task wordings that occur in one part never occur in the other. Without it all are drawn from.
    #[arg(long, value_enum)]
    part: Option<PartName>,
    /// Where the traces go.
    #[arg(long)]
    out: PathBuf,
}

/// Parts of the value space by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum PartName {
    /// Four fifths.
    Train,
    /// One fifth.
    HeldOut,
}

#[derive(Serialize)]
struct Summary {
    traces: usize,
    domains: BTreeMap<&'static str, usize>,
    difficulties: BTreeMap<&'static str, usize>,
    conclusions: usize,
    sha256: String,
    out: PathBuf,
}

/// Runs the command.
///
/// # Errors
/// A count of zero, an unwritable output.
pub fn run(arguments: &Arguments, console: Console) -> Result<()> {
    if arguments.count == 0 {
        return Err(Fault::new("nothing to make").at("--count").got(0).expected("a number above 0").into());
    }
    let part = arguments.part.map(|part| match part {
        PartName::Train => Part::Train,
        PartName::HeldOut => Part::HeldOut,
    });
    let request = Request { count: arguments.count, seed: Seed(arguments.seed), part };
    let traces = synthesis::synthesize(request)?;
    jsonl::write(&arguments.out, &traces)?;
    let mut summary = Summary {
        traces: traces.len(),
        domains: BTreeMap::new(),
        difficulties: BTreeMap::new(),
        conclusions: 0,
        sha256: digest::of_file(&arguments.out)?,
        out: arguments.out.clone(),
    };
    let mut norms = std::collections::BTreeSet::new();
    for trace in &traces {
        *summary.domains.entry(trace.domain.code()).or_default() += 1;
        *summary.difficulties.entry(trace.difficulty.map_or("unknown", |level| level.code())).or_default() += 1;
        norms.insert(trace.extra.get("synthesis").map(|origin| origin["norm"].to_string()));
    }
    summary.conclusions = norms.len();
    console.print(&summary, &summary.text())
}

impl Summary {
    fn text(&self) -> String {
        let counts = |map: &BTreeMap<&str, usize>| {
            map.iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
        };
        format!(
            "{} traces with {} conclusions -> {}\n  domains       {}\n  difficulties  {}\n  sha256 {}",
            self.traces,
            self.conclusions,
            self.out.display(),
            counts(&self.domains),
            counts(&self.difficulties),
            self.sha256
        )
    }
}
