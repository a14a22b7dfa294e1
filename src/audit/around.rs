//! What a row is held against beside its own ground, while a data set of any size grows: texts that were kept out, private values of
//! other traces, earlier rows.
//!
//! In: prompts kept out, contracts of all traces, then rows. Out: findings. What grows with the number of traces are digests,
//! sketches and hashes.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::Ground;
use super::personal::{is_english, unknown_personal};
use super::record::{Answer, Evidence, Finding};
use super::secrets::Secrets;
use super::set::NEAR;
use super::shingle::key;
use super::sketch::{Sketch, Sketches};
use super::text::Text;
use crate::dataset::{Check, Message, Role, Severities, Severity};
use crate::prompt::{Mitigation, response_messages, selection_messages};
use crate::run::digest;
use crate::trace::Trace;

/// The turns of a prompt that a data set's rows do not all share.
pub(crate) fn spoken(turns: &[Message]) -> String {
    let turns: Vec<&str> =
        turns.iter().filter(|turn| turn.role != Role::System).map(|turn| turn.content.as_str()).collect();
    turns.join("\n")
}

/// The prompts of both stages of a trace, as rows have them.
pub(super) fn prompts(trace: &Trace) -> [String; 2] {
    let ids: Vec<String> = trace.essential_tools().map(|tool| tool.tool_id.clone()).collect();
    let messages = [selection_messages(trace, Mitigation::None), response_messages(trace, &ids, Mitigation::None)];
    messages.map(|messages| spoken(&messages))
}

/// Texts that were kept out, and private values of all traces.
#[derive(Debug, Default)]
pub struct Surroundings {
    kept_out: Sketches,
    secrets: Secrets,
}

/// A row's prompt as the surroundings see it.
#[derive(Debug)]
pub(crate) struct Prompt {
    text: String,
    is_kept_out: bool,
}

impl Surroundings {
    /// No row may have these prompts, exactly or nearly.
    pub fn keep_out<'t>(&mut self, prompts: impl IntoIterator<Item = &'t str>) {
        prompts.into_iter().for_each(|prompt| self.kept_out.add(Sketch::of(prompt)));
    }

    /// No row may have the prompts of this trace.
    pub fn hold_out(&mut self, trace: &Trace) {
        self.keep_out(prompts(trace).iter().map(String::as_str));
    }

    /// No answer may hold private values of another trace than its own.
    pub fn know(&mut self, secrets: Secrets) {
        self.secrets = secrets;
    }

    /// A prompt, compared with those that were kept out.
    pub(crate) fn prompt(&self, turns: &[Message]) -> Prompt {
        let text = spoken(turns);
        let is_kept_out = !self.kept_out.is_empty() && self.kept_out.like(&Sketch::of(&text), NEAR).is_some();
        Prompt { text, is_kept_out }
    }

    /// What one answer shows beside its prompt.
    pub(super) fn findings(&self, prompt: &Prompt, (who, answer): (Answer, &str), ground: &Ground<'_>) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut add = |check, evidence: Vec<Evidence>, reason: &str| {
            if !evidence.is_empty() {
                findings.push(Finding::new(who, check, false, evidence, reason));
            }
        };
        let personal = unknown_personal(answer, |value| Text::new(prompt.text.as_str()).holds(value));
        let evidence = personal.iter().map(Evidence::at).collect();
        add(Check::Personal, evidence, "personal data that stands nowhere in the prompt");
        let own = ground.contract.as_ref().map(|(contract, _)| *contract);
        let foreign = self.secrets.foreign(answer, own, &prompt.text);
        let evidence = foreign.iter().map(Evidence::at).collect();
        add(Check::ForeignSecret, evidence, "a private value of another trace appears");
        if prompt.is_kept_out && who == Answer::Chosen {
            let reason = "the prompt is, or nearly is, one that was kept out";
            findings.push(Finding::new(who, Check::Contamination, false, Vec::new(), reason));
        }
        if !is_english(answer) && is_english(&prompt.text) {
            findings.push(Finding::warn(who, Check::Language, Vec::new(), "not in the language of the prompt"));
        }
        findings
    }
}

impl Prompt {
    /// Whether no row may have it, as severities say.
    pub fn is_refused(&self, severities: &Severities) -> bool {
        self.is_kept_out && severities.get(Check::Contamination).is_none_or(|severity| severity == Severity::Fail)
    }
}

/// By what a row is known again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mark {
    key: [u8; 16],
    sketch: Sketch,
}

impl Mark {
    /// Of a prompt with its answer.
    pub fn of(turns: &[Message]) -> Self {
        let text = spoken(turns);
        Self { key: digest::short(key(&text).as_bytes()), sketch: Sketch::of(&text) }
    }
}

/// The rows of one stage before the next.
#[derive(Debug, Default)]
pub(crate) struct Earlier {
    keys: HashMap<[u8; 16], u32>,
    sketches: Sketches,
    count: u32,
}

impl Earlier {
    /// Whether a row is one of them, or nearly; `name` names them by number.
    pub(super) fn finding(&self, mark: &Mark, name: impl Fn(usize) -> String) -> Option<Finding> {
        let chosen = Answer::Chosen;
        if let Some(first) = self.keys.get(&mark.key) {
            let reason = format!("the same row as {}", name(*first as usize));
            return Some(Finding::new(chosen, Check::Duplicate, false, Vec::new(), reason));
        }
        let near = self.sketches.like(&mark.sketch, NEAR)?;
        let reason = format!("nearly the same as {}", name(near));
        Some(Finding::warn(chosen, Check::NearDuplicate, Vec::new(), reason))
    }

    /// Takes the next row in.
    pub fn add(&mut self, mark: &Mark) {
        self.keys.entry(mark.key).or_insert(self.count);
        self.sketches.add(mark.sketch);
        self.count += 1;
    }
}
