//! Audits any SFT or DPO file, also one made elsewhere.
//!
//! In: a JSONL file, contracts and, where at hand, traces. Out: an [`Outcome`]: all records and a table by check. Rows without a
//! contract still get the checks that need none, and say so in a warning.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::contract::Contract;
use crate::dataset::{Message, PreferencePair, SftRow};
use crate::error::{Error, Fault, Result};
use crate::run::jsonl;
use crate::trace::Trace;

use super::record::{AuditRecord, Check, Finding, Verdict};
use super::{Ground, pair_findings, prompt_of, sft_findings};

/// Either kind of row, told apart by its keys.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Row {
    Pair(PreferencePair),
    Sft(SftRow),
    /// TRL's form of an SFT row.
    Completion {
        prompt: Vec<Message>,
        completion: Vec<Message>,
        #[serde(default)]
        trace_id: Option<String>,
    },
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

/// The audit of a file.
#[derive(Debug, Clone, Serialize)]
pub struct Outcome {
    /// Rows read.
    pub rows: usize,
    /// Rows with at least one failed check.
    pub failed_rows: usize,
    /// Rows whose trace has no contract here.
    pub without_contract: usize,
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
    let rows = read(data)?;
    let contracts: BTreeMap<&str, &Contract> =
        contracts.iter().filter_map(|contract| Some((contract.trace_id.as_deref()?, contract))).collect();
    let traces: BTreeMap<&str, &Trace> = traces.iter().map(|trace| (trace.trace_id.as_str(), trace)).collect();
    let mut outcome = Outcome {
        rows: rows.len(),
        failed_rows: 0,
        without_contract: 0,
        checks: Check::ALL.into_iter().map(|check| (check.name(), Tally::default())).collect(),
        records: Vec::new(),
    };
    for (index, row) in rows.iter().enumerate() {
        let trace_id = row.trace_id();
        let contract = trace_id.and_then(|id| contracts.get(id).copied());
        let ground = Ground::new(row.prompt(), contract, trace_id.and_then(|id| traces.get(id).copied()))?;
        outcome.without_contract += usize::from(contract.is_none());
        outcome.add(row.findings(&ground), &format!("{}:{index}", row.noun()), trace_id);
    }
    Ok(outcome)
}

fn read(data: &Path) -> Result<Vec<Row>> {
    // The untagged form says nothing of what is wrong with a row, so rows are read as values first.
    let values: Vec<serde_json::Value> = jsonl::read(data)?;
    if values.is_empty() {
        return Err(Fault::new("no rows").at(data.display()).expected("at least one SFT or DPO row").into());
    }
    let mut rows = Vec::with_capacity(values.len());
    let mut faults = Vec::new();
    for (index, value) in values.into_iter().enumerate() {
        match serde_json::from_value(value) {
            Ok(row) => rows.push(row),
            Err(_) if faults.len() < 10 => faults.push(
                Fault::new("the row is neither an SFT nor a DPO row")
                    .at(format!("{}, row {index}", data.display()))
                    .expected("`messages`, or `prompt` with `completion`, or `prompt`, `chosen` and `rejected`: lists of chat turns"),
            ),
            Err(_) => {}
        }
    }
    if faults.is_empty() { Ok(rows) } else { Err(Error::Invalid(faults)) }
}

impl Row {
    fn noun(&self) -> &'static str {
        match self {
            Self::Pair(_) => "dpo",
            Self::Sft(_) | Self::Completion { .. } => "sft",
        }
    }

    fn trace_id(&self) -> Option<&str> {
        match self {
            Self::Pair(pair) => pair.trace_id.as_deref(),
            Self::Sft(row) => row.trace_id.as_deref(),
            Self::Completion { trace_id, .. } => trace_id.as_deref(),
        }
    }

    fn prompt(&self) -> &[Message] {
        match self {
            Self::Pair(pair) => &pair.prompt,
            Self::Sft(row) => prompt_of(&row.messages),
            Self::Completion { prompt, .. } => prompt,
        }
    }

    fn findings(&self, ground: &Ground<'_>) -> Vec<Finding> {
        match self {
            Self::Pair(pair) => pair_findings(pair, ground),
            Self::Sft(row) => sft_findings(row, ground),
            Self::Completion { completion, .. } => sft_findings(
                &SftRow {
                    messages: completion.clone(),
                    trace_id: None,
                    split: None,
                    writer: None,
                    stage: None,
                    audit: None,
                },
                ground,
            ),
        }
    }
}

impl Outcome {
    fn add(&mut self, findings: Vec<Finding>, row: &str, trace_id: Option<&str>) {
        let mut failed = false;
        for finding in findings {
            let tally = self.checks.entry(finding.check.name()).or_default();
            match finding.verdict {
                Verdict::Pass => tally.pass += 1,
                Verdict::Warn => tally.warn += 1,
                Verdict::Fail => tally.fail += 1,
            }
            failed |= finding.verdict == Verdict::Fail;
            self.records.push(finding.record(row, trace_id));
        }
        self.failed_rows += usize::from(failed);
    }

    /// A table by check, then the first rows that fail.
    pub fn table(&self) -> String {
        let mut lines = vec![format!("{:<14}{:>7}{:>7}{:>7}", "check", "pass", "warn", "fail")];
        for check in Check::ALL {
            let tally = self.checks.get(check.name()).copied().unwrap_or_default();
            if tally != Tally::default() {
                lines.push(format!("{:<14}{:>7}{:>7}{:>7}", check.name(), tally.pass, tally.warn, tally.fail));
            }
        }
        lines.push(format!(
            "{} rows, {} with a failed check, {} without a contract",
            self.rows, self.failed_rows, self.without_contract
        ));
        for record in self.records.iter().filter(|record| record.verdict == Verdict::Fail).take(10) {
            let reason = record.reason.as_deref().unwrap_or_default();
            lines.push(format!("  {} {}: {reason}", record.row, record.check.name()));
        }
        lines.join("\n")
    }
}
