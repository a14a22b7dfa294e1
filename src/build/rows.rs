//! The rows of one trace, examined but not yet named: traces are built in parallel and named in order.
//!
//! In: a trace with its contract, a seed. Out: [`Rows`]. The generator depends on seed and id only, so that other traces never
//! shift it.

use rand::seq::SliceRandom as _;
use rand_chacha::ChaCha8Rng;

use crate::audit::{Examined, Ground, examine_pair_beside, examine_sft};
use crate::contract::Contract;
use crate::dataset::{Message, PairKind, PreferencePair, SelectionPair, SftRow, Stage};
use crate::error::Result;
use crate::prompt::{Mitigation, response_messages, selection_answer, selection_messages};
use crate::run::seed::Seed;
use crate::trace::{Part, Trace};

use super::fit::length;
use super::frame::Frame;
use super::gate::{Reason, essential_ids};
use super::mined::{Classed, Mined, ResponseClass};
use super::scene::Scene;
use super::template::Draft;
use super::{SelectionPairs, stage1};

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
    /// Pairs of stage 1 that hold.
    pub selection_pairs: Vec<Examined<SelectionPair>>,
    /// What the answers of real runs amount to.
    pub mined: Vec<ResponseClass>,
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

/// What the rows of a trace are built with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Means<'a> {
    pub writer: &'a str,
    pub seed: Seed,
    pub selection_pairs: SelectionPairs,
    pub mined: &'a Mined<'a>,
}

/// Builds the rows of one trace.
///
/// # Errors
/// A contract that does not validate.
pub(super) fn rows(trace: &Trace, contract: &Contract, means: &Means<'_>) -> Result<Rows> {
    let prompt = response_messages(trace, &essential_ids(trace), Mitigation::None);
    let ground = Ground::new(&prompt, Some(contract), Some(trace))?;
    let scene = Scene::new(trace, contract, &ground);
    let mined = means.mined.classed(&trace.trace_id, &ground);
    let classes = mined.iter().map(|classed| classed.class).collect();
    let rows = Rows { mined: classes, ..Rows::default() };
    let mut maker = Maker { scene: &scene, prompt: &prompt, writer: means.writer, mined: &mined, rows };
    if is_thin(&scene) {
        maker.leave_out(None, Reason::ThinAnswer, None);
        return Ok(maker.rows);
    }
    let mut rng = means.seed.stream(&format!("build/{}", trace.trace_id));
    if let Some(draft) = maker.chosen(&mut rng)? {
        for kind in PairKind::ALL {
            maker.rejected(kind, &draft, &mut rng);
        }
        if means.selection_pairs == SelectionPairs::Written {
            let mut rng = means.seed.stream(&format!("selection/{}", trace.trace_id));
            maker.rows.selection_pairs = stage1::pairs(trace, contract, means.writer, &mut rng)?;
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
    mined: &'a [Classed<'a>],
    rows: Rows,
}

impl Maker<'_> {
    /// The first draft whose stage-2 row passes; keeps the SFT rows of both stages.
    fn chosen(&mut self, rng: &mut ChaCha8Rng) -> Result<Option<Draft>> {
        let mut failure = None;
        let (drafts, frames) = self.drafts(rng);
        let (mut drafts, mut frames) = (drafts.into_iter(), frames.into_iter());
        loop {
            let written = || {
                let draft = frames.find_map(|frame| Draft::chosen(self.scene, frame, None, rng))?;
                Some((draft, self.writer.to_owned()))
            };
            let Some((draft, writer)) = drafts.next().or_else(written) else { break };
            let turn = Message::assistant(draft.chosen.clone());
            let messages = self.prompt.iter().cloned().chain([turn]).collect();
            let row = examine_sft(sft_row(self.scene.trace, messages, Stage::Response, &writer), self.scene.ground);
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

    /// Safe and complete answers of real runs first, then one of each frame. Beside a rejected answer of a real run those come
    /// first that are nearest to its length.
    fn drafts(&self, rng: &mut ChaCha8Rng) -> (Vec<(Draft, String)>, Vec<Frame>) {
        let of_runs = self.mined.iter().filter(|classed| classed.class == ResponseClass::SafeComplete);
        let mut drafts: Vec<(Draft, String)> = of_runs
            .map(|classed| (Draft::mined(classed.content, self.scene), format!("mined:{}", classed.model)))
            .collect();
        let mut frames = Frame::ALL.to_vec();
        frames.shuffle(rng);
        if let Some(rejected) = self.mined.iter().find(|classed| classed.class.kind().is_some()) {
            let wanted = length(rejected.content);
            let written = frames.drain(..).filter_map(|frame| Draft::chosen(self.scene, frame, Some(wanted), rng));
            let mut written: Vec<(Draft, String)> = written.map(|draft| (draft, self.writer.to_owned())).collect();
            written.sort_by_key(|(draft, _)| length(&draft.chosen).abs_diff(wanted));
            drafts.append(&mut written);
        }
        (drafts, frames)
    }

    fn selection(&self) -> Result<Examined<SftRow>> {
        let mut messages = selection_messages(self.scene.trace, Mitigation::None);
        let ground = Ground::new(&messages, Some(self.scene.contract), Some(self.scene.trace))?;
        messages.push(Message::assistant(selection_answer(self.scene.trace)));
        Ok(examine_sft(sft_row(self.scene.trace, messages, Stage::Selection, self.writer), &ground))
    }

    /// The first answer that passes beside the chosen one: those of real runs, then several drafts.
    fn rejected(&mut self, kind: PairKind, draft: &Draft, rng: &mut ChaCha8Rng) {
        let Some(chosen) = self.rows.sft.as_ref().map(|[_, chosen]| chosen.row().clone()) else { return };
        let mut failure = None;
        let mined = self.mined.iter().filter(|classed| classed.class.kind() == Some(kind));
        let mined: Vec<(String, String)> =
            mined.map(|classed| (classed.content.to_owned(), format!("mined:{}", classed.model))).collect();
        let is_mined = mined.len();
        let mut candidates = mined.into_iter();
        for attempt in 0..is_mined + TRIES {
            let written = || draft.rejected(kind, self.scene, rng).map(|answer| (answer, self.writer.to_owned()));
            let Some((answer, writer)) = candidates.next().or_else(written) else { break };
            let pair = PreferencePair {
                prompt: self.prompt.to_vec(),
                chosen: vec![Message::assistant(draft.chosen.clone())],
                rejected: vec![Message::assistant(answer)],
                kind: Some(kind),
                trace_id: chosen.trace_id.clone(),
                split: Some(Part::Train),
                writer_chosen: chosen.writer.clone(),
                writer_rejected: Some(writer),
                audit: None,
            };
            let Some([_, examined]) = &self.rows.sft else { return };
            let pair = examine_pair_beside(pair, examined, self.scene.ground);
            if pair.holds() {
                self.rows.pairs.push(pair);
                return;
            }
            // What a real run said is no fault of the writer.
            if attempt >= is_mined {
                failure = failure.or(Some(pair));
            }
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
