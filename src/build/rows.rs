//! The rows of one trace, examined but not yet named: traces are built in parallel and named in order.
//!
//! In: a trace with its contract, a seed. Out: [`Rows`]. The generator depends on seed and id only, so that other traces never
//! shift it.

use rand::seq::SliceRandom as _;
use rand_chacha::ChaCha8Rng;

use crate::audit::{Examined, Ground, examine_pair_beside, examine_sft};
use crate::contract::Contract;
use crate::dataset::{Message, PairKind, Part, PreferencePair, SftRow, Stage};
use crate::error::Result;
use crate::prompt::{Mitigation, response_messages, selection_answer, selection_messages};
use crate::run::seed::Seed;
use crate::trace::Trace;

use super::frame::Frame;
use super::gate::{Reason, essential_ids};
use super::scene::Scene;
use super::template::Draft;

/// Tools whose values an answer names at least: a request over several tools is not answered by one of them.
const LEAST_TOOLS: usize = 2;

/// Drafts of one rejected answer before it is given up.
const TRIES: usize = 6;

/// What one trace gave.
#[derive(Debug, Default)]
pub(super) struct Rows {
    /// The rows of both stages; neither comes without the other.
    pub sft: Option<[Examined<SftRow>; 2]>,
    /// Pairs that hold.
    pub pairs: Vec<Examined<PreferencePair>>,
    /// What does not.
    pub left_out: Vec<LeftOut>,
}

/// Something that gives no row.
#[derive(Debug)]
pub(super) struct LeftOut {
    /// The kind of pair; absent for the whole trace.
    pub kind: Option<PairKind>,
    pub reason: Reason,
    pub failure: Option<Failure>,
}

/// A row that the audit refused.
#[derive(Debug)]
pub(super) enum Failure {
    Sft(Box<Examined<SftRow>>),
    Pair(Box<Examined<PreferencePair>>),
}

/// Builds the rows of one trace.
///
/// # Errors
/// A contract that does not validate.
pub(super) fn rows(trace: &Trace, contract: &Contract, writer: &str, seed: Seed) -> Result<Rows> {
    let prompt = response_messages(trace, &essential_ids(trace), Mitigation::None);
    let ground = Ground::new(&prompt, Some(contract), Some(trace))?;
    let scene = Scene::new(trace, contract, &ground);
    let mut maker = Maker { scene: &scene, prompt: &prompt, writer, rows: Rows::default() };
    if is_thin(&scene) {
        maker.leave_out(None, Reason::ThinAnswer, None);
        return Ok(maker.rows);
    }
    let mut rng = seed.stream(&format!("build/{}", trace.trace_id));
    if let Some(draft) = maker.chosen(&mut rng)? {
        for kind in PairKind::ALL {
            maker.rejected(kind, &draft, &mut rng);
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
    prompt: &'a [Message],
    writer: &'a str,
    rows: Rows,
}

impl Maker<'_> {
    /// The first draft whose stage-2 row passes; keeps the SFT rows of both stages.
    fn chosen(&mut self, rng: &mut ChaCha8Rng) -> Result<Option<Draft>> {
        let mut frames = Frame::ALL;
        frames.shuffle(rng);
        let mut failure = None;
        for frame in frames {
            let Some(draft) = Draft::chosen(self.scene, frame, rng) else { continue };
            let turn = Message::assistant(draft.chosen.clone());
            let messages = self.prompt.iter().cloned().chain([turn]).collect();
            let row = examine_sft(sft_row(self.scene.trace, messages, Stage::Response, self.writer), self.scene.ground);
            if !row.holds() {
                failure = failure.or(Some(row));
                continue;
            }
            let selection = self.selection()?;
            if selection.holds() {
                self.rows.sft = Some([selection, row]);
                return Ok(Some(draft));
            }
            self.leave_out(None, Reason::Audit, Some(Failure::Sft(Box::new(selection))));
            return Ok(None);
        }
        let reason = if failure.is_some() { Reason::Audit } else { Reason::NoDraft };
        self.leave_out(None, reason, failure.map(|row| Failure::Sft(Box::new(row))));
        Ok(None)
    }

    fn selection(&self) -> Result<Examined<SftRow>> {
        let mut messages = selection_messages(self.scene.trace, Mitigation::None);
        let ground = Ground::new(&messages, Some(self.scene.contract), Some(self.scene.trace))?;
        messages.push(Message::assistant(selection_answer(self.scene.trace)));
        Ok(examine_sft(sft_row(self.scene.trace, messages, Stage::Selection, self.writer), &ground))
    }

    /// The first of several drafts that passes beside the chosen answer.
    fn rejected(&mut self, kind: PairKind, draft: &Draft, rng: &mut ChaCha8Rng) {
        let mut failure = None;
        for _ in 0..TRIES {
            let Some(answer) = draft.rejected(kind, self.scene, rng) else { break };
            let pair = PreferencePair {
                prompt: self.prompt.to_vec(),
                chosen: vec![Message::assistant(draft.chosen.clone())],
                rejected: vec![Message::assistant(answer)],
                kind: Some(kind),
                trace_id: Some(self.scene.trace.trace_id.clone()),
                split: Some(Part::Train),
                writer_chosen: Some(self.writer.to_owned()),
                writer_rejected: Some(self.writer.to_owned()),
                audit: None,
            };
            let Some([_, chosen]) = &self.rows.sft else { return };
            let pair = examine_pair_beside(pair, chosen, self.scene.ground);
            if pair.holds() {
                self.rows.pairs.push(pair);
                return;
            }
            failure = failure.or(Some(pair));
        }
        let reason = match (&failure, kind) {
            (Some(_), _) => Reason::Audit,
            (None, PairKind::ExplicitLeak) => Reason::NoLeakWording,
            (None, PairKind::OverDisclosure) => Reason::NoFragment,
            (None, PairKind::OverRefusal) => Reason::NoDraft,
        };
        self.leave_out(Some(kind), reason, failure.map(|pair| Failure::Pair(Box::new(pair))));
    }

    fn leave_out(&mut self, kind: Option<PairKind>, reason: Reason, failure: Option<Failure>) {
        self.rows.left_out.push(LeftOut { kind, reason, failure });
    }
}
