//! Rows piece by piece: of the traces that went by only digests and counts stay, so that their number does not matter.
//!
//! In: pieces of traces with their contracts, in order. Out: for each piece a [`Built`]; its rows are numbered through. The
//! rows do not depend on where one piece ends, nor on the number of threads.

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;

use crate::audit::{Admission, AuditRecord, Check, Verdict};
use crate::contract::Contract;
use crate::dataset::PairKind;
use crate::endpoint::in_parallel;
use crate::error::{Error, Result};
use crate::run::seed::Seed;
use crate::trace::{Part, Trace};

use super::gate::{Gate, Reason};
use super::rows::{self, Failure, LeftOut, Means, Rows};
use super::writer::Writer;
use super::{Built, Options, Quarantined};

/// Builds rows of pieces of traces.
pub struct Builder<'a> {
    gate: Gate<'a>,
    means: Means<'a>,
    quota: Quota,
    named: Named,
}

/// Rows that have a name: the numbers of the next ones.
#[derive(Debug, Default, Clone, Copy)]
struct Named {
    sft: usize,
    pairs: usize,
    selection_pairs: usize,
    quarantined: usize,
}

impl<'a> Builder<'a> {
    /// Begins. An empty `parts` makes every trace a training trace.
    pub fn new(
        parts: &'a BTreeMap<String, Part>,
        writer: &'a Writer<'a>,
        seed: Seed,
        options: &'a Options<'a>,
    ) -> Self {
        Self {
            gate: Gate::new(parts),
            means: Means { author: writer.author(), seed, options },
            quota: Quota { most: options.quota, cells: BTreeMap::new() },
            named: Named::default(),
        }
    }

    /// Notes the prompt of a trace if it is held out: no later trace may have it. Held-out traces come before all pieces.
    pub fn hold_out(&mut self, trace: &Trace) {
        self.gate.hold_out(trace);
    }

    /// Builds the rows of the next traces; `contracts` are theirs by trace id.
    ///
    /// # Errors
    /// A contract that does not validate, a writer that has stopped answering, an interruption.
    pub fn take(&mut self, traces: &[Trace], contracts: &BTreeMap<&str, &Contract>) -> Result<Built> {
        let mut built = Built { traces: traces.len(), ..Built::default() };
        let mut jobs: Vec<(&Trace, Result<&Contract, Reason>)> = Vec::new();
        for trace in traces {
            if self.gate.is_held_out(trace) {
                built.held_out += 1;
            } else {
                let contract = contracts.get(trace.trace_id.as_str()).copied();
                jobs.push((trace, self.gate.pass(trace, contract)));
            }
        }
        let made = self.make(&jobs)?;
        let named: Vec<(&Trace, Rows, Named)> = jobs
            .iter()
            .zip(made)
            .map(|((trace, _), mut rows)| {
                self.quota.cut(trace, &mut rows);
                let first = self.named.advance(&rows);
                (*trace, rows, first)
            })
            .collect();
        let parts: Vec<Built> =
            named.into_par_iter().map(|(trace, rows, first)| first.name(trace, rows)).collect::<Result<_>>()?;
        for part in parts {
            built.append(part);
        }
        Ok(built)
    }

    fn make(&self, jobs: &[(&Trace, Result<&Contract, Reason>)]) -> Result<Vec<Rows>> {
        let make = |(trace, passed): &(&Trace, Result<&Contract, Reason>)| match passed {
            Ok(contract) => rows::rows(trace, contract, &self.means),
            Err(reason) => {
                let left_out = vec![LeftOut { kind: None, reason: *reason, failure: None }];
                Ok(Rows { left_out, ..Rows::default() })
            }
        };
        let Some(workers) = self.means.author.workers() else { return jobs.par_iter().map(make).collect() };
        let mut made: Vec<Option<Rows>> = jobs.iter().map(|_| None).collect();
        in_parallel(workers, jobs, make, |index, rows| {
            made[index] = Some(rows?);
            Ok(())
        })?;
        made.into_iter().collect::<Option<_>>().ok_or(Error::Interrupted)
    }
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

impl Named {
    /// Steps over one trace's rows; returns where they begin.
    fn advance(&mut self, rows: &Rows) -> Self {
        let first = *self;
        self.sft += if rows.sft.is_some() { 2 } else { 0 };
        self.pairs += rows.pairs.len();
        self.selection_pairs += rows.selection_pairs.len();
        self.quarantined += rows.left_out.len();
        first
    }

    /// Names one trace's rows, of which these are the first.
    fn name(self, trace: &Trace, rows: Rows) -> Result<Built> {
        let mut built = Built::default();
        for (row, number) in rows.sft.into_iter().flatten().zip(self.sft..) {
            if let Admission::Passed(row, records) = row.admit(&format!("sft:{number}"))? {
                built.sft.push(row);
                built.audits.extend(records);
            }
        }
        for (pair, number) in rows.pairs.into_iter().zip(self.pairs..) {
            if let Admission::Passed(pair, records) = pair.admit(&format!("dpo:{number}"))? {
                built.pairs.push(pair);
                built.audits.extend(records);
            }
        }
        for (pair, number) in rows.selection_pairs.into_iter().zip(self.selection_pairs..) {
            if let Admission::Passed(pair, records) = pair.admit(&format!("dpo-selection:{number}"))? {
                built.selection_pairs.push(pair);
                built.audits.extend(records);
            }
        }
        for class in rows.mined {
            *built.mined.entry(class.name()).or_default() += 1;
        }
        for (left_out, number) in rows.left_out.into_iter().zip(self.quarantined..) {
            built.leave_out(trace, left_out, format!("quarantine:{number}"))?;
        }
        Ok(built)
    }
}

impl Built {
    fn leave_out(&mut self, trace: &Trace, left_out: LeftOut, name: String) -> Result<()> {
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
        self.audits.extend(records);
        Ok(())
    }

    /// Puts the rows of what comes next behind these.
    pub(super) fn append(&mut self, mut next: Self) {
        self.sft.append(&mut next.sft);
        self.pairs.append(&mut next.pairs);
        self.selection_pairs.append(&mut next.selection_pairs);
        self.audits.append(&mut next.audits);
        self.quarantine.append(&mut next.quarantine);
        for (class, count) in next.mined {
            *self.mined.entry(class).or_default() += count;
        }
        self.traces += next.traces;
        self.held_out += next.held_out;
    }
}

fn records_of<T>(admission: Admission<T>) -> Vec<AuditRecord> {
    match admission {
        Admission::Passed(_, records) | Admission::Failed(_, records) => records,
    }
}
