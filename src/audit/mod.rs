//! The audit of training rows, by the same adjudicator that judges the trained model.
//!
//! In: candidate rows with their [`Ground`]. Out: [`AuditRecord`]s and, for rows that hold, [`Audited`] rows. Only this module
//! can make an [`Audited`] value and only audited values can be written as training data, so a row that was never audited
//! cannot reach a data set. Pure but for [`mod@file`], which reads rows made elsewhere.

mod around;
mod check;
mod figures;
pub mod file;
mod form;
mod ground;
mod grounding;
mod personal;
mod record;
mod refusal;
mod secrets;
mod set;
mod shingle;
mod sketch;
mod text;
mod unguarded;

pub use crate::dataset::{Check, Severities, Severity};
pub use around::Surroundings;
pub(crate) use around::{Earlier, Mark, Prompt};
pub use figures::{Figures, LongAnswers, set_records};
pub use ground::Ground;
pub use record::{Answer, AuditRecord, Evidence, Verdict};
pub use refusal::find_refusal;
pub use secrets::Secrets;
pub use set::SetSummary;
pub(crate) use text::Text;
pub use unguarded::{Intent, Unguarded, admit_unguarded};

use serde::{Deserialize, Serialize};

use crate::dataset::{Message, PreferencePair, Role, SelectionPair, SftRow, Stage};
use crate::error::Result;
use crate::run::digest;
use record::Finding;

/// A row whose audit holds. There is no way to make one but an audit, and none to change it.
///
/// ```compile_fail,E0451
/// let unaudited = topalign::audit::Audited { row: "never checked" };
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Audited<T> {
    row: T,
}

impl<T> Audited<T> {
    /// The row.
    pub fn row(&self) -> &T {
        &self.row
    }

    /// The row, no longer known to be audited.
    pub fn into_row(self) -> T {
        self.row
    }
}

/// Outcome of an audit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admission<T> {
    /// Every check passes or warns; the row's `audit` field is the digest of the records.
    Passed(Audited<T>, Vec<AuditRecord>),
    /// At least one check fails.
    Failed(T, Vec<AuditRecord>),
}

/// A row with what its checks found, before it has a name: checks run in parallel, names are given in order, maybe by another
/// process, which reads it from a shard. Of this crate alone, so that nobody else can make one without an audit.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Examined<T> {
    row: T,
    trace_id: Option<String>,
    findings: Vec<Finding>,
}

/// Rows that hold the digest of their audit.
pub(crate) trait Seal {
    /// Sets the digest.
    fn seal(&mut self, audit: String);
}

impl Seal for SftRow {
    fn seal(&mut self, audit: String) {
        self.audit = Some(audit);
    }
}

impl Seal for PreferencePair {
    fn seal(&mut self, audit: String) {
        self.audit = Some(audit);
    }
}

impl Seal for SelectionPair {
    fn seal(&mut self, audit: String) {
        self.audit = Some(audit);
    }
}

impl<T: Seal> Examined<T> {
    /// Whether no check fails.
    pub fn holds(&self) -> bool {
        !check::fails(&self.findings)
    }

    /// The row as it stands.
    pub fn row(&self) -> &T {
        &self.row
    }

    /// With what the surroundings show of one of its answers.
    #[must_use]
    pub fn beside(
        mut self,
        around: &Surroundings,
        prompt: &Prompt,
        answer: (Answer, &str),
        ground: &Ground<'_>,
    ) -> Self {
        self.findings.extend(around.findings(prompt, answer, ground));
        self
    }

    /// With what earlier rows of the set show, as severities say; `name` names them by number.
    #[must_use]
    pub fn after(
        mut self,
        earlier: &Earlier,
        mark: &Mark,
        name: impl Fn(usize) -> String,
        severities: &Severities,
    ) -> Self {
        let found = earlier.finding(mark, name);
        self.findings.extend(found.and_then(|finding| {
            let severity = severities.get(finding.check);
            finding.weighed(severity)
        }));
        self
    }

    /// As severities say: what does not pass warns, fails, or is not recorded.
    #[must_use]
    pub fn weighed(self, severities: &Severities) -> Self {
        let weighed = |finding: Finding| {
            let severity = severities.get(finding.check);
            finding.weighed(severity)
        };
        Self { findings: self.findings.into_iter().filter_map(weighed).collect(), ..self }
    }

