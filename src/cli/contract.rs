//! `topalign contract`: derive, freeze and hash evaluation contracts.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::Console;
use crate::contract::{self, Derived};
use crate::control::{Checked, Checks, Tally};
use crate::error::{Error, Fault, Result};
use crate::run::atomic::{Pending, commit_all};
use crate::run::digest;
use crate::run::shard::{Dealer, Shard, ShardFile, Shards, Task};
use crate::trace::{self, Format, Ids, Source, Trace};

/// The command's name in shards.
pub(super) const NAME: &str = "contract";
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
    /// Derive only part I of N, from 1, into a shard file; `merge-shards` joins all of them.
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,
}

/// What contracts depend on, beside the traces.
#[derive(Debug, Serialize, Deserialize)]
struct Settings {
    format: String,
    has_subsets: bool,
}

/// What one trace gave.
#[derive(Debug, Serialize, Deserialize)]
struct Item {
    source: Source,
    derived: Derived,
    checked: Option<Checked>,
}

/// What the output takes of it: all that takes long is done.
struct Row {
    trace_id: String,
    source: Source,
    tally: Tally,
    /// Of `contracts.jsonl`; empty without a contract.
    contract: Vec<u8>,
    checked: Option<Checked>,
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
    if let Some(shard) = arguments.shard {
        return run_shard(arguments, shard, console);
    }
    let mut output = Output::create(&arguments.out, arguments.subsets.as_deref())?;
    let work = |trace| Item::of(trace, arguments.subsets.is_some()).map(Row::of);
    each(arguments, None, work, &mut |row| output.add(row?))?;
    output.finish(&arguments.traces, console)
}

fn run_shard(arguments: &Arguments, shard: Shard, console: Console) -> Result<()> {
    let settings = Settings { format: arguments.format.name().to_owned(), has_subsets: arguments.subsets.is_some() };
    let inputs = BTreeMap::from([("traces".to_owned(), digest::of_file(&arguments.traces)?)]);
    let mut file = ShardFile::create(&arguments.out, shard, Task::new(NAME, &settings, inputs)?)?;
    let work = |trace| Item::of(trace, settings.has_subsets);
    each(arguments, Some(shard), work, &mut |item| file.items(&[item?]))?;
    let dealt = file.commit(&())?;
    console.print(&dealt, &dealt.text())
}

/// One pass over the traces: only a batch of them is held at a time, and worked on by all threads.
fn each<R: Send>(
    arguments: &Arguments,
    shard: Option<Shard>,
    work: impl Fn(Trace) -> R + Sync,
    visit: &mut dyn FnMut(R) -> Result<()>,
) -> Result<()> {
    trace::each_with(&arguments.traces, (arguments.format, None), &mut Dealer::new(shard), work, visit)?;
    Ok(())
}

/// Joins shards; `subsets` is where the subset audit goes, if they have one.
///
/// # Errors
/// A trace that appears twice, a subset audit without a file for it or the other way round, an unwritable output.
pub(super) fn merge(shards: Shards, (out, subsets): (&Path, Option<&Path>), console: Console) -> Result<()> {
    let settings: Settings = shards.task().settings()?;
    if settings.has_subsets != subsets.is_some() {
        let (what, hint) = if settings.has_subsets {
            ("the shards hold a subset audit, which needs a file", "give --subsets FILE, as their command had it")
        } else {
            ("the shards hold no subset audit", "leave --subsets out, or run the shards with it")
        };
        return Err(Fault::new(what).at("--subsets").hint(hint).into());
    }
    let mut output = Output::create(out, subsets)?;
    shards.each(|items: Vec<Item>| {
        let rows: Vec<Row> = items.into_par_iter().map(Row::of).collect();
        rows.into_iter().try_for_each(|row| output.add(row))
    })?;
    output.finish(Path::new("the shards' traces"), console)
}

impl Item {
    fn of(trace: Trace, has_subsets: bool) -> Result<Self> {
        let derived = contract::derive(&trace);
        let checked = match &derived.contract {
            Ok(contract) if has_subsets => Some(Checked::of(&trace, contract)?),
            _ => None,
        };
        Ok(Self { source: trace.source, derived, checked })
    }
}

impl Row {
    fn of(Item { source, derived, checked }: Item) -> Self {
        let mut row = Vec::with_capacity(USUAL_BYTES);
        if let Ok(contract) = &derived.contract {
            contract.write_row(&mut row);
        }
        Self { tally: Tally::of(&derived), trace_id: derived.trace_id, source, contract: row, checked }
    }
}

/// The files, and what a pass over the traces gathers.
struct Output {
    contracts: Pending,
    subsets: Option<Pending>,
    ids: Ids,
    tally: Tally,
    checks: Checks,
}

impl Output {
    fn create(out: &Path, subsets: Option<&Path>) -> Result<Self> {
        Ok(Self {
            contracts: Pending::create(out)?,
            subsets: subsets.map(Pending::create).transpose()?,
            ids: Ids::default(),
            tally: Tally::default(),
            checks: Checks::default(),
        })
    }

    fn add(&mut self, row: Row) -> Result<()> {
        self.ids.add(&row.trace_id, &row.source)?;
        self.tally.merge(row.tally);
        if let Some(checked) = &row.checked {
            self.checks.add(checked);
            if let (Some(file), Some(subsets)) = (&mut self.subsets, &checked.subsets) {
                file.row(subsets)?;
            }
        }
        let written = self.contracts.write_all(&row.contract);
        written.map_err(|source| Error::write(self.contracts.path(), source))
    }

    fn finish(self, traces: &Path, console: Console) -> Result<()> {
        if self.tally.contracts == 0 {
            return Err(Fault::new("no trace gives a contract").at(traces.display()).into());
        }
        let (out, checks) = (self.contracts.path().to_path_buf(), self.subsets.is_some().then_some(self.checks));
        commit_all([self.contracts].into_iter().chain(self.subsets))?;
        let summary = Summary { tally: self.tally, checks, sha256: digest::of_file(&out)?, out };
        console.print(&summary, &summary.text())
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
