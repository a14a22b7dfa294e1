//! Audits any SFT or DPO file, also one made elsewhere.
//!
//! In: a JSONL file, contracts and, where at hand, traces. Out: an [`Outcome`]: all records and a table by check. Rows without a
//! contract still get the checks that need none, and say so in a warning.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use serde::Serialize;

use crate::contract::Contract;
use crate::dataset::{Check, Message, Role, Severities};
use crate::error::{Error, Fault, Result};
use crate::run::jsonl;
use crate::trace::Trace;

use super::around::{prompts, spoken};
use super::form::Row;
use super::record::{Answer, AuditRecord, Finding, Verdict};
use super::set::{self, KeptOut, SetRow, SetSummary};
use super::{Ground, last_answer, pair_findings, sft_findings};

/// What an audit looks at beside the rows, and how much it weighs.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Held-out traces: no row may have their prompts.
    pub held_out: Vec<Trace>,
    /// Files of rows whose prompts no row may have.
    pub exclude: Vec<PathBuf>,
    /// Severities other than the usual ones.
    pub severity: Severities,
}

/// How often a check came out how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Held.
    pub pass: usize,
    /// Held with something to look at, or could not be checked.
    pub warn: usize,
    /// Did not hold.
    pub fail: usize,
}

impl Tally {
    /// Outcomes by check; checks that were never run are absent.
    pub fn table(records: &[AuditRecord]) -> BTreeMap<&'static str, Self> {
        let mut table: BTreeMap<&'static str, Self> = BTreeMap::new();
        for record in records {
            table.entry(record.check.name()).or_default().add(record.verdict);
        }
        table
    }

    /// Counts one more outcome.
    pub fn add(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Pass => self.pass += 1,
            Verdict::Warn => self.warn += 1,
            Verdict::Fail => self.fail += 1,
        }
    }
}

/// The audit of a file.
#[derive(Debug, Clone, Serialize)]
pub struct Outcome {
    /// Rows read.
    pub rows: usize,
    /// Rows with at least one failed check.
    pub failed_rows: usize,
    /// Rows whose trace has no contract here.
    pub without_contract: usize,
    /// Figures of the whole set.
    pub set: SetSummary,
    /// Outcomes by check.
    pub checks: BTreeMap<&'static str, Tally>,
    /// Every record, in the order of the rows.
    pub records: Vec<AuditRecord>,
}

/// Audits a file.
///
/// # Errors
/// An unreadable file, rows that are neither SFT nor DPO rows, no rows at all, a contract that does not validate.
pub fn audit(data: &Path, contracts: &[Contract], traces: &[Trace]) -> Result<Outcome> {
    audit_with(data, contracts, traces, &Options::default())
}

/// Audits a file with options.
///
/// # Errors
/// As [`audit`], and for excluded files.
pub fn audit_with(data: &Path, contracts: &[Contract], traces: &[Trace], options: &Options) -> Result<Outcome> {
    audit_rows(&read(data)?, contracts, traces, options)
}

/// [`audit_with`] over bytes; `place` names them in errors.
///
/// # Errors
/// As [`audit_with`].
pub fn audit_in(
    bytes: &[u8],
    place: &str,
    contracts: &[Contract],
    traces: &[Trace],
    options: &Options,
) -> Result<Outcome> {
    audit_rows(&parse(bytes, place)?, contracts, traces, options)
}

fn audit_rows(rows: &[Row], contracts: &[Contract], traces: &[Trace], options: &Options) -> Result<Outcome> {
    let known: Vec<&Contract> = contracts.iter().collect();
    let contracts: BTreeMap<&str, &Contract> =
        contracts.iter().filter_map(|contract| Some((contract.trace_id.as_deref()?, contract))).collect();
    let by_id: BTreeMap<&str, &Trace> = traces.iter().map(|trace| (trace.trace_id.as_str(), trace)).collect();
    let examined: Vec<(Option<&str>, bool, Vec<Finding>)> = rows
        .par_iter()
        .map(|row| {
            let trace_id = row.trace_id().or_else(|| trace_of(row.prompt(), traces));
            let contract = trace_id.and_then(|id| contracts.get(id).copied());
            let trace = trace_id.and_then(|id| by_id.get(id).copied());
            let ground = Ground::new(row.prompt(), contract, trace)?;
            let findings = match row {
                Row::Pair(pair) => pair_findings(pair, &ground),
                Row::Sft(row) => sft_findings(row, &ground),
            };
            Ok((trace_id, contract.is_some(), findings))
        })
        .collect::<Result<_>>()?;
    let set_rows: Vec<SetRow<'_>> =
        rows.iter().zip(&examined).map(|(row, (trace_id, _, _))| set_row(row, *trace_id)).collect();
    let (of_set, summary) = set::examine(&set_rows, &kept_out(options)?, &known)?;
    let mut outcome = Outcome::empty(rows.len(), summary);
    let mut by_row: BTreeMap<usize, Vec<Finding>> = BTreeMap::new();
    for (index, finding) in of_set {
        by_row.entry(index).or_default().push(finding);
    }
    for (index, (row, (trace_id, has_contract, mut findings))) in rows.iter().zip(examined).enumerate() {
        findings.extend(by_row.remove(&index).unwrap_or_default());
        let weighed = findings.into_iter().filter_map(|finding| {
            let severity = options.severity.get(finding.check);
            finding.weighed(severity)
        });
        outcome.without_contract += usize::from(!has_contract);
        outcome.add(weighed.collect(), &format!("{}:{index}", row.noun()), trace_id);
    }
    Ok(outcome)
}

