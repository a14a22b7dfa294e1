//! What only the whole set decides about the rows of one trace: whether an earlier trace has its prompt or its rows, whether its cell is
//! full, which numbers its rows have.
//!
//! In: [`Draft`]s in order. Out: a [`Built`] for each piece of them.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use rayon::prelude::*;

use crate::audit::{Admission, AuditRecord, Check, Earlier, Severities, Severity, Verdict};
use crate::dataset::PairKind;
use crate::error::Result;
use crate::trace::Ids;

use super::builder::Draft;
use super::gate::Reason;
use super::rows::{Failure, LeftOut, Rows};
use super::{About, Built, Options, Quarantined};

/// Settles drafts in the order of their traces.
pub(super) struct Settler<'a> {
    rules: Rules<'a>,
    ids: Ids,
    prompts: HashSet<[u8; 16]>,
    /// Rows of each stage.
    earlier: [Earlier; 2],
    cells: BTreeMap<(PairKind, &'static str, &'static str), usize>,
    named: Named,
    ran: Ran,
}

/// What the set is settled by.
#[derive(Clone, Copy)]
pub(super) struct Rules<'a> {
    /// Pairs of one kind, domain and difficulty at most.
    pub quota: Option<usize>,
    pub severities: &'a Severities,
}

impl<'a> From<&'a Options<'a>> for Rules<'a> {
    fn from(options: &'a Options<'a>) -> Self {
        Self { quota: options.quota, severities: &options.severities }
    }
}

/// Checks of rows beside others, which leave a record only where they do not hold.
struct Ran {
    of_answers: Vec<Check>,
    of_rows: Vec<Check>,
}

/// Rows that have a name: the numbers of the next ones.
#[derive(Debug, Default, Clone, Copy)]
struct Named {
    sft: usize,
    pairs: usize,
    selection_pairs: usize,
    quarantined: usize,
}

impl<'a> Settler<'a> {
    /// Begins; `keeps_out` says whether prompts were compared with any that were kept out.
    pub fn new(rules: Rules<'a>, keeps_out: bool) -> Self {
        let is_on = |check: &Check| rules.severities.get(*check) != Some(Severity::Off);
        let of_answers = [Check::ForeignSecret, Check::Personal, Check::Language].into_iter().filter(is_on).collect();
        let of_rows = [Check::Duplicate, Check::NearDuplicate, Check::Contamination];
        let of_rows =
            of_rows.into_iter().filter(is_on).filter(|check| keeps_out || *check != Check::Contamination).collect();
        Self {
            rules,
            ids: Ids::default(),
            prompts: HashSet::new(),
            earlier: [Earlier::default(), Earlier::default()],
            cells: BTreeMap::new(),
            named: Named::default(),
            ran: Ran { of_answers, of_rows },
        }
    }

    /// Settles the next drafts.
    ///
    /// # Errors
    /// A trace that appears twice.
    pub fn settle(&mut self, drafts: Vec<Draft>) -> Result<Built> {
        let mut built = Built { traces: drafts.len(), ..Built::default() };
        let mut named: Vec<(Draft, Named)> = Vec::with_capacity(drafts.len());
        for mut draft in drafts {
            self.ids.add(&draft.trace_id, &draft.source)?;
            if draft.held_out {
                built.held_out += 1;
                continue;
            }
            // A shard does not see the prompts of the others.
            if draft.prompt.is_some_and(|prompt| !self.prompts.insert(prompt)) {
                draft.rows = Rows::none(Reason::DuplicatePrompt);
            }
            self.compare(&mut draft.rows);
            self.cut(&draft.about, &mut draft.rows);
            let first = self.named.advance(&draft.rows);
            named.push((draft, first));
        }
        let ran = &self.ran;
        let parts: Vec<Built> =
            named.into_par_iter().map(|(draft, first)| first.name(draft, ran)).collect::<Result<_>>()?;
        for part in parts {
            built.append(part);
        }
        Ok(built)
    }

    /// Compares the rows of both stages with earlier ones; where one fails, the whole trace is out.
    fn compare(&mut self, rows: &mut Rows) {
        let Some(sft) = rows.sft.take() else { return };
        let mut stage = 0;
        let sft = sft.map(|(row, mark)| {
            let name = |number: usize| format!("sft:{}", 2 * number + stage);
            let row = row.after(&self.earlier[stage], &mark, name, self.rules.severities);
            stage += 1;
            (row, mark)
        });
        if sft.iter().all(|(row, _)| row.holds()) {
            for (earlier, (_, mark)) in self.earlier.iter_mut().zip(&sft) {
                earlier.add(mark);
            }
            rows.sft = Some(sft);
            return;
        }
        let failed = sft.into_iter().map(|(row, _)| row).find(|row| !row.holds());
        let failure = failed.map(|row| Failure::Sft(Box::new(row)));
        let mined = std::mem::take(&mut rows.mined);
        *rows =
            Rows { left_out: vec![LeftOut { kind: None, reason: Reason::Audit, failure }], mined, ..Rows::default() };
    }

    /// Leaves out the pairs whose cell is full.
    fn cut(&mut self, about: &About, rows: &mut Rows) {
        let Some(most) = self.rules.quota else { return };
        let mut kept = Vec::new();
        for pair in std::mem::take(&mut rows.pairs) {
            let Some(kind) = pair.row().kind else { continue };
            let count = self.cells.entry((kind, about.domain.code(), about.level())).or_default();
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
    fn name(self, draft: Draft, ran: &Ran) -> Result<Built> {
        let Draft { trace_id, about, rows, .. } = draft;
        let mut built = Built::default();
        for ((row, _), number) in rows.sft.into_iter().flatten().zip(self.sft..) {
            if let Admission::Passed(row, records) = row.admit(&format!("sft:{number}"))? {
                built.sft.push(row);
                built.pass(ran.of_rows.iter().chain(&ran.of_answers), records);
            }
        }
        for (pair, number) in rows.pairs.into_iter().zip(self.pairs..) {
            if let Admission::Passed(pair, records) = pair.admit(&format!("dpo:{number}"))? {
                built.pairs.push(pair);
                built.pass(&ran.of_answers, records);
            }
        }
        for (pair, number) in rows.selection_pairs.into_iter().zip(self.selection_pairs..) {
            if let Admission::Passed(pair, records) = pair.admit(&format!("dpo-selection:{number}"))? {
                built.selection_pairs.push(pair);
                built.pass([], records);
            }
        }
        for class in rows.mined {
            *built.mined.entry(class.name()).or_default() += 1;
        }
        for (left_out, number) in rows.left_out.into_iter().zip(self.quarantined..) {
            built.leave_out(&trace_id, left_out, format!("quarantine:{number}"))?;
        }
        if !built.sft.is_empty() {
            built.about.insert(trace_id, about);
        }
        Ok(built)
    }
}

impl Built {
    /// Takes the records of a row; a check that ran and left none holds.
    fn pass<'c>(&mut self, ran: impl IntoIterator<Item = &'c Check>, records: Vec<AuditRecord>) {
        for check in ran {
            if records.iter().all(|record| record.check != *check) {
                *self.passed.entry(*check).or_default() += 1;
            }
        }
        self.audits.extend(records);
    }

    fn leave_out(&mut self, trace_id: &str, left_out: LeftOut, name: String) -> Result<()> {
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
            trace_id: trace_id.to_owned(),
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
        self.about.append(&mut next.about);
        for (class, count) in next.mined {
            *self.mined.entry(class).or_default() += count;
        }
        for (check, count) in next.passed {
            *self.passed.entry(check).or_default() += count;
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
