//! Audited training rows out of traces and contracts.
//!
//! In: traces, their contracts, the split, a writer and a seed. Out: [`Built`]: SFT rows for both stages and preference pairs
//! that passed the audit, every audit record, and what was left out with its reason. Pure; [`write()`] puts it into a folder.

mod card;
mod count;
mod fact;
mod fit;
mod frame;
mod label;
mod note;
mod phrase;
mod propose;
mod scene;
mod template;
mod write;

pub use count::Counts;
pub use propose::{Drawing, Wanted, propose};
pub use write::{Inputs, write};

use std::collections::{BTreeMap, BTreeSet};

use rand::seq::SliceRandom as _;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::audit::{Admission, AuditRecord, Audited, Check, Ground, Verdict, admit_pair, admit_sft};
use crate::contract::{self, Contract};
use crate::dataset::{Message, PairKind, Part, PreferencePair, SftRow, Stage};
use crate::error::Result;
use crate::prompt::{Mitigation, response_messages, selection_answer, selection_messages};
use crate::run::digest;
use crate::run::seed::Seed;
use crate::trace::{Flag, Trace, Variant};

use frame::Frame;
use scene::Scene;
use template::Draft;

/// Tools whose values an answer names at least: a request over several tools is not answered by one of them.
const LEAST_TOOLS: usize = 2;

/// Drafts of one rejected answer before it is given up.
const TRIES: usize = 6;

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

/// What a build gave.
#[derive(Debug, Clone, Default)]
pub struct Built {
    /// SFT rows, stage 1 before stage 2, in the order of the traces.
    pub sft: Vec<Audited<SftRow>>,
    /// Preference pairs for stage 2, in the order of the traces and of [`PairKind::ALL`].
    pub pairs: Vec<Audited<PreferencePair>>,
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
        }
    }
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
    let mut builder = Builder {
        contracts: contracts.iter().filter_map(|contract| Some((contract.trace_id.as_deref()?, contract))).collect(),
        parts,
        writer: *writer,
        seed,
        prompts: BTreeSet::new(),
        held_out_prompts: BTreeSet::new(),
        failed: Vec::new(),
        built: Built { traces: traces.len(), ..Built::default() },
    };
    for trace in traces.iter().filter(|trace| parts.get(&trace.trace_id) == Some(&Part::HeldOut)) {
        builder.built.held_out += 1;
        builder.held_out_prompts.insert(prompt_digest(trace));
    }
    for trace in traces {
        builder.trace(trace)?;
    }
    builder.built.audits.append(&mut builder.failed);
    Ok(builder.built)
}

struct Builder<'a> {
    contracts: BTreeMap<&'a str, &'a Contract>,
    parts: &'a BTreeMap<String, Part>,
    writer: Writer,
    seed: Seed,
    prompts: BTreeSet<String>,
    held_out_prompts: BTreeSet<String>,
    failed: Vec<AuditRecord>,
    built: Built,
}

impl<'a> Builder<'a> {
    fn trace(&mut self, trace: &'a Trace) -> Result<()> {
        if self.parts.get(&trace.trace_id) == Some(&Part::HeldOut) {
            return Ok(());
        }
        match self.usable(trace) {
            Ok(contract) => self.rows(trace, contract),
            Err(reason) => {
                self.leave_out(trace, None, reason, None);
                Ok(())
            }
        }
    }

