//! The rows of one trace, examined but not yet named: traces are built in parallel and named in order.
//!
//! In: a trace with its contract, a seed. Out: [`Rows`]. The generator depends on seed and id only, so that other traces never
//! shift it.

use std::collections::VecDeque;

use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::audit::{Answer, Examined, Ground, Mark, Prompt, Surroundings, examine_pair_beside, examine_sft};
use crate::contract::Contract;
use crate::dataset::{Message, PairKind, PreferencePair, SelectionPair, SftRow, Stage};
use crate::endpoint::CallError;
use crate::error::{Error, Result};
use crate::prompt::{Mitigation, response_messages, selection_answer, selection_messages};
use crate::run::seed::Seed;
use crate::trace::{Part, Trace};

use super::fit::length;
use super::gate::{Reason, essential_ids};
use super::mined::{Classed, ResponseClass};
use super::scene::Scene;
use super::template::Draft;
use super::writer::{Author, Round, Writer};
use super::{Options, SelectionPairs, stage1};

/// Tools whose values an answer names at least: a request over several tools is not answered by one of them.
const LEAST_TOOLS: usize = 2;

/// What one trace gave.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Rows {
    /// The rows of both stages, by each of which it is known again; neither comes without the other.
    pub sft: Option<[(Examined<SftRow>, Mark); 2]>,
    /// Pairs that hold.
    pub pairs: Vec<Examined<PreferencePair>>,
    /// Pairs of stage 1 that hold.
    pub selection_pairs: Vec<Examined<SelectionPair>>,
    /// What the answers of real runs amount to.
    pub mined: Vec<ResponseClass>,
    /// What does not.
    pub left_out: Vec<LeftOut>,
}

/// Something that gives no row.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct LeftOut {
    /// The kind of pair; absent for the whole trace.
    pub kind: Option<PairKind>,
    pub reason: Reason,
    pub failure: Option<Failure>,
}

/// A row that the audit refused.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Failure {
    Sft(Box<Examined<SftRow>>),
    Pair(Box<Examined<PreferencePair>>),
}

/// What the rows of a trace are built with.
#[derive(Clone, Copy)]
pub(super) struct Means<'a> {
    pub author: &'a dyn Author,
    pub seed: Seed,
    pub options: &'a Options<'a>,
    pub around: &'a Surroundings,
}

impl Rows {
    /// Nothing, for a reason that holds for the whole trace.
    pub fn none(reason: Reason) -> Self {
        Self { left_out: vec![LeftOut { kind: None, reason, failure: None }], ..Self::default() }
    }
}

/// Builds the rows of one trace.
///
/// # Errors
/// A contract that does not validate, a writer that has stopped answering.
pub(super) fn rows(trace: &Trace, contract: &Contract, means: &Means<'_>) -> Result<Rows> {
    let prompt = response_messages(trace, &essential_ids(trace), Mitigation::None);
    let selection_prompt = selection_messages(trace, Mitigation::None);
    let seen = [&selection_prompt, &prompt].map(|prompt| means.around.prompt(prompt));
    if seen.iter().any(|prompt| prompt.is_refused(&means.options.severities)) {
        return Ok(Rows::none(Reason::KeptOutPrompt));
    }
    let ground = Ground::new(&prompt, Some(contract), Some(trace))?;
    let scene = Scene::new(trace, contract, &ground);
    let mined = means.options.mined.classed(&trace.trace_id, &ground);
    let classes = mined.iter().map(|classed| classed.class).collect();
    let rows = Rows { mined: classes, ..Rows::default() };
    let mut maker =
        Maker { scene: &scene, prompts: [&selection_prompt, &prompt], seen: &seen, means, mined: &mined, rows };
    if is_thin(&scene) {
        maker.leave_out(None, Reason::ThinAnswer, None);
        return Ok(maker.rows);
    }
    let mut rng = means.seed.stream(&format!("build/{}", trace.trace_id));
    if let Some(draft) = maker.chosen(&mut rng)? {
        for kind in PairKind::ALL {
            maker.rejected(kind, &draft, &mut rng)?;
        }
        if means.options.selection_pairs == SelectionPairs::Written {
            let mut rng = means.seed.stream(&format!("selection/{}", trace.trace_id));
            let (writer, severities) = (means.author.name(), &means.options.severities);
            maker.rows.selection_pairs = stage1::pairs(trace, &ground, (writer, severities), &mut rng);
        }
    }
    Ok(maker.rows)
}

