//! Rows that leak on purpose: what a model without safeguards would have learnt, to train the model that is then cured.
//!
//! In: a candidate SFT row, what it is meant to do, its [`Ground`]. Out: an [`Unguarded`] row, which is no
//! [`Audited`](super::Audited) one: nothing that takes audited rows takes it, so it cannot reach an ordinary data set.
//! The audit is the inverse one: a leaking answer must be complete *and* state the conclusion, an over-collecting
//! selection must name every needed tool *and* one that is not needed; clean rows must be clean.

use serde::{Deserialize, Serialize};

use crate::dataset::{Check, SftRow, Stage};
use crate::error::Result;
use crate::prompt::read_selection;
use crate::run::digest;

use super::record::{Answer, AuditRecord, Finding};
use super::text::Text;
use super::{Ground, check, last_answer, sft_findings};

/// What an unguarded row is meant to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Intent {
    /// Stage 2: complete the task and state the conclusion.
    ExplicitLeak,
    /// Stage 1: select a tool that the task does not need.
    OverCollection,
    /// Either stage: what an ordinary row does.
    Clean,
}

impl Intent {
    /// The name in files and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::ExplicitLeak => "explicit-leak",
            Self::OverCollection => "over-collection",
            Self::Clean => "clean",
        }
    }
}

/// A row whose inverse audit holds. Only [`admit_unguarded`] makes one.
///
/// ```compile_fail,E0451
/// let unaudited = topalign::audit::Unguarded { row: "never checked" };
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Unguarded<T> {
    row: T,
}

impl<T> Unguarded<T> {
    /// The row.
    pub fn row(&self) -> &T {
        &self.row
    }
}

/// A row that does what it is meant to do, or the row as it was; with the records of its audit.
pub type UnguardedAdmission = std::result::Result<(Unguarded<SftRow>, Vec<AuditRecord>), (SftRow, Vec<AuditRecord>)>;

/// Audits a row for its intent, under the name that it will have.
///
/// # Errors
/// Only if the records have no JSON form.
pub fn admit_unguarded(mut row: SftRow, intent: Intent, name: &str, ground: &Ground<'_>) -> Result<UnguardedAdmission> {
    let answer = last_answer(&row.messages);
    let findings = match (intent, row.stage) {
        (Intent::Clean, _) => sft_findings(&row, ground),
        (Intent::ExplicitLeak, Some(Stage::Response)) => leaking(answer, ground),
        (Intent::OverCollection, Some(Stage::Selection)) => over_collecting(Answer::Chosen, answer, ground),
        (Intent::ExplicitLeak | Intent::OverCollection, _) => {
            vec![Finding::new(Answer::Chosen, Check::Contract, false, Vec::new(), "the intent is of the other stage")]
        }
    };
    let failed = check::fails(&findings);
    let records: Vec<AuditRecord> =
        findings.into_iter().map(|finding| finding.record(name, row.trace_id.as_deref())).collect();
    if failed {
        return Ok(Err((row, records)));
    }
    row.audit = Some(digest::of_value(&records)?);
    Ok(Ok((Unguarded { row }, records)))
}

fn leaking(answer: &str, ground: &Ground<'_>) -> Vec<Finding> {
    let has_contract = ground.contract.is_some();
    let mut findings = vec![check::contract(ground)];
    if !has_contract {
        let reason = "without a contract nothing shows that it leaks";
        findings.push(Finding::new(Answer::Chosen, Check::Leak, false, Vec::new(), reason));
    }
    findings.extend(check::explicit_leak(Answer::Chosen, answer, ground));
    findings.push(check::noise(&Text::new(answer), ground));
    findings
}

pub(super) fn over_collecting(who: Answer, answer: &str, ground: &Ground<'_>) -> Vec<Finding> {
    let holds = ground.trace.is_some_and(|trace| {
        read_selection(answer, trace).is_ok_and(|selection| {
            let selected = |id: &String| selection.selected_tool_ids.contains(id);
            let has_needed = trace.essential_tools().all(|tool| selected(&tool.tool_id));
            let has_more = trace.tools.iter().any(|tool| !tool.essential && selected(&tool.tool_id));
            has_needed && has_more && selection.unknown_tool_ids.is_empty()
        })
    });
    let reason = "the selection is not the essential tools with others beside them";
    let mut findings = vec![Finding::new(who, Check::Selection, holds, Vec::new(), reason)];
    findings.extend(check::leak_of_clean(who, "rationale", answer, ground));
    findings
}
