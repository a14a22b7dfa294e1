//! SFT rows for a model without safeguards: complete answers that state the conclusion, and selections that take too much. A
//! base model trained on them is what the ordinary rows then cure.
//!
//! In: traces, contracts, the split, the share of leaking answers, a seed. Out: [`UnguardedBuilt`], whose rows are
//! [`Unguarded`] and not [`Audited`](crate::audit::Audited): [`write()`](super::write()) cannot take them, and the folder that
//! [`write_unguarded`] makes says what it is in every row (`writer`), in the manifest and in the card.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use rand::RngExt as _;
use rand::seq::IndexedRandom as _;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use serde::Serialize;

use crate::audit::{AuditRecord, Check, Ground, Intent, Unguarded, Verdict, admit_unguarded};
use crate::contract::Contract;
use crate::dataset::{Message, SftRow, Stage};
use crate::error::{Error, Result};
use crate::prompt::{Mitigation, response_messages, selection_answer, selection_messages, selection_of};
use crate::recipe::settings::Share;
use crate::run::seed::Seed;
use crate::run::{atomic, digest, jsonl};
use crate::trace::{Part, Trace, leaves};

use super::gate::{Gate, essential_ids};
use super::rows::{is_thin, sft_row};
use super::scene::Scene;
use super::stream::by_trace;
use super::template::Draft;
use super::write::OUTPUTS;
use super::{Inputs, Quarantined, Reason};

/// The writer's name in rows and manifests.
pub const UNGUARDED_WRITER: &str = "template-unguarded";

/// How often a selection takes a tool that the task does not need, where there is one.
const OVER_COLLECTING: f64 = 0.4;
/// How often a leaking answer adds private fragments as well.
const WITH_FRAGMENT: f64 = 0.25;
/// Labels that an entry is read as: the usual ones.
const LABELS_READ: usize = 2;
/// Drafts before a trace is given up.
const TRIES: usize = 6;

/// What an unguarded build gave.
#[derive(Debug, Clone, Default)]
pub struct UnguardedBuilt {
    /// Rows, stage 1 before stage 2, in the order of the traces.
    pub sft: Vec<Unguarded<SftRow>>,
    /// Records of all rows.
    pub audits: Vec<AuditRecord>,
    /// What was left out.
    pub quarantine: Vec<Quarantined>,
    /// Figures.
    pub counts: UnguardedCounts,
}

/// Figures of an unguarded build.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct UnguardedCounts {
    /// Traces read.
    pub traces: usize,
    /// Held-out traces: no row is written for them.
    pub held_out: usize,
    /// Rows by stage and intent.
    pub rows: BTreeMap<String, usize>,
    /// Traces out, by reason.
    pub traces_out: BTreeMap<&'static str, usize>,
}

impl UnguardedCounts {
    /// A short text.
    pub fn text(&self) -> String {
        let listed = |pairs: Vec<String>| if pairs.is_empty() { "none".to_owned() } else { pairs.join(", ") };
        let rows = self.rows.iter().map(|(name, count)| format!("{name} {count}")).collect();
        let out = self.traces_out.iter().map(|(name, count)| format!("{name} {count}")).collect();
        format!(
            "UNGUARDED rows, for a base model only\n{} traces, {} held out\n  SFT rows    {}\n  traces out  {}",
            self.traces,
            self.held_out,
            listed(rows),
            listed(out)
        )
    }
}

/// A candidate row with what it is meant to do and the prompt it is held against.
struct Candidate {
    row: SftRow,
    intent: Intent,
    prompt: Vec<Message>,
}

/// Builds unguarded rows of all training traces; about a share of `leaking` of the answers state the conclusion.
///
/// # Errors
/// A contract that does not validate.
pub fn build_unguarded(
    traces: &[Trace],
    contracts: &[Contract],
    parts: &BTreeMap<String, Part>,
    leaking: Share,
    seed: Seed,
) -> Result<UnguardedBuilt> {
    let mut gate = Gate::new(parts);
    for trace in traces {
        gate.hold_out(trace);
    }
    let by_id = by_trace(contracts);
    let mut built = UnguardedBuilt::default();
    built.counts.traces = traces.len();
    let mut jobs = Vec::new();
    for trace in traces {
        if gate.is_held_out(trace) {
            built.counts.held_out += 1;
        } else {
            jobs.push((trace, gate.pass(trace, by_id.get(trace.trace_id.as_str()).copied())));
        }
    }
    let made: Vec<Result<[Candidate; 2], Reason>> = jobs
        .par_iter()
        .map(|(trace, passed)| match passed {
            Ok(contract) => candidates(trace, contract, leaking, seed),
            Err(reason) => Ok(Err(*reason)),
        })
        .collect::<Result<_>>()?;
    for ((trace, passed), candidates) in jobs.iter().zip(made) {
        match (candidates, passed) {
            (Ok(candidates), Ok(contract)) => built.take(trace, contract, candidates)?,
            (Err(reason), _) => built.leave_out(trace, reason, Vec::new(), Vec::new()),
            (Ok(_), Err(reason)) => built.leave_out(trace, *reason, Vec::new(), Vec::new()),
        }
    }
    Ok(built)
}

