//! `topalign synthesize`: scenarios with exact ground truth from the embedded libraries.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Console;
use crate::error::{Fault, Result};
use crate::run::atomic::Pending;
use crate::run::digest;
use crate::run::seed::Seed;
use crate::run::shard::{Shard, ShardFile, Shards, Task};
use crate::synthesis::{Drawn, Request, Scenarios, Twins, Wording, libraries_digest};
use crate::trace::{Part, Trace};

/// The command's name in shards.
pub(super) const NAME: &str = "synthesize";
/// Scenarios of a shard that are drawn together.
const CHUNK: usize = 512;

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
    /// Make only part I of N, from 1, into a shard file; `merge-shards` joins all of them.
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,
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

/// What scenarios depend on.
#[derive(Debug, Serialize, Deserialize)]
struct Settings {
    count: usize,
    seed: u64,
    part: Option<Part>,
    twins: bool,
    disclosing: u8,
    requests: Wording,
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
    #[serde(skip)]
    norms: BTreeSet<String>,
}

/// Runs the command.
///
/// # Errors
/// A count of zero, an unwritable output.
pub fn run(arguments: &Arguments, console: Console) -> Result<()> {
    if arguments.count == 0 {
        return Err(Fault::new("nothing to make").at("--count").got(0).expected("a number above 0").into());
    }
    let settings = Settings::of(arguments);
    let mut scenarios = Scenarios::new(settings.request())?;
    if let Some(shard) = arguments.shard {
        let inputs = BTreeMap::from([("libraries".to_owned(), libraries_digest())]);
        let mut file = ShardFile::create(&arguments.out, shard, Task::new(NAME, &settings, inputs)?)?;
        let indices: Vec<usize> = shard.indices(settings.count).collect();
        for chunk in indices.chunks(CHUNK) {
            file.items(&scenarios.draw(chunk)?)?;
        }
        let dealt = file.commit(&())?;
        return console.print(&dealt, &dealt.text());
    }
    let mut output = Output::create(&arguments.out)?;
    // One at a time: a million of them need not be in memory together.
    for trace in &mut scenarios {
        output.add(&trace?)?;
    }
    output.finish(console)
}

/// Joins shards.
///
/// # Errors
/// Shards that do not hold all scenarios, an unwritable output.
pub(super) fn merge(shards: Shards, out: &Path, console: Console) -> Result<()> {
    let settings: Settings = shards.task().settings()?;
    if shards.task().inputs.get("libraries") != Some(&libraries_digest()) {
        return Err(Fault::new("the shards were drawn from other libraries than this program's").into());
    }
    let mut scenarios = Scenarios::new(settings.request())?;
    let mut output = Output::create(out)?;
    shards.each(|drawn: Vec<Drawn>| {
        for drawn in drawn {
            scenarios.settle(drawn)?.try_for_each(|trace| output.add(&trace))?;
        }
        Ok(())
    })?;
    if scenarios.settled() != settings.count {
        let fault = Fault::new("the shards do not hold all scenarios").got(scenarios.settled());
        return Err(fault.expected(settings.count).into());
    }
    output.finish(console)
}

impl Settings {
    fn of(arguments: &Arguments) -> Self {
        let part = arguments.part.map(|part| match part {
            PartName::Train => Part::Train,
            PartName::HeldOut => Part::HeldOut,
        });
        let requests = match arguments.requests {
            WordingName::Prose => Wording::Prose,
            WordingName::Form => Wording::Form,
        };
        let Arguments { count, seed, twins, disclosing, .. } = *arguments;
        Self { count, seed, part, twins, disclosing, requests }
    }

    fn request(&self) -> Request {
        let twins = if self.twins { Twins::Both } else { Twins::None };
        let Self { count, seed, part, disclosing, requests: wording, .. } = *self;
        Request { count, seed: Seed(seed), part, twins, disclosing, wording }
    }
}

/// The file of traces, and what is told of it.
struct Output {
    file: Pending,
    summary: Summary,
}

impl Output {
    fn create(out: &Path) -> Result<Self> {
        Ok(Self { file: Pending::create(out)?, summary: Summary { out: out.to_path_buf(), ..Summary::default() } })
    }

    fn add(&mut self, trace: &Trace) -> Result<()> {
        self.summary.count(trace);
        self.file.row(trace)
    }

    fn finish(self, console: Console) -> Result<()> {
        let Self { file, mut summary } = self;
        file.commit()?;
        summary.conclusions = summary.norms.len();
        summary.sha256 = digest::of_file(&summary.out)?;
        console.print(&summary, &summary.text())
    }
}

impl Summary {
    fn count(&mut self, trace: &Trace) {
        self.traces += 1;
        *self.variants.entry(trace.variant.name()).or_default() += 1;
        *self.domains.entry(trace.domain.code()).or_default() += 1;
        *self.difficulties.entry(trace.difficulty.map_or("unknown", |level| level.code())).or_default() += 1;
        self.norms.extend(trace.extra.get("synthesis").map(|origin| origin["norm"].to_string()));
    }

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
