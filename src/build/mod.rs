//! Audited training rows out of traces and contracts.
//!
//! In: traces, their contracts, the split, a writer and a seed. Out: [`Built`]: SFT rows for both stages and preference pairs
//! that passed the audit, every audit record, and what was left out with its reason. Pure; [`write()`] puts it into a folder,
//! and [`write_each`] does both piece by piece, for any number of traces.

mod builder;
mod card;
mod count;
mod fact;
mod fit;
mod form;
mod frame;
mod gate;
mod label;
mod mined;
mod note;
mod phrase;
mod privacy;
mod propose;
mod proposed;
mod rows;
mod scene;
mod separate;
mod settle;
mod sheet;
mod stage1;
mod stream;
mod template;
mod unguarded;
mod write;
mod writer;

pub use builder::Builder;
pub use count::{Counts, Tallying};
pub use gate::Reason;
pub use mined::{Mined, Response, ResponseClass};
pub use propose::{Drawing, Wanted, propose};
pub use proposed::Proposer;
pub use separate::{Answers, Separability, separability};
pub use stream::Sources;
pub use unguarded::{UnguardedBuilt, UnguardedCounts, build_unguarded, write_unguarded};
pub use write::{Inputs, Made, Merged, merge, write, write_each, write_shard};
pub use writer::Writer;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};

use crate::audit::{AuditRecord, Audited, Check, Secrets, Severities};
use crate::contract::Contract;
use crate::dataset::{Message, PairKind, PreferencePair, SelectionPair, SftRow};
use crate::error::Result;
use crate::run::seed::Seed;
use crate::trace::{Difficulty, Domain, Part, Trace};

/// Whether pairs are made for stage 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SelectionPairs {
    /// They are not.
    #[default]
    None,
    /// Over-collecting selections and leaking rationales beside clean ones.
    Written,
}

/// What a build may do beyond the usual.
#[derive(Debug, Clone)]
pub struct Options<'a> {
    /// Pairs of one kind, domain and difficulty at most; absent takes all.
    pub quota: Option<usize>,
    /// Pairs for stage 1.
    pub selection_pairs: SelectionPairs,
    /// Answers of real runs.
    pub mined: Mined<'a>,
    /// Rounds in which a writer may try again before an answer is given up.
    pub tries: NonZeroUsize,
    /// Severities of checks other than the usual ones.
    pub severities: Severities,
    /// Prompts that no row may have, exactly or nearly ([`crate::audit::file::prompts_of`]).
    pub excluded: Vec<String>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self {
            quota: None,
            selection_pairs: SelectionPairs::None,
            mined: Mined::default(),
            tries: crate::recipe::settings::defaults::WRITER_TRIES,
            severities: Severities::default(),
            excluded: Vec::new(),
        }
    }
}

impl Options<'_> {
    /// Whether prompts are compared with any that no row may have.
    pub fn keeps_out(&self, parts: &BTreeMap<String, Part>) -> bool {
        !self.excluded.is_empty() || parts.values().any(|part| *part == Part::HeldOut)
    }
}

/// What figures of a set say of a trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// Its domain.
    pub domain: Domain,
    /// Its difficulty, where known.
    pub difficulty: Option<Difficulty>,
    /// The format that it came in.
    pub format: String,
}

impl About {
    /// Of a trace.
    pub fn of(trace: &Trace) -> Self {
        Self { domain: trace.domain, difficulty: trace.difficulty, format: trace.source.format.clone() }
    }

    /// The difficulty's code.
    pub fn level(&self) -> &'static str {
        self.difficulty.map_or("unknown", Difficulty::code)
    }
}

/// What a build gave.
#[derive(Debug, Clone, Default)]
pub struct Built {
    /// SFT rows, stage 1 before stage 2, in the order of the traces.
    pub sft: Vec<Audited<SftRow>>,
    /// Preference pairs for stage 2, in the order of the traces and of [`PairKind::ALL`].
    pub pairs: Vec<Audited<PreferencePair>>,
    /// Preference pairs for stage 1, where they were asked for.
    pub selection_pairs: Vec<Audited<SelectionPair>>,
    /// What the answers of real runs amount to.
    pub mined: BTreeMap<&'static str, usize>,
    /// Records of all rows, those of quarantined rows among them.
    pub audits: Vec<AuditRecord>,
    /// What was left out.
    pub quarantine: Vec<Quarantined>,
    /// Rows that hold by checks against other rows and texts, which leave a record only where they do not hold.
    pub passed: BTreeMap<Check, usize>,
    /// The traces with rows.
    pub about: BTreeMap<String, About>,
    /// Traces read.
    pub traces: usize,
    /// Held-out traces: they give no row.
    pub held_out: usize,
}

/// A trace or row that was left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quarantined {
    /// The trace.
    pub trace_id: String,
    /// The row, by its name in `audit.jsonl`; absent where the whole trace is out.
    pub row: Option<String>,
    /// The kind of pair, where one is out.
    pub kind: Option<PairKind>,
    /// Why.
    pub reason: Reason,
    /// Checks that failed.
    pub checks: Vec<Check>,
    /// The row's new turns: what the audit saw.
    pub turns: Vec<Message>,
}

/// Builds the rows of all training traces. An empty `parts` makes every trace a training trace.
///
/// # Errors
/// A contract that does not validate.
pub fn build(
    traces: &[Trace],
    contracts: &[Contract],
    parts: &BTreeMap<String, Part>,
    writer: &Writer<'_>,
    seed: Seed,
) -> Result<Built> {
    build_with(traces, contracts, parts, writer, seed, &Options::default())
}

/// As [`build`], with options.
///
/// # Errors
/// A contract that does not validate, a writer that stopped answering.
pub fn build_with(
    traces: &[Trace],
    contracts: &[Contract],
    parts: &BTreeMap<String, Part>,
    writer: &Writer<'_>,
    seed: Seed,
    options: &Options<'_>,
) -> Result<Built> {
    let mut builder = Builder::new(parts, writer, seed, options);
    for trace in traces {
        builder.hold_out(trace);
    }
    builder.know(Secrets::new(contracts.iter().flat_map(Secrets::of)));
    builder.take(traces, &stream::by_trace(contracts))
}
