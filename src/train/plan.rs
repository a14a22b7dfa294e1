//! What a run would do (`--dry-run`): rows and tokens, examples as the model reads them, memory and time. Writes nothing.

use std::time::Instant;

use serde::Serialize;

use super::batch::{MicroBatch, deal};
use super::estimate::{self, Activations, MemoryEstimate};
use super::manifest::resident_memory_bytes;
use super::policy::{Pass, Policy as _};
use super::rows::DroppedRow;
use super::session::Session;
use crate::error::Result;
use crate::recipe::settings::PreferenceLoss;
use crate::token::Tree;

/// Examples that a plan shows.
const EXAMPLES: usize = 3;

/// What a run would do.
#[derive(Debug, Clone, Serialize)]
pub struct Plan {
    /// Rows read.
    pub rows: usize,
    /// Rows (SFT) or trees (DPO) to train on.
    pub units: usize,
    /// Answers in them.
    pub answers: usize,
    /// Held-out rows or trees.
    pub held_out_units: usize,
    /// Rows left out, each with its reason. No row is ever cut.
    pub dropped: Vec<DroppedRow>,
    /// Rows cut at the length limit: always 0, since a cut answer would be trained as a whole one.
    pub truncated: usize,
    /// Tokens that are read but not trained, each prompt once.
    pub masked_tokens: usize,
    /// Tokens that are trained.
    pub trained_tokens: usize,
    /// Tokens of the longest prompt and answer.
    pub longest_row: usize,
    /// Optimizer steps.
    pub steps: usize,
    /// Tokens that all steps read.
    pub step_tokens: u64,
    /// The first rows in the order of training.
    pub examples: Vec<Example>,
    /// What the largest pass needs.
    pub memory: MemoryEstimate,
    /// All of it, with what this process holds beside the weights where the system tells it.
    pub memory_bytes: u64,
    /// Whether the largest pass keeps its activations.
    pub activations: Activations,
    /// How long it would take here.
    pub time: TimeEstimate,
}

/// One row or tree as the model reads it, special tokens written out.
#[derive(Debug, Clone, Serialize)]
pub struct Example {
    /// Names of its rows.
    pub rows: Vec<String>,
    /// The prompt: read, not trained.
    pub masked: String,
    /// Its tokens.
    pub masked_tokens: usize,
    /// The answers: trained.
    pub trained: Vec<TrainedText>,
}

/// A trained answer.
#[derive(Debug, Clone, Serialize)]
pub struct TrainedText {
    /// `answer`, `chosen`, or `rejected` with the pair's kind.
    pub side: String,
    /// From its first word to its terminator.
    pub text: String,
    /// Its tokens.
    pub tokens: usize,
}

/// Seconds, extrapolated from one pass made here and now.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TimeEstimate {
    /// Tokens of the pass that was timed.
    pub timed_tokens: usize,
    /// Its seconds forward and backward.
    pub timed_seconds: f64,
    /// Of all steps, without the optimizer's update.
    pub steps_seconds: f64,
    /// Of passes without gradient: reference, evaluation, baseline.
    pub forward_seconds: f64,
}

/// Which passes without gradient a loss needs for each tree.
#[derive(Debug, Clone, Copy)]
pub(super) struct ForwardPasses {
    reference: bool,
    baseline: bool,
}

impl ForwardPasses {
    pub(super) fn none() -> Self {
        Self { reference: false, baseline: false }
    }

    pub(super) fn of(loss: PreferenceLoss) -> Self {
        Self { reference: loss.needs_reference(), baseline: !loss.is_paired() }
    }
}

fn packed_tokens(trees: &[Tree]) -> u64 {
    trees.iter().map(|tree| tree.packed_tokens() as u64).sum()
}

