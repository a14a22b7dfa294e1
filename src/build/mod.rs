//! Audited training rows out of traces and contracts.
//!
//! In: traces, their contracts, the split, a writer and a seed. Out: [`Built`]: SFT rows for both stages and preference pairs
//! that passed the audit, every audit record, and what was left out with its reason. Pure; [`write()`] puts it into a folder.

mod card;
mod count;
mod fact;
mod fit;
mod frame;
mod gate;
mod label;
mod mined;
mod note;
mod phrase;
mod propose;
mod rows;
mod scene;
mod separate;
mod stage1;
mod template;
mod unguarded;
mod write;

pub use count::Counts;
pub use gate::Reason;
pub use mined::{Mined, Response, ResponseClass};
pub use propose::{Drawing, Wanted, propose};
pub use separate::{Answers, Separability, separability};
pub use unguarded::{UnguardedBuilt, UnguardedCounts, build_unguarded, write_unguarded};
pub use write::{Inputs, write};

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::audit::{Admission, AuditRecord, Audited, Check, Verdict};
use crate::contract::Contract;
use crate::dataset::{Message, PairKind, PreferencePair, SelectionPair, SftRow};
use crate::error::Result;
use crate::run::seed::Seed;
use crate::trace::{Part, Trace};

use gate::Gate;
use rows::{Failure, LeftOut, Means, Rows};

/// Who writes the answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Writer {
    /// Deterministic templates.
    Template,
}

impl Writer {
    /// The name in rows and manifests.
    pub fn name(self) -> &'static str {
        match self {
            Self::Template => "template",
        }
    }
}

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
#[derive(Debug, Clone, Default)]
pub struct Options<'a> {
    /// Pairs of one kind, domain and difficulty at most; absent takes all.
    pub quota: Option<usize>,
    /// Pairs for stage 1.
    pub selection_pairs: SelectionPairs,
    /// Answers of real runs.
    pub mined: Mined<'a>,
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
    /// Records of all rows, those of quarantined rows last.
    pub audits: Vec<AuditRecord>,
    /// What was left out.
    pub quarantine: Vec<Quarantined>,
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
    writer: &Writer,
    seed: Seed,
) -> Result<Built> {
    build_with(traces, contracts, parts, writer, seed, &Options::default())
}

/// As [`build`], with options.
///
/// # Errors
/// A contract that does not validate.
pub fn build_with(
    traces: &[Trace],
    contracts: &[Contract],
    parts: &BTreeMap<String, Part>,
    writer: &Writer,
    seed: Seed,
    options: &Options<'_>,
) -> Result<Built> {
    let means = Means { writer: writer.name(), seed, selection_pairs: options.selection_pairs, mined: &options.mined };
    let mut gate = Gate::new(traces, contracts, parts);
    let mut built = Built { traces: traces.len(), ..Built::default() };
    let mut jobs: Vec<(&Trace, Result<&Contract, Reason>)> = Vec::new();
    for trace in traces {
        if gate.is_held_out(trace) {
            built.held_out += 1;
        } else {
            jobs.push((trace, gate.pass(trace)));
        }
    }
    let made: Vec<Rows> = jobs
        .par_iter()
        .map(|(trace, passed)| match passed {
            Ok(contract) => rows::rows(trace, contract, &means),
            Err(reason) => {
                let left_out = vec![LeftOut { kind: None, reason: *reason, failure: None }];
                Ok(Rows { left_out, ..Rows::default() })
            }
        })
        .collect::<Result<_>>()?;
    let mut failed = Vec::new();
    let mut quota = Quota { most: options.quota, cells: BTreeMap::new() };
    for ((trace, _), mut rows) in jobs.iter().zip(made) {
        quota.cut(trace, &mut rows);
        built.take(trace, rows, &mut failed)?;
    }
    built.audits.append(&mut failed);
    Ok(built)
}

/// Counts pairs by kind, domain and difficulty.
struct Quota {
    most: Option<usize>,
    cells: BTreeMap<(PairKind, &'static str, &'static str), usize>,
}

impl Quota {
    /// Leaves out the pairs whose cell is full.
    fn cut(&mut self, trace: &Trace, rows: &mut Rows) {
        let Some(most) = self.most else { return };
        let difficulty = trace.difficulty.map_or("unknown", |level| level.code());
        let mut kept = Vec::new();
        for pair in std::mem::take(&mut rows.pairs) {
            let Some(kind) = pair.row().kind else { continue };
            let count = self.cells.entry((kind, trace.domain.code(), difficulty)).or_default();
            if *count < most {
                *count += 1;
                kept.push(pair);
            } else {
                rows.left_out.push(LeftOut { kind: Some(kind), reason: Reason::OverQuota, failure: None });
            }
        }
        rows.pairs = kept;
    }
}

impl Built {
    /// Names one trace's rows and takes them in.
    fn take(&mut self, trace: &Trace, rows: Rows, failed: &mut Vec<AuditRecord>) -> Result<()> {
        for row in rows.sft.into_iter().flatten() {
            if let Admission::Passed(row, records) = row.admit(&format!("sft:{}", self.sft.len()))? {
                self.sft.push(row);
                self.audits.extend(records);
            }
        }
        for pair in rows.pairs {
            if let Admission::Passed(pair, records) = pair.admit(&format!("dpo:{}", self.pairs.len()))? {
                self.pairs.push(pair);
                self.audits.extend(records);
            }
        }
        for pair in rows.selection_pairs {
            let name = format!("dpo-selection:{}", self.selection_pairs.len());
            if let Admission::Passed(pair, records) = pair.admit(&name)? {
                self.selection_pairs.push(pair);
                self.audits.extend(records);
            }
        }
        for class in rows.mined {
            *self.mined.entry(class.name()).or_default() += 1;
        }
        for left_out in rows.left_out {
            self.leave_out(trace, left_out, failed)?;
        }
        Ok(())
    }

    fn leave_out(&mut self, trace: &Trace, left_out: LeftOut, failed: &mut Vec<AuditRecord>) -> Result<()> {
        let name = format!("quarantine:{}", self.quarantine.len());
        let (turns, records) = match left_out.failure {
            None => (Vec::new(), Vec::new()),
            Some(Failure::Sft(row)) => {
                let turns = row.row().messages.iter().rev().take(1).cloned().collect();
                (turns, records_of(row.admit(&name)?))
            }
            Some(Failure::Pair(pair)) => (pair.row().rejected.clone(), records_of(pair.admit(&name)?)),
        };
        let checks: BTreeSet<Check> =
            records.iter().filter(|record| record.verdict == Verdict::Fail).map(|record| record.check).collect();
        self.quarantine.push(Quarantined {
            trace_id: trace.trace_id.clone(),
            row: (!records.is_empty()).then_some(name),
            kind: left_out.kind,
            reason: left_out.reason,
            checks: checks.into_iter().collect(),
            turns,
        });
        failed.extend(records);
        Ok(())
    }
}

fn records_of<T>(admission: Admission<T>) -> Vec<AuditRecord> {
    match admission {
        Admission::Passed(_, records) | Admission::Failed(_, records) => records,
    }
}