/// Whether an answer could name values of too few tools to be of use.
pub(super) fn is_thin(scene: &Scene<'_>) -> bool {
    scene.tools_shown() < LEAST_TOOLS.min(essential_ids(scene.trace).len())
}

/// A row of a stage; `writer` says who wrote it.
pub(super) fn sft_row(trace: &Trace, messages: Vec<Message>, stage: Stage, writer: &str) -> SftRow {
    SftRow {
        messages,
        trace_id: Some(trace.trace_id.clone()),
        split: Some(Part::Train),
        writer: Some(writer.to_owned()),
        stage: Some(stage),
        audit: None,
    }
}

struct Maker<'a> {
    scene: &'a Scene<'a>,
    /// The prompts of both stages, as they are and as the surroundings see them.
    prompts: [&'a [Message]; 2],
    seen: &'a [Prompt; 2],
    means: &'a Means<'a>,
    mined: &'a [Classed<'a>],
    rows: Rows,
}

impl Maker<'_> {
    /// The first draft whose stage-2 row passes: safe and complete answers of real runs, then written ones. Keeps the SFT rows of
    /// both stages.
    fn chosen(&mut self, rng: &mut ChaCha8Rng) -> Result<Option<Draft>> {
        let of_runs = self.mined.iter().filter(|classed| classed.class == ResponseClass::SafeComplete);
        let mut drafts: VecDeque<(Draft, String)> = of_runs
            .map(|classed| (Draft::of_text(classed.content, self.scene), format!("mined:{}", classed.model)))
            .collect();
        // Beside a rejected answer of a real run those come first that are nearest to its length.
        let rejected = self.mined.iter().find(|classed| classed.class.kind().is_some());
        let wanted = rejected.map(|classed| length(classed.content));
        let (mut failure, mut unanswered, mut number) = (None, false, 0);
        loop {
            let Some((draft, writer)) = drafts.pop_front() else {
                if number == self.means.options.tries.get() {
                    break;
                }
                let mut round = Round { number, seed: self.means.seed, rng };
                let written = self.means.author.chosen(self.scene, wanted, &mut round);
                let written = answered(written, &mut unanswered)?;
                drafts.extend(written.into_iter().map(|draft| (draft, self.means.author.name().to_owned())));
                number += 1;
                continue;
            };
            let turn = Message::assistant(draft.chosen.clone());
            let messages = self.prompts[1].iter().cloned().chain([turn]).collect();
            let row = self.examine(sft_row(self.scene.trace, messages, Stage::Response, &writer));
            if !row.holds() {
                failure = failure.or(Some(row));
                continue;
            }
            let selection = self.selection();
            if selection.holds() {
                self.rows.sft = Some([selection, row].map(|row| {
                    let mark = Mark::of(&row.row().messages);
                    (row, mark)
                }));
                return Ok(Some(draft));
            }
            self.leave_out(None, Reason::Audit, Some(Failure::Sft(Box::new(selection))));
            return Ok(None);
        }
        let reason = match (&failure, unanswered) {
            (Some(_), _) => Reason::Audit,
            (None, true) => Reason::NoAnswer,
            (None, false) => Reason::NoDraft,
        };
        self.leave_out(None, reason, failure.map(|row| Failure::Sft(Box::new(row))));
        Ok(None)
    }

    /// The needed tools are known: no model is asked for them. A selection is held against contract and trace, whatever the
    /// ground's prompt, and a matcher is the dearest part of a ground.
    fn selection(&self) -> Examined<SftRow> {
        let turn = Message::assistant(selection_answer(self.scene.trace));
        let messages = self.prompts[0].iter().cloned().chain([turn]).collect();
        self.examine(sft_row(self.scene.trace, messages, Stage::Selection, Writer::Template.name()))
    }

    fn examine(&self, row: SftRow) -> Examined<SftRow> {
        let seen = &self.seen[usize::from(row.stage == Some(Stage::Response))];
        let answer = row.messages.last().map_or_else(String::new, |turn| turn.content.clone());
        examine_sft(row, self.scene.ground)
            .beside(self.means.around, seen, (Answer::Chosen, &answer), self.scene.ground)
            .weighed(&self.means.options.severities)
    }

    /// The first answer that passes beside the chosen one: those of real runs, then written ones.
    fn rejected(&mut self, kind: PairKind, draft: &Draft, rng: &mut ChaCha8Rng) -> Result<()> {
        let of_runs = self.mined.iter().filter(|classed| classed.class.kind() == Some(kind));
        for classed in of_runs {
            let pair = self.pair(kind, draft, classed.content, &format!("mined:{}", classed.model));
            if let Some(pair) = pair.filter(Examined::holds) {
                self.rows.pairs.push(pair);
                return Ok(());
            }
        }
        // What a real run said is no fault of the writer.
        let (mut failure, mut unanswered) = (None, false);
        for number in 0..self.means.options.tries.get() {
            let mut round = Round { number, seed: self.means.seed, rng };
            let written = self.means.author.rejected(kind, draft, self.scene, &mut round);
            for answer in answered(written, &mut unanswered)? {
                match self.pair(kind, draft, &answer, self.means.author.name()) {
                    Some(pair) if pair.holds() => {
                        self.rows.pairs.push(pair);
                        return Ok(());
                    }
                    pair => failure = failure.or(pair),
                }
            }
        }
        let reason = match (&failure, kind) {
            (Some(_), _) => Reason::Audit,
            (None, _) if unanswered => Reason::NoAnswer,
            (None, PairKind::ExplicitLeak) => Reason::NoLeakWording,
            (None, PairKind::OverDisclosure) => Reason::NoFragment,
            (None, PairKind::OverRefusal) => Reason::NoDraft,
        };
        self.leave_out(Some(kind), reason, failure.map(|pair| Failure::Pair(Box::new(pair))));
        Ok(())
    }

    /// A worse answer beside the chosen one; `None` if there is no chosen one.
    fn pair(&self, kind: PairKind, draft: &Draft, answer: &str, writer: &str) -> Option<Examined<PreferencePair>> {
        let [_, (chosen, _)] = self.rows.sft.as_ref()?;
        let pair = PreferencePair {
            prompt: self.prompts[1].to_vec(),
            chosen: vec![Message::assistant(draft.chosen.clone())],
            rejected: vec![Message::assistant(answer)],
            kind: Some(kind),
            trace_id: chosen.row().trace_id.clone(),
            split: Some(Part::Train),
            writer_chosen: chosen.row().writer.clone(),
            writer_rejected: Some(writer.to_owned()),
            audit: None,
        };
        let examined = examine_pair_beside(pair, chosen, self.scene.ground)
            .beside(self.means.around, &self.seen[1], (Answer::Rejected, answer), self.scene.ground)
            .weighed(&self.means.options.severities);
        Some(examined)
    }

    fn leave_out(&mut self, kind: Option<PairKind>, reason: Reason, failure: Option<Failure>) {
        self.rows.left_out.push(LeftOut { kind, reason, failure });
    }
}

/// What a writer gave. One that answers no more ends the build: what it has said is kept by its endpoint's cache. A single
/// answer that did not come is noted and gives nothing.
fn answered<T>(written: Result<Vec<T>, CallError>, unanswered: &mut bool) -> Result<Vec<T>> {
    match written {
        Ok(drafts) => Ok(drafts),
        Err(CallError::Interrupted) => Err(Error::Interrupted),
        Err(error @ CallError::GivenUp { .. }) => Err(Error::Failed(format!(
            "the writer stopped answering: {error}; nothing was written, and replies until now are in the cache, if it has one: run \
             the same command again to go on from there"
        ))),
        Err(_) => {
            *unanswered = true;
            Ok(Vec::new())
        }
    }
}