impl Session<'_> {
    /// Computes the plan; the timing takes one forward and backward pass.
    pub(super) fn plan(&self, forward: ForwardPasses) -> Result<Plan> {
        let trees = self.trees();
        let trained_tokens = trees.iter().flat_map(|tree| &tree.answers).map(Vec::len).sum();
        let windows = || (0..self.order.steps()).filter_map(|step| self.order.window(step));
        let step_tokens = windows().map(|window| self.tokens_of(&window.units)).sum();
        let largest = windows()
            .take(1000)
            .flat_map(|window| deal(trees, &window.units, self.tokens_per_pass()))
            .max_by_key(|batch| batch.packed.sequence.tokens.len())
            .unwrap_or_else(|| MicroBatch::new(trees, Vec::new()));
        let activations = self.policy.activations(&largest.packed);
        let memory = estimate::memory(self.policy.decoder(), &largest.packed, activations);
        let beside = resident_memory_bytes().map_or(0, |resident| resident.saturating_sub(memory.weights));
        let mut examples = Vec::new();
        for unit in windows().take(EXAMPLES).flat_map(|window| window.units).take(EXAMPLES) {
            examples.push(self.example(unit)?);
        }
        Ok(Plan {
            rows: self.encoded.rows,
            units: trees.len(),
            answers: trees.iter().map(|tree| tree.answers.len()).sum(),
            held_out_units: self.held_out().map_or(0, |encoded| encoded.trees.len()),
            dropped: self.encoded.dropped.clone(),
            truncated: 0,
            masked_tokens: trees.iter().map(|tree| tree.prompt.len()).sum(),
            trained_tokens,
            longest_row: trees.iter().map(Tree::longest_row).max().unwrap_or(0),
            steps: self.order.steps(),
            step_tokens,
            examples,
            memory,
            memory_bytes: memory.total() + beside,
            activations,
            time: self.time(step_tokens, forward)?,
        })
    }

    fn tokens_of(&self, units: &[usize]) -> u64 {
        units.iter().map(|&unit| self.trees()[unit].packed_tokens() as u64).sum()
    }

    fn example(&self, unit: usize) -> Result<Example> {
        let tree = &self.trees()[unit];
        let kinds = self.encoded.kinds.get(unit);
        let chosen = kinds.map_or(0, |kinds| tree.answers.len() - kinds.len());
        let side = |index: usize| match kinds {
            None => "answer".to_owned(),
            Some(_) if index < chosen => "chosen".to_owned(),
            Some(kinds) => match kinds[index - chosen] {
                Some(kind) => format!("rejected, {}", kind.name()),
                None => "rejected".to_owned(),
            },
        };
        let text = |(index, answer): (usize, &Vec<u32>)| {
            Ok(TrainedText { side: side(index), text: self.tokenizer.decode_verbatim(answer)?, tokens: answer.len() })
        };
        let mut rows = tree.row_ids.clone();
        rows.dedup(); // the chosen answer has the name of its first pair
        Ok(Example {
            rows,
            masked: self.tokenizer.decode_verbatim(&tree.prompt)?,
            masked_tokens: tree.prompt.len(),
            trained: tree.answers.iter().enumerate().map(text).collect::<Result<_>>()?,
        })
    }

    /// Times the tree of median length and extrapolates by tokens.
    fn time(&self, step_tokens: u64, forward: ForwardPasses) -> Result<TimeEstimate> {
        let mut units: Vec<usize> = (0..self.trees().len()).collect();
        units.sort_by_key(|&unit| self.trees()[unit].packed_tokens());
        let batch = MicroBatch::new(self.trees(), units.get(units.len() / 2).copied().into_iter().collect());
        let tokens = batch.packed.sequence.tokens.len();
        let begun = Instant::now();
        let pass = Pass::Training { step: 0, units: &batch.units };
        self.policy.gradients(&batch.packed, pass, &mut |values| Ok(values.mean_all()?))?;
        let timed_seconds = begun.elapsed().as_secs_f64();
        let begun = Instant::now();
        self.policy.log_probabilities(&batch.packed, Pass::Evaluation)?;
        let forward_seconds = begun.elapsed().as_secs_f64();
        let all_tokens = self.forward_tokens(step_tokens, forward);
        let of = |seconds: f64, all: u64| seconds / tokens.max(1) as f64 * all as f64;
        Ok(TimeEstimate {
            timed_tokens: tokens,
            timed_seconds,
            steps_seconds: of(timed_seconds, step_tokens),
            forward_seconds: of(forward_seconds, all_tokens),
        })
    }

    /// Tokens of all passes without gradient.
    fn forward_tokens(&self, step_tokens: u64, forward: ForwardPasses) -> u64 {
        let held_out = self.held_out().map_or(0, |encoded| packed_tokens(&encoded.trees));
        let evaluations = match (self.held_out(), self.settings.evaluate_every) {
            (None, _) => 0,
            (Some(_), None) => 1,
            (Some(_), Some(every)) => self.order.steps().div_ceil(every.get()) as u64,
        };
        let reference = if forward.reference { packed_tokens(self.trees()) + held_out } else { 0 };
        let baseline = if forward.baseline { step_tokens / 2 } else { 0 };
        reference + evaluations * held_out + baseline
    }
}