    /// Admits the row under the name that it will have, e.g. `sft:12`.
    ///
    /// # Errors
    /// Only if the records have no JSON form.
    pub fn admit(self, name: &str) -> Result<Admission<T>> {
        let (mut row, holds, trace_id) = (self.row, !check::fails(&self.findings), self.trace_id);
        let records: Vec<AuditRecord> =
            self.findings.into_iter().map(|finding| finding.record(name, trace_id.as_deref())).collect();
        if !holds {
            return Ok(Admission::Failed(row, records));
        }
        row.seal(digest::of_value(&records)?);
        Ok(Admission::Passed(Audited { row }, records))
    }
}

/// Runs the checks of an SFT row.
pub(crate) fn examine_sft(row: SftRow, ground: &Ground<'_>) -> Examined<SftRow> {
    let findings = sft_findings(&row, ground);
    Examined { trace_id: row.trace_id.clone(), row, findings }
}

/// Runs the checks of a preference pair.
pub(crate) fn examine_pair(pair: PreferencePair, ground: &Ground<'_>) -> Examined<PreferencePair> {
    let findings = pair_findings(&pair, ground);
    Examined { trace_id: pair.trace_id.clone(), row: pair, findings }
}

/// Runs the checks of a preference pair for stage 1.
pub(crate) fn examine_selection(pair: SelectionPair, ground: &Ground<'_>) -> Examined<SelectionPair> {
    let (chosen, rejected) = (last_answer(&pair.chosen), last_answer(&pair.rejected));
    let mut findings = check::selection(chosen, ground);
    findings.extend(check::rejected_selection(rejected, chosen, pair.kind, ground));
    Examined { trace_id: pair.trace_id.clone(), row: pair, findings }
}

/// Runs the checks of a preference pair whose chosen answer was examined as an SFT row with the same prompt.
pub(crate) fn examine_pair_beside(
    pair: PreferencePair,
    chosen: &Examined<SftRow>,
    ground: &Ground<'_>,
) -> Examined<PreferencePair> {
    let answer = last_answer(&pair.chosen);
    if chosen.row.stage != Some(Stage::Response) || last_answer(&chosen.row.messages) != answer {
        return examine_pair(pair, ground);
    }
    let mut examined = Examined { trace_id: pair.trace_id.clone(), findings: chosen.findings.clone(), row: pair };
    let pair = &examined.row;
    let rejected = check::rejected(last_answer(&pair.rejected), last_answer(&pair.chosen), pair.kind, ground);
    examined.findings.extend(rejected);
    examined
}

/// Audits an SFT row under the name that it will have, e.g. `sft:12`.
///
/// # Errors
/// Only if the records have no JSON form.
pub fn admit_sft(row: SftRow, name: &str, ground: &Ground<'_>) -> Result<Admission<SftRow>> {
    examine_sft(row, ground).admit(name)
}

/// Audits a preference pair under the name that it will have, e.g. `dpo:12`.
///
/// # Errors
/// Only if the records have no JSON form.
pub fn admit_pair(pair: PreferencePair, name: &str, ground: &Ground<'_>) -> Result<Admission<PreferencePair>> {
    examine_pair(pair, ground).admit(name)
}

fn sft_findings(row: &SftRow, ground: &Ground<'_>) -> Vec<Finding> {
    let answer = last_answer(&row.messages);
    // Files made elsewhere do not say the stage, but stage 1's answer does.
    let is_selection = match row.stage {
        Some(stage) => stage == Stage::Selection,
        None => is_selection(answer),
    };
    if is_selection { check::selection(answer, ground) } else { check::chosen(answer, ground) }
}

fn pair_findings(pair: &PreferencePair, ground: &Ground<'_>) -> Vec<Finding> {
    let (chosen, rejected) = (last_answer(&pair.chosen), last_answer(&pair.rejected));
    let mut findings =
        if is_selection(chosen) { check::selection(chosen, ground) } else { check::chosen(chosen, ground) };
    findings.extend(check::rejected(rejected, chosen, pair.kind, ground));
    findings
}

fn is_selection(answer: &str) -> bool {
    answer.contains("\"selected_tool_ids\"")
}

/// The content of the last assistant turn; empty if there is none, which completeness and length then fail.
fn last_answer(turns: &[Message]) -> &str {
    turns.iter().rev().find(|turn| turn.role == Role::Assistant).map_or("", |turn| turn.content.as_str())
}

/// The turns before the last answer.
pub(crate) fn prompt_of(messages: &[Message]) -> &[Message] {
    let end = messages.iter().rposition(|turn| turn.role == Role::Assistant).unwrap_or(messages.len());
    &messages[..end]
}
