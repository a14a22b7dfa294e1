//! `topalign import`: any supported source to canonical traces.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use serde::Serialize;

use super::Console;
use crate::contract;
use crate::error::Result;
use crate::observation;
use crate::run::jsonl;
use crate::trace::{self, Flag, Format, Trace, Variant};

/// Arguments.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Trace files, or folders of them.
    #[arg(required = true)]
    input: Vec<PathBuf>,
    /// Where the canonical traces go; for session logs, the folder for `observations.jsonl` and `contracts.jsonl`.
    #[arg(long)]
    out: PathBuf,
    /// Format of the inputs.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Variant of all inputs; told by content and file name if absent.
    #[arg(long, value_enum)]
    variant: Option<Variant>,
}

#[derive(Serialize)]
struct Summary {
    traces: usize,
    by_variant: BTreeMap<Variant, usize>,
    by_domain: BTreeMap<&'static str, usize>,
    by_difficulty: BTreeMap<&'static str, usize>,
    flags: BTreeMap<Flag, usize>,
    out: PathBuf,
}

/// Runs the command.
///
/// # Errors
/// Unreadable or invalid inputs, an unwritable output.
pub fn run(arguments: &Arguments, console: Console) -> Result<()> {
    let mut files = Vec::new();
    for input in &arguments.input {
        files.extend(trace::files(input)?);
    }
    let format = match (arguments.format, files.first()) {
        (Format::Auto, Some(first)) => trace::detect_file(first)?,
        (format, _) => format,
    };
    if format.is_session_log() {
        let imported = observation::import(&files, format, &arguments.out)?;
        return console.print(&imported, &format!("{}\n", imported.text()));
    }
    let mut traces = trace::read_many_as(&arguments.input, arguments.format, arguments.variant)?;
    for trace in &mut traces {
        for flag in contract::derive(trace).flags {
            trace.flag(flag);
        }
    }
    jsonl::write(&arguments.out, &traces)?;
    let summary = summarise(&traces, arguments.out.clone());
    console.print(&summary, &summary.text())
}

fn summarise(traces: &[Trace], out: PathBuf) -> Summary {
    let mut summary = Summary {
        traces: traces.len(),
        by_variant: BTreeMap::new(),
        by_domain: BTreeMap::new(),
        by_difficulty: BTreeMap::new(),
        flags: BTreeMap::new(),
        out,
    };
    for trace in traces {
        *summary.by_variant.entry(trace.variant).or_default() += 1;
        *summary.by_domain.entry(trace.domain.code()).or_default() += 1;
        *summary.by_difficulty.entry(trace.difficulty.map_or("unknown", trace::Difficulty::code)).or_default() += 1;
        for flag in &trace.flags {
            *summary.flags.entry(*flag).or_default() += 1;
        }
    }
    summary
}

impl Summary {
    fn text(&self) -> String {
        let mut text = format!("{} traces -> {}\n", self.traces, self.out.display());
        let variants = self.by_variant.iter().map(|(variant, count)| (variant.name(), *count)).collect();
        let flags = self.flags.iter().map(|(flag, count)| (flag.name(), *count)).collect();
        for (name, counts) in [
            ("variant", &variants),
            ("domain", &self.by_domain),
            ("difficulty", &self.by_difficulty),
            ("flags", &flags),
        ] {
            let counts: Vec<String> = counts.iter().map(|(key, count)| format!("{key} {count}")).collect();
            if !counts.is_empty() {
                let _ = writeln!(text, "  {name:<11}{}", counts.join(", "));
            }
        }
        text
    }
}