    /// The contract, if the trace can be trained on.
    fn usable(&mut self, trace: &Trace) -> Result<&'a Contract, Reason> {
        if !self.parts.is_empty() && !self.parts.contains_key(&trace.trace_id) {
            return Err(Reason::NotInSplit);
        }
        if trace.variant != Variant::Base {
            return Err(Reason::PairedVariant);
        }
        let contract = self.contracts.get(trace.trace_id.as_str()).copied().ok_or(Reason::NoContract)?;
        // Not every reader has derived a contract yet, so the flag may not stand on the trace.
        let conflicts = |flags: &[Flag]| flags.contains(&Flag::Conflict);
        if conflicts(&trace.flags) || conflicts(&contract::derive(trace).flags) {
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

    /// All rows of one trace. Its generator depends on seed and id only, so that other traces never shift it.
    fn rows(&mut self, trace: &Trace, contract: &Contract) -> Result<()> {
        let prompt = response_messages(trace, &essential_ids(trace), Mitigation::None);
        let ground = Ground::new(&prompt, Some(contract), Some(trace))?;
        let scene = Scene::new(trace, contract, &ground);
        if scene.tools_shown() < LEAST_TOOLS.min(essential_ids(trace).len()) {
            self.leave_out(trace, None, Reason::ThinAnswer, None);
            return Ok(());
        }
        let mut rng = self.seed.stream(&format!("build/{}", trace.trace_id));
        let Some(draft) = self.chosen(&scene, &prompt, &mut rng)? else { return Ok(()) };
        for kind in PairKind::ALL {
            self.rejected(kind, &draft, &scene, &prompt, &mut rng)?;
        }
        Ok(())
    }

    /// The first draft whose stage-2 row passes; writes the SFT rows of both stages.
    fn chosen(&mut self, scene: &Scene<'_>, prompt: &[Message], rng: &mut ChaCha8Rng) -> Result<Option<Draft>> {
        let mut frames = Frame::ALL;
        frames.shuffle(rng);
        let mut failure = None;
        for frame in frames {
            let Some(draft) = Draft::chosen(scene, frame, rng) else { continue };
            let turn = Message::assistant(draft.chosen.clone());
            let messages = prompt.iter().cloned().chain([turn]).collect();
            let row = self.sft_row(scene.trace, messages, Stage::Response);
            // Stage 1 goes first, so the row after it is named.
            let name = format!("sft:{}", self.built.sft.len() + 1);
            match admit_sft(row, &name, scene.ground)? {
                Admission::Passed(row, records) => {
                    if self.selection(scene)? {
                        self.built.sft.push(row);
                        self.built.audits.extend(records);
                        return Ok(Some(draft));
                    }
                    return Ok(None);
                }
                Admission::Failed(row, records) => failure = failure.or(Some((row, records))),
            }
        }
        let reason = if failure.is_some() { Reason::Audit } else { Reason::NoDraft };
        let failure = failure.map(|(row, records)| (row.messages.into_iter().rev().take(1).collect(), records));
        self.leave_out(scene.trace, None, reason, failure);
        Ok(None)
    }

    fn selection(&mut self, scene: &Scene<'_>) -> Result<bool> {
        let mut messages = selection_messages(scene.trace, Mitigation::None);
        let ground = Ground::new(&messages, Some(scene.contract), Some(scene.trace))?;
        messages.push(Message::assistant(selection_answer(scene.trace)));
        let row = self.sft_row(scene.trace, messages, Stage::Selection);
        match admit_sft(row, &format!("sft:{}", self.built.sft.len()), &ground)? {
            Admission::Passed(row, records) => {
                self.built.sft.push(row);
                self.built.audits.extend(records);
                Ok(true)
            }
            Admission::Failed(row, records) => {
                let turns = row.messages.into_iter().rev().take(1).collect();
                self.leave_out(scene.trace, None, Reason::Audit, Some((turns, records)));
                Ok(false)
            }
        }
    }

    fn sft_row(&self, trace: &Trace, messages: Vec<Message>, stage: Stage) -> SftRow {
        SftRow {
            messages,
            trace_id: Some(trace.trace_id.clone()),
            split: Some(Part::Train),
            writer: Some(self.writer.name().to_owned()),
            stage: Some(stage),
            audit: None,
        }
    }

    /// The first of several drafts that passes beside the chosen answer.
    fn rejected(
        &mut self,
        kind: PairKind,
        draft: &Draft,
        scene: &Scene<'_>,
        prompt: &[Message],
        rng: &mut ChaCha8Rng,
    ) -> Result<()> {
        let mut failure = None;
        for _ in 0..TRIES {
            let Some(answer) = draft.rejected(kind, scene, rng) else { break };
            let pair = PreferencePair {
                prompt: prompt.to_vec(),
                chosen: vec![Message::assistant(draft.chosen.clone())],
                rejected: vec![Message::assistant(answer)],
                kind: Some(kind),
                trace_id: Some(scene.trace.trace_id.clone()),
                split: Some(Part::Train),
                writer_chosen: Some(self.writer.name().to_owned()),
                writer_rejected: Some(self.writer.name().to_owned()),
                audit: None,
            };
            match admit_pair(pair, &format!("dpo:{}", self.built.pairs.len()), scene.ground)? {
                Admission::Passed(pair, records) => {
                    self.built.pairs.push(pair);
                    self.built.audits.extend(records);
                    return Ok(());
                }
                Admission::Failed(pair, records) => failure = failure.or(Some((pair.rejected, records))),
            }
        }
        let reason = match (&failure, kind) {
            (Some(_), _) => Reason::Audit,
            (None, PairKind::ExplicitLeak) => Reason::NoLeakWording,
            (None, PairKind::OverDisclosure) => Reason::NoFragment,
            (None, PairKind::OverRefusal) => Reason::NoDraft,
        };
        self.leave_out(scene.trace, Some(kind), reason, failure);
        Ok(())
    }

    fn leave_out(
        &mut self,
        trace: &Trace,
        kind: Option<PairKind>,
        reason: Reason,
        failure: Option<(Vec<Message>, Vec<AuditRecord>)>,
    ) {
        let row = format!("quarantine:{}", self.built.quarantine.len());
        let (turns, records) = failure.unwrap_or_default();
        let failed: BTreeSet<Check> =
            records.iter().filter(|record| record.verdict == Verdict::Fail).map(|record| record.check).collect();
        self.built.quarantine.push(Quarantined {
            trace_id: trace.trace_id.clone(),
            row: (!records.is_empty()).then(|| row.clone()),
            kind,
            reason,
            checks: failed.into_iter().collect(),
            turns,
        });
        self.failed.extend(records.into_iter().map(|record| AuditRecord { row: row.clone(), ..record }));
    }
}

fn essential_ids(trace: &Trace) -> Vec<String> {
    trace.essential_tools().map(|tool| tool.tool_id.clone()).collect()
}

fn prompt_digest(trace: &Trace) -> String {
    let prompt = response_messages(trace, &essential_ids(trace), Mitigation::None);
    let text: String = prompt.iter().map(|turn| turn.content.to_lowercase()).collect();
    digest::of_bytes(text.as_bytes())
}
