//! Which traces can be trained on, and why the others cannot.
//!
//! In: traces in order, contracts, the split. Out: a contract for each usable trace, or a [`Reason`].

use std::collections::{BTreeMap, BTreeSet};

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
    /// The audit failed.
    Audit,
    /// No wording states the conclusion so that the adjudicator finds it.
    NoLeakWording,
    /// The results hold nothing beyond what the task needs.
    NoFragment,
    /// No answer of this kind.
    NoDraft,
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
            Self::Audit => "audit",
            Self::NoLeakWording => "no-leak-wording",
            Self::NoFragment => "no-fragment",
            Self::NoDraft => "no-draft",
            Self::OverQuota => "over-quota",
        }
    }
}

/// Passes traces in order; what it has passed decides what comes later.
#[derive(Debug)]
pub(super) struct Gate<'a> {
    contracts: BTreeMap<&'a str, &'a Contract>,
    parts: &'a BTreeMap<String, Part>,
    prompts: BTreeSet<String>,
    held_out_prompts: BTreeSet<String>,
}

impl<'a> Gate<'a> {
    pub fn new(traces: &[Trace], contracts: &'a [Contract], parts: &'a BTreeMap<String, Part>) -> Self {
        let held_out = traces.iter().filter(|trace| parts.get(&trace.trace_id) == Some(&Part::HeldOut));
        Self {
            contracts: contracts
                .iter()
                .filter_map(|contract| Some((contract.trace_id.as_deref()?, contract)))
                .collect(),
            parts,
            prompts: BTreeSet::new(),
            held_out_prompts: held_out.map(prompt_digest).collect(),
        }
    }

    pub fn is_held_out(&self, trace: &Trace) -> bool {
        self.parts.get(&trace.trace_id) == Some(&Part::HeldOut)
    }

    /// The contract, if the trace can be trained on.
    pub fn pass(&mut self, trace: &Trace) -> Result<&'a Contract, Reason> {
        if !self.parts.is_empty() && !self.parts.contains_key(&trace.trace_id) {
            return Err(Reason::NotInSplit);
        }
        if trace.variant != Variant::Base {
            return Err(Reason::PairedVariant);
        }
        let contract = self.contracts.get(trace.trace_id.as_str()).copied().ok_or(Reason::NoContract)?;
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
        if self.prompts.insert(prompt) { Ok(contract) } else { Err(Reason::DuplicatePrompt) }
    }
}

pub(super) fn essential_ids(trace: &Trace) -> Vec<String> {
    trace.essential_tools().map(|tool| tool.tool_id.clone()).collect()
}

fn prompt_digest(trace: &Trace) -> String {
    let prompt = response_messages(trace, &essential_ids(trace), Mitigation::None);
    let text: String = prompt.iter().map(|turn| turn.content.to_lowercase()).collect();
    digest::of_bytes(text.as_bytes())
}
