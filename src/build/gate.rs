//! Which traces can be trained on, and why the others cannot.
//!
//! In: traces in order, contracts, the split. Out: a contract for each usable trace, or a [`Reason`]. Only whether an earlier trace has
//! the same prompt depends on other traces.

use std::collections::{BTreeMap, HashSet};

use serde::{Deserialize, Serialize};

use crate::contract::{self, Contract};
use crate::prompt::{Mitigation, response_messages};
use crate::run::digest;
use crate::trace::{Flag, Part, Trace, Variant};

/// Why something was left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// No contract for the trace.
    NoContract,
    /// The contract names no required value, so completeness cannot be checked.
    NoRequiredValue,
    /// The success criteria demand what the disclosure criteria forbid.
    Conflict,
    /// A paired variant of a trace: its prompt or labels are those of the base trace.
    PairedVariant,
    /// The split does not name the trace.
    NotInSplit,
    /// An answer could name values of fewer than two of the tools: too thin to be of use.
    ThinAnswer,
    /// The same prompt as an earlier trace.
    DuplicatePrompt,
    /// The same prompt as a held-out trace.
    HeldOutPrompt,
    /// Nearly the prompt of a held-out trace, or that of an excluded row, exactly or nearly.
    KeptOutPrompt,
    /// The audit failed.
    Audit,
    /// No wording states the conclusion so that the adjudicator finds it.
    NoLeakWording,
    /// The results hold nothing beyond what the task needs.
    NoFragment,
    /// No answer of this kind.
    NoDraft,
    /// The writing model gave no usable reply: the same command asks it again.
    NoAnswer,
    /// The cell of kind, domain and difficulty is full.
    OverQuota,
}

impl Reason {
    /// The name in files and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::NoContract => "no-contract",
            Self::NoRequiredValue => "no-required-value",
            Self::Conflict => "conflict",
            Self::PairedVariant => "paired-variant",
            Self::NotInSplit => "not-in-split",
            Self::ThinAnswer => "thin-answer",
            Self::DuplicatePrompt => "duplicate-prompt",
            Self::HeldOutPrompt => "held-out-prompt",
            Self::KeptOutPrompt => "kept-out-prompt",
            Self::Audit => "audit",
            Self::NoLeakWording => "no-leak-wording",
            Self::NoFragment => "no-fragment",
            Self::NoDraft => "no-draft",
            Self::NoAnswer => "no-answer",
            Self::OverQuota => "over-quota",
        }
    }
}

/// Passes traces in order; what it has passed decides what comes later. Of prompts it holds digests.
#[derive(Debug)]
pub(super) struct Gate<'a> {
    parts: &'a BTreeMap<String, Part>,
    prompts: HashSet<[u8; 16]>,
    held_out_prompts: HashSet<[u8; 16]>,
}

impl<'a> Gate<'a> {
    pub fn new(parts: &'a BTreeMap<String, Part>) -> Self {
        Self { parts, prompts: HashSet::new(), held_out_prompts: HashSet::new() }
    }

    /// Notes the prompt of a trace that is held out.
    pub fn hold_out(&mut self, trace: &Trace) {
        if self.is_held_out(trace) {
            self.held_out_prompts.insert(prompt_digest(trace));
        }
    }

    pub fn is_held_out(&self, trace: &Trace) -> bool {
        self.parts.get(&trace.trace_id) == Some(&Part::HeldOut)
    }

    /// The contract, if the trace can be trained on.
    pub fn pass<'c>(&mut self, trace: &Trace, contract: Option<&'c Contract>) -> Result<&'c Contract, Reason> {
        let passage = self.examine(trace, contract)?;
        self.first(passage).map(|passage| passage.contract)
    }

    /// What the trace and the split decide, whatever came before.
    pub fn examine<'c>(&self, trace: &Trace, contract: Option<&'c Contract>) -> Result<Passage<'c>, Reason> {
        if !self.parts.is_empty() && !self.parts.contains_key(&trace.trace_id) {
            return Err(Reason::NotInSplit);
        }
        if trace.variant != Variant::Base {
            return Err(Reason::PairedVariant);
        }
        let contract = contract.ok_or(Reason::NoContract)?;
        // Not every reader has derived a contract yet, so the flag may not stand on the trace. Declared truth has no conflict.
        let is_declared = trace.truth.as_ref().is_some_and(|truth| !truth.required.is_empty());
        let conflicts = |flags: &[Flag]| flags.contains(&Flag::Conflict);
        if conflicts(&trace.flags) || (!is_declared && conflicts(&contract::derive(trace).flags)) {
            return Err(Reason::Conflict);
        }
        if contract.required.is_empty() {
            return Err(Reason::NoRequiredValue);
        }
        let prompt = prompt_digest(trace);
        if self.held_out_prompts.contains(&prompt) {
            return Err(Reason::HeldOutPrompt);
        }
        Ok(Passage { contract, prompt })
    }

    /// Of traces with one prompt the first passes.
    pub fn first<'c>(&mut self, passage: Passage<'c>) -> Result<Passage<'c>, Reason> {
        if self.prompts.insert(passage.prompt) { Ok(passage) } else { Err(Reason::DuplicatePrompt) }
    }
}

/// A trace that can be trained on if none before has its prompt.
#[derive(Debug, Clone, Copy)]
pub(super) struct Passage<'c> {
    pub contract: &'c Contract,
    /// Digest of the prompt.
    pub prompt: [u8; 16],
}

pub(super) fn essential_ids(trace: &Trace) -> Vec<String> {
    trace.essential_tools().map(|tool| tool.tool_id.clone()).collect()
}

fn prompt_digest(trace: &Trace) -> [u8; 16] {
    let prompt = response_messages(trace, &essential_ids(trace), Mitigation::None);
    let text: String = prompt.iter().map(|turn| turn.content.to_lowercase()).collect();
    digest::short(text.as_bytes())
}
