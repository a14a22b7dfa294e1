//! `topalign synthesize`: scenarios with exact ground truth from the embedded libraries.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::PathBuf;

use serde::Serialize;

use super::Console;
use crate::error::{Fault, Result};
use crate::run::seed::Seed;
use crate::run::{atomic, digest};
use crate::synthesis::{Request, Scenarios, Twins, Wording};
use crate::trace::{Part, Trace};

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
    /// Follow each scenario with its social-context twin and its negative control.
    #[arg(long)]
    twins: bool,
    /// Percent of the scenarios whose request asks for the private entry itself, so that disclosing it is right.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(..=100))]
    disclosing: u8,
    /// How requests list what they ask for.
    #[arg(long, value_enum, default_value_t)]
    requests: WordingName,
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

/// Wordings of requests by name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
enum WordingName {
    /// In a sentence.
    #[default]
    Prose,
    /// As the numbered fields of a form, which answers then number alike.
    Form,
}

#[derive(Default, Serialize)]
struct Summary {
    traces: usize,
    variants: BTreeMap<&'static str, usize>,
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
    let twins = if arguments.twins { Twins::Both } else { Twins::None };
    let wording = match arguments.requests {
        WordingName::Prose => Wording::Prose,
        WordingName::Form => Wording::Form,
    };
    let request = Request {
        count: arguments.count,
        seed: Seed(arguments.seed),
        part,
        twins,
        disclosing: arguments.disclosing,
        wording,
    };
    let mut scenarios = Scenarios::new(request)?;
    let mut summary = Summary { out: arguments.out.clone(), ..Summary::default() };
    let mut norms = BTreeSet::new();
    // One at a time: a million of them need not be in memory together.
    atomic::write_with(&arguments.out, |file| {
        for trace in &mut scenarios {
            let trace = trace.map_err(std::io::Error::other)?;
            summary.count(&trace, &mut norms);
            serde_json::to_writer(&mut *file, &trace)?;
            file.write_all(b"\n")?;
        }
        Ok(())
    })?;
    summary.conclusions = norms.len();
    summary.sha256 = digest::of_file(&arguments.out)?;
    console.print(&summary, &summary.text())
}

impl Summary {
    fn count(&mut self, trace: &Trace, norms: &mut BTreeSet<String>) {
        self.traces += 1;
        *self.variants.entry(trace.variant.name()).or_default() += 1;
        *self.domains.entry(trace.domain.code()).or_default() += 1;
        *self.difficulties.entry(trace.difficulty.map_or("unknown", |level| level.code())).or_default() += 1;
        norms.extend(trace.extra.get("synthesis").map(|origin| origin["norm"].to_string()));
    }
}

impl Summary {
    fn text(&self) -> String {
        let counts = |map: &BTreeMap<&str, usize>| {
            map.iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
        };
        format!(
            "{} traces with {} conclusions -> {}\n  variants      {}\n  domains       {}\n  difficulties  {}\n  sha256 {}",
            self.traces,
            self.conclusions,
            self.out.display(),
            counts(&self.variants),
            counts(&self.domains),
            counts(&self.difficulties),
            self.sha256
        )
    }
}