fn read(data: &Path) -> Result<Vec<Row>> {
    let bytes = std::fs::read(data).map_err(|source| Error::read(data, source))?;
    parse(&bytes, &data.display().to_string())
}

fn parse(bytes: &[u8], place: &str) -> Result<Vec<Row>> {
    let values: Vec<serde_json::Value> = jsonl::parse(bytes, place)?;
    if values.is_empty() {
        return Err(Fault::new("no rows").at(place).expected("at least one SFT or DPO row").into());
    }
    let mut rows = Vec::with_capacity(values.len());
    let mut faults = Vec::new();
    for (index, value) in values.iter().enumerate() {
        match Row::read(value) {
            Some(row) => rows.push(row),
            None if faults.len() < 10 => faults.push(
                Fault::new("the row is neither an SFT nor a DPO row").at(format!("{place}, row {index}")).expected(
                    "`messages` or `conversations`, or `prompt` with `completion`, or `chosen` and `rejected`: chat turns or text",
                ),
            ),
            None => {}
        }
    }
    if faults.is_empty() { Ok(rows) } else { Err(Error::Invalid(faults)) }
}

/// The trace whose request a prompt holds, for rows that do not name it.
fn trace_of<'t>(prompt: &[Message], traces: &'t [Trace]) -> Option<&'t str> {
    let holds =
        |trace: &&Trace| prompt.iter().any(|turn| turn.role == Role::User && turn.content.contains(&trace.goal));
    traces.iter().find(holds).map(|trace| trace.trace_id.as_str())
}

fn set_row<'r>(row: &'r Row, trace_id: Option<&'r str>) -> SetRow<'r> {
    let answers = match row {
        Row::Pair(pair) => {
            vec![(Answer::Chosen, last_answer(&pair.chosen)), (Answer::Rejected, last_answer(&pair.rejected))]
        }
        Row::Sft(row) => vec![(Answer::Chosen, last_answer(&row.messages))],
    };
    SetRow { trace_id, prompt: spoken(row.prompt()), answers }
}

/// Prompts of both stages of the held-out traces, and those of the excluded files.
fn kept_out(options: &Options) -> Result<KeptOut> {
    let mut texts = Vec::new();
    for trace in &options.held_out {
        texts.extend(prompts(trace));
    }
    texts.extend(prompts_of(&options.exclude)?);
    Ok(KeptOut { texts })
}

/// The prompts of files of rows, of any form, without their instructions.
///
/// # Errors
/// As [`audit`] of each file.
pub fn prompts_of(files: &[PathBuf]) -> Result<Vec<String>> {
    let mut texts = Vec::new();
    for file in files {
        texts.extend(read(file)?.iter().map(|row| spoken(row.prompt())));
    }
    Ok(texts)
}

impl Outcome {
    fn empty(rows: usize, set: SetSummary) -> Self {
        Self {
            rows,
            failed_rows: 0,
            without_contract: 0,
            set,
            checks: Check::ALL.into_iter().map(|check| (check.name(), Tally::default())).collect(),
            records: Vec::new(),
        }
    }

    fn add(&mut self, findings: Vec<Finding>, row: &str, trace_id: Option<&str>) {
        let mut failed = false;
        for finding in findings {
            self.checks.entry(finding.check.name()).or_default().add(finding.verdict);
            failed |= finding.verdict == Verdict::Fail;
            self.records.push(finding.record(row, trace_id));
        }
        self.failed_rows += usize::from(failed);
    }

    /// A table by check, then the first rows that fail.
    pub fn table(&self) -> String {
        let mut lines = vec![format!("{:<16}{:>7}{:>7}{:>7}", "check", "pass", "warn", "fail")];
        for check in Check::ALL {
            let tally = self.checks.get(check.name()).copied().unwrap_or_default();
            if tally != Tally::default() {
                lines.push(format!("{:<16}{:>7}{:>7}{:>7}", check.name(), tally.pass, tally.warn, tally.fail));
            }
        }
        lines.push(format!(
            "{} rows, {} with a failed check, {} without a contract",
            self.rows, self.failed_rows, self.without_contract
        ));
        if let Some(top) = self.set.top_frame {
            let (frames, answers) = (self.set.frames, self.set.answers);
            lines.push(format!(
                "{answers} better answers in {frames} frames; the most frequent has {:.1}%",
                100.0 * top
            ));
        }
        for record in self.records.iter().filter(|record| record.verdict == Verdict::Fail).take(10) {
            let reason = record.reason.as_deref().unwrap_or_default();
            lines.push(format!("  {} {}: {reason}", record.row, record.check.name()));
        }
        lines.join("\n")
    }
}