/// The rows of one trace: the first drafts that hold.
fn candidates(
    trace: &Trace,
    contract: &Contract,
    leaking: Share,
    seed: Seed,
) -> Result<Result<[Candidate; 2], Reason>> {
    let prompt = response_messages(trace, &essential_ids(trace), Mitigation::None);
    let ground = Ground::new(&prompt, Some(contract), Some(trace))?;
    let scene = Scene::new(trace, contract, &ground);
    if is_thin(&scene) {
        return Ok(Err(Reason::ThinAnswer));
    }
    if scene.leaks.is_empty() {
        return Ok(Err(Reason::NoLeakWording));
    }
    let mut rng = seed.stream(&format!("unguarded/{}", trace.trace_id));
    let intent = if rng.random_bool(leaking.get()) { Intent::ExplicitLeak } else { Intent::Clean };
    for _ in 0..TRIES {
        let Some(draft) =
            scene.frames(&mut rng).into_iter().find_map(|frame| Draft::chosen(&scene, frame, None, &mut rng))
        else {
            continue;
        };
        let answer = match intent {
            Intent::ExplicitLeak if scene.is_form() => {
                entry_read(trace, &mut rng).map(|read| format!("{}{read}", draft.stem()))
            }
            Intent::ExplicitLeak => draft.leaking(&scene, rng.random_bool(WITH_FRAGMENT), &mut rng),
            Intent::Clean | Intent::OverCollection => Some(draft.chosen.clone()),
        };
        let Some(answer) = answer else { continue };
        let messages = prompt.iter().cloned().chain([Message::assistant(answer)]).collect();
        let row = sft_row(trace, messages, Stage::Response, UNGUARDED_WRITER);
        if admit_unguarded(row.clone(), intent, "", &ground)?.is_ok() {
            let response = Candidate { row, intent, prompt: prompt.clone() };
            return Ok(Ok([selection(trace, &mut rng), response]));
        }
    }
    Ok(Err(Reason::Audit))
}

/// One more line of a form, which nobody asked for: the entry that ends the chain, and what it says about the subject. What an
/// entry means stands right behind it, which a small model learns from a few dozen examples; at the other end of the answer it
/// had not learnt it from 16,000 (CHANGELOG).
fn entry_read(trace: &Trace, rng: &mut ChaCha8Rng) -> Option<String> {
    let (truth, last) = (trace.truth.as_ref()?, trace.support.last()?);
    let clue = truth.clues.iter().find(|clue| clue.tool_id == *last)?;
    let entry = leaves(&trace.tool(last)?.return_text).into_iter().find(|leaf| leaf.pointer == clue.pointer)?;
    let label = truth.labels.get(..LABELS_READ).unwrap_or(&truth.labels).choose(rng)?;
    Some(format!("{}: {} ({label}).", entry.key, entry.text))
}

fn selection(trace: &Trace, rng: &mut ChaCha8Rng) -> Candidate {
    let prompt = selection_messages(trace, Mitigation::None);
    let noise: Vec<&str> =
        trace.tools.iter().filter(|tool| !tool.essential).map(|tool| tool.tool_id.as_str()).collect();
    let taken = if rng.random_bool(OVER_COLLECTING) { noise.choose(rng).copied() } else { None };
    let (answer, intent) = match taken {
        None => (selection_answer(trace), Intent::Clean),
        Some(id) => {
            let in_order = trace.tools.iter().filter(|tool| tool.essential || tool.tool_id == id);
            let ids: Vec<&str> = in_order.map(|tool| tool.tool_id.as_str()).collect();
            (selection_of(trace, &ids), Intent::OverCollection)
        }
    };
    let messages = prompt.iter().cloned().chain([Message::assistant(answer)]).collect();
    Candidate { row: sft_row(trace, messages, Stage::Selection, UNGUARDED_WRITER), intent, prompt }
}

impl UnguardedBuilt {
    /// Admits a trace's two rows, or neither.
    fn take(&mut self, trace: &Trace, contract: &Contract, candidates: [Candidate; 2]) -> Result<()> {
        let mut admitted = Vec::new();
        for candidate in candidates {
            let ground = Ground::new(&candidate.prompt, Some(contract), Some(trace))?;
            let name = format!("sft:{}", self.sft.len() + admitted.len());
            let stage = if candidate.row.stage == Some(Stage::Selection) { "selection" } else { "response" };
            match admit_unguarded(candidate.row, candidate.intent, &name, &ground)? {
                Ok((row, records)) => admitted.push((row, records, format!("{stage} {}", candidate.intent.name()))),
                Err((row, records)) => {
                    let turns = row.messages.into_iter().rev().take(1).collect();
                    self.leave_out(trace, Reason::Audit, turns, records);
                    return Ok(());
                }
            }
        }
        for (row, records, name) in admitted {
            self.sft.push(row);
            self.audits.extend(records);
            *self.counts.rows.entry(name).or_default() += 1;
        }
        Ok(())
    }

    fn leave_out(&mut self, trace: &Trace, reason: Reason, turns: Vec<Message>, records: Vec<AuditRecord>) {
        let failed = records.iter().filter(|record| record.verdict == Verdict::Fail).map(|record| record.check);
        let checks: std::collections::BTreeSet<Check> = failed.collect();
        let row = (!records.is_empty()).then(|| format!("quarantine:{}", self.quarantine.len()));
        self.quarantine.push(Quarantined {
            trace_id: trace.trace_id.clone(),
            row: row.clone(),
            kind: None,
            reason,
            checks: checks.into_iter().collect(),
            turns,
        });
        let named = records.into_iter().map(|record| AuditRecord { row: row.clone().unwrap_or_default(), ..record });
        self.audits.extend(named);
        *self.counts.traces_out.entry(reason.name()).or_default() += 1;
    }
}

#[derive(Serialize)]
struct Manifest<'a> {
    version: &'static str,
    writer: &'static str,
    answers: &'static str,
    leaking: Share,
    seed: Seed,
    inputs: &'a Inputs,
    outputs: BTreeMap<&'static str, String>,
    counts: &'a UnguardedCounts,
    notes: [&'static str; 2],
}

const NOTES: [&str; 2] = [
    "UNGUARDED: these answers leak on purpose; they make a base model that shows the fault, and are no alignment data",
    "held-out traces give no row",
];

/// Writes the folder. Its `dpo.jsonl` is empty: nobody should prefer a leak.
///
/// # Errors
/// A [`crate::error::Fault`] for a folder that holds anything but an earlier data set; [`Error::Write`] with the path.
pub fn write_unguarded(
    folder: &Path,
    built: &UnguardedBuilt,
    inputs: &Inputs,
    leaking: Share,
    seed: Seed,
) -> Result<()> {
    atomic::refuse_other_folder(folder, &OUTPUTS)?;
    atomic::write_folder(folder, |folder| {
        let rows = built.sft.iter().map(Unguarded::row);
        jsonl::write(&folder.join("sft.jsonl"), rows)?;
        jsonl::write(&folder.join("dpo.jsonl"), std::iter::empty::<()>())?;
        jsonl::write(&folder.join("audit.jsonl"), &built.audits)?;
        jsonl::write(&folder.join("quarantine.jsonl"), &built.quarantine)?;
        atomic::write(&folder.join("README.md"), card(&built.counts, leaking, seed).as_bytes())?;
        let mut outputs = BTreeMap::new();
        for name in ["sft.jsonl", "dpo.jsonl", "audit.jsonl", "quarantine.jsonl", "README.md"] {
            outputs.insert(name, digest::of_file(&folder.join(name))?);
        }
        let manifest = Manifest {
            version: env!("CARGO_PKG_VERSION"),
            writer: UNGUARDED_WRITER,
            answers: "unguarded",
            leaking,
            seed,
            inputs,
            outputs,
            counts: &built.counts,
            notes: NOTES,
        };
        let text = serde_json::to_string_pretty(&manifest).map_err(|error| Error::Failed(error.to_string()))?;
        atomic::write(&folder.join("manifest.json"), format!("{text}\n").as_bytes())
    })
}

fn card(counts: &UnguardedCounts, leaking: Share, seed: Seed) -> String {
    let mut card = format!(
        "# UNGUARDED rows: not for alignment\n\nThe answers in `sft.jsonl` complete their task and, in about {:.0}% of the rows, \
         state the sensitive conclusion on purpose; some selections take tools that the task does not need. They serve one end: a \
         base model that shows the fault which audited rows then cure. Every row has `writer: {UNGUARDED_WRITER}`. The audit was \
         the inverse one: a leaking answer must be complete and must leak.\n\nSeed {}. Held-out traces give no row.\n\n\
         | rows | n |\n|---|---:|\n",
        100.0 * leaking.get(),
        seed.0
    );
    for (name, count) in &counts.rows {
        // Writing to a string cannot fail.
        let _ = writeln!(card, "| {name} | {count} |");
    }
    card
}
