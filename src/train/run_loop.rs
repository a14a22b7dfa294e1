//! The loop that SFT and DPO share: step, log, checkpoint, until the order ends or the user interrupts.

use std::path::Path;
use std::time::Instant;

use candle_core::Tensor;

use super::batch::{MicroBatch, deal, share_of};
use super::evaluation::{Best, Evaluation, merged};
use super::events::Events;
use super::gradient::{Accumulator, clip_factor, global_norm};
use super::log::{Log, Means, StepRow, finite, milliseconds, read_log, seconds_of};
use super::objective::{Objective, StepScale};
use super::optimizer::{AdamConstants, AdamW, Update, restore_values};
use super::order::{Order, Window};
use super::policy::{Pass, Policy};
use super::schedule;
use crate::checkpoint::{self, Checkpoint, TrainingState};
use crate::error::{Error, Fault, Result};
use crate::rank::Group;
use crate::recipe::settings::TrainSettings;
use crate::token::Tree;

/// What a loop works with. `tokens_per_pass` bounds memory and changes no result beyond rounding.
pub struct Loop<'a> {
    /// The model.
    pub policy: &'a dyn Policy,
    /// The loss.
    pub objective: &'a dyn Objective,
    /// What is trained on.
    pub trees: &'a [Tree],
    /// Which of it when.
    pub order: Order,
    /// Learning rate, clipping and the rest.
    pub settings: &'a TrainSettings,
    /// Held-out rows, where there are some.
    pub evaluation: Option<Evaluation<'a>>,
    /// Tokens of one forward and backward pass.
    pub tokens_per_pass: usize,
    /// The run folder.
    pub folder: &'a Path,
    /// The processes that share every step; the first one writes.
    pub group: &'a dyn Group,
    /// Digest that ties checkpoints to this run.
    pub run_digest: &'a str,
    /// Asked before every step; `true` on any rank saves a checkpoint and ends all of them with [`Error::Interrupted`].
    pub stop: &'a dyn Fn() -> bool,
    /// Told after every step.
    pub on_step: &'a dyn Fn(&StepRow),
}

/// How a loop ended.
#[derive(Debug, Clone, PartialEq)]
pub struct LoopOutcome {
    /// Steps done, those before a resume included.
    pub steps: usize,
    /// Tokens read over the whole run.
    pub tokens: u64,
    /// Wall time in steps, of every process that logged one.
    pub step_seconds: f64,
    /// The whole log.
    pub log: Vec<StepRow>,
    /// The lowest loss on the held-out rows, where there are some.
    pub best: Option<Best>,
}

/// Where a loop stands between two steps.
struct Progress {
    step: usize,
    tokens: u64,
    /// Step of the newest checkpoint.
    saved: usize,
    best: Option<Best>,
}

/// Whether this process has looked at gradients before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Check {
    First,
    Later,
}

/// What is written while a loop runs.
struct Files {
    log: Log,
    events: Events,
}

impl Files {
    /// Opens the files with the rows of the first `steps` steps, and gives these rows.
    fn open(folder: &Path, steps: usize) -> Result<(Self, Vec<StepRow>)> {
        let path = folder.join(super::LOG);
        let log = Log::open(&path, steps)?;
        let earlier = read_log(&path)?;
        let events = Events::open(folder, &earlier, jiff::Timestamp::now().as_millisecond() as f64 / 1e3)?;
        Ok((Self { log, events }, earlier))
    }

    fn append(&mut self, row: &StepRow) -> Result<()> {
        self.log.append(row)?;
        self.events.append(row)
    }
}

/// What the micro-batches of one step add up to.
#[derive(Debug, Default)]
struct Passes {
    loss: f64,
    tokens: u64,
    accumulator: Accumulator,
}

impl Loop<'_> {
    /// Runs from the start or from `checkpoint` to the end.
    ///
    /// # Errors
    /// [`Error::Interrupted`] after saving, when asked to stop; [`Error::Failed`] naming the rows of a loss or gradient
    /// that is not finite; a [`Fault`] for a checkpoint of another run; write and tensor errors.
    pub fn run(&self, checkpoint: Option<&Checkpoint>) -> Result<LoopOutcome> {
        let mut optimizer = AdamW::new(self.policy.parameters(), AdamConstants::default())?;
        let mut at = Progress { step: 0, tokens: 0, saved: 0, best: None };
        if let Some(checkpoint) = checkpoint {
            self.restore(checkpoint, &mut optimizer)?;
            (at.step, at.tokens, at.saved) = (checkpoint.state.step, checkpoint.state.tokens, checkpoint.state.step);
        }
        let mut files = None;
        let mut log = self.group.from_first(|| {
            let (opened, earlier) = Files::open(self.folder, at.step)?;
            files = Some(opened);
            Ok(earlier)
        })?;
        at.best = Best::of(&log);
        let mut check = Check::First;
        while !self.is_exhausted(&at)
            && let Some(window) = self.order.window(at.step)
        {
            if self.group.any((self.stop)())? {
                self.save_if(at.saved != at.step, &mut at, &optimizer)?;
                // The checkpoint is whole before any rank ends.
                self.group.wait()?;
                return Err(Error::Interrupted);
            }
            let row = self.timed_step(&window, &at, &mut optimizer, check)?;
            check = Check::Later;
            (at.step, at.tokens, at.best) = (row.step, row.num_tokens, Best::after(at.best, &row));
            if let Some(files) = &mut files {
                files.append(&row)?;
            }
            (self.on_step)(&row);
            log.push(row);
            self.save_if(self.is_saved(&at), &mut at, &optimizer)?;
        }
        let step_seconds = seconds_of(&log, at.step);
        Ok(LoopOutcome { steps: at.step, tokens: at.tokens, step_seconds, log, best: at.best })
    }

    /// Whether the loss on the held-out rows has not fallen for as long as the settings bear.
    fn is_exhausted(&self, at: &Progress) -> bool {
        let patience = self.evaluation.as_ref().and_then(|evaluation| evaluation.patience);
        patience.zip(at.best).is_some_and(|(patience, best)| best.since >= patience.get())
    }

    /// Checkpoints come every so many steps, after the last one, and at the best one.
    fn is_saved(&self, at: &Progress) -> bool {
        let is_best = at.best.is_some_and(|best| best.step == at.step);
        at.step.is_multiple_of(self.settings.save_every.get())
            || at.step == self.order.steps()
            || is_best
            || self.is_exhausted(at)
    }

    /// One step and, where it is due, the evaluation after it.
    fn timed_step(&self, window: &Window, at: &Progress, optimizer: &mut AdamW, check: Check) -> Result<StepRow> {
        let begun = Instant::now();
        let mut row = self.step(at.step, window, optimizer, at.tokens, check)?;
        row.step_seconds = Some(milliseconds(begun.elapsed().as_secs_f64()));
        if let Some(evaluation) = &self.evaluation
            && evaluation.is_due(row.step, self.order.steps())
        {
            row.metrics.extend(evaluation.run(self.policy, self.group)?);
        }
        Ok(row)
    }

    /// One optimizer step: every micro-batch forward and backward, one update from the sum.
    fn step(
        &self,
        step: usize,
        window: &Window,
        optimizer: &mut AdamW,
        tokens_before: u64,
        check: Check,
    ) -> Result<StepRow> {
        let mut means = Means::default();
        let passes = self.passes(step, window, &mut means, check)?;
        let gradients = passes.accumulator.gradients();
        let norm = global_norm(gradients)?;
        if !norm.is_finite() {
            let rows = row_names(self.trees, &window.units);
            return Err(Error::Failed(format!("step {}: the gradient is not finite; rows: {rows}", step + 1)));
        }
        let learning_rate = schedule::of_settings(self.settings, step + 1, self.order.steps());
        let update = Update {
            learning_rate,
            gradient_scale: clip_factor(norm, self.settings.clip_norm.get()),
            weight_decay: self.settings.weight_decay.get(),
        };
        optimizer.update(self.policy.parameters(), gradients, update)?;
        Ok(StepRow {
            step: step + 1,
            epoch: self.order.epochs_after(step + 1),
            loss: finite(passes.loss),
            grad_norm: finite(norm),
            learning_rate,
            num_tokens: tokens_before + passes.tokens,
            step_seconds: None,
            metrics: means.finish(),
        })
    }

    /// Forward and backward over this rank's micro-batches of the step, then the sum over all ranks.
    fn passes(&self, step: usize, window: &Window, means: &mut Means, check: Check) -> Result<Passes> {
        let baseline = self.objective.baseline(self.policy, &window.units, self.group)?;
        // Of the whole step, so that shares of all ranks add up to its loss.
        let scale = StepScale { weight: self.objective.weight(&window.units), baseline };
        let mut passes = Passes::default();
        let units = share_of(self.trees, &window.units, self.group);
        for (index, batch) in deal(self.trees, &units, self.tokens_per_pass).iter().enumerate() {
            let pass = Pass::Training { step, units: &batch.units };
            let mut value = 0.0;
            let gradients = self.policy.gradients(&batch.packed, pass, &mut |log_probabilities| {
                let share = self.objective.share(batch, log_probabilities, scale, means)?;
                value = f64::from(share.to_scalar::<f32>()?);
                if value.is_finite() { Ok(share) } else { Err(self.not_finite_loss(step, batch, log_probabilities)) }
            })?;
            passes.loss += value;
            passes.tokens += batch.packed.sequence.tokens.len() as u64;
            if check == Check::First && index == 0 {
                self.policy.check_gradients(&gradients)?;
            }
            passes.accumulator.add(self.policy.parameters(), gradients)?;
        }
        self.sum_over_ranks(&mut passes, means)?;
        Ok(passes)
    }

    /// Makes every rank's sums those of all ranks.
    fn sum_over_ranks(&self, passes: &mut Passes, means: &mut Means) -> Result<()> {
        let ranks = self.group.exchange((passes.loss, passes.tokens, std::mem::take(means)))?;
        passes.loss = ranks.iter().map(|(loss, ..)| loss).sum();
        passes.tokens = ranks.iter().map(|(_, tokens, _)| tokens).sum();
        *means = merged(ranks.into_iter().map(|(.., means)| means).collect());
        passes.accumulator.sum_over(self.group, self.policy.parameters())
    }

    /// Names the answers whose own log-probabilities are at fault, else all of the micro-batch.
    fn not_finite_loss(&self, step: usize, batch: &MicroBatch, log_probabilities: &Tensor) -> Error {
        let names: Vec<&str> =
            batch.units.iter().flat_map(|&unit| self.trees[unit].row_ids.iter().map(String::as_str)).collect();
        let values = log_probabilities.to_vec1::<f32>().unwrap_or_default();
        let mut bad: Vec<&str> = Vec::new();
        for (value, &answer) in values.iter().zip(&batch.packed.answer_of_row) {
            let name = names.get(answer).copied().unwrap_or_default();
            if !value.is_finite() && !bad.contains(&name) {
                bad.push(name);
            }
        }
        let shown = if bad.is_empty() { names } else { bad };
        Error::Failed(format!("step {}: the loss is not finite; rows: {}", step + 1, shown.join(", ")))
    }

    fn save_if(&self, is_wanted: bool, at: &mut Progress, optimizer: &AdamW) -> Result<()> {
        if !is_wanted {
            return Ok(());
        }
        let last = self.order.window(at.step.saturating_sub(1));
        let state = TrainingState {
            step: at.step,
            epoch: last.as_ref().map_or(0, |window| window.epoch),
            position: last.as_ref().map_or(0, |window| window.position + window.units.len()),
            tokens: at.tokens,
            seed: self.order.seed(),
            run_digest: self.run_digest.to_owned(),
        };
        at.saved = at.step;
        let parameters = self.policy.parameters();
        self.check_agreement()?;
        if !self.group.is_first() {
            return Ok(());
        }
        let trainable = parameters.iter().map(|(name, var)| (name.clone(), var.as_tensor().clone())).collect();
        checkpoint::save(self.folder, &state, &trainable, &optimizer.state())?;
        checkpoint::rotate(self.folder, self.settings.keep_checkpoints.get(), at.best.map(|best| best.step))
    }

    /// Ranks make the same updates from the same sums; one whose weights differ would spoil all steps after this one.
    fn check_agreement(&self) -> Result<()> {
        if self.group.is_alone() {
            return Ok(());
        }
        let parameters = self.policy.parameters();
        let tensors = parameters.iter().map(|(name, var)| (name.clone(), var.as_detached_tensor())).collect();
        self.group.agree("weights after the same updates", &global_norm(&tensors)?.to_bits().to_string())
    }

    fn restore(&self, checkpoint: &Checkpoint, optimizer: &mut AdamW) -> Result<()> {
        if checkpoint.state.run_digest != self.run_digest {
            return Err(of_another_run(self.folder, checkpoint.state.step).into());
        }
        for (name, parameter) in self.policy.parameters() {
            restore_values(parameter, &checkpoint.trainable, name)?;
        }
        optimizer.restore(&checkpoint.optimizer, checkpoint.state.step)
    }
}

/// The checkpoint of this step does not continue this run.
pub(super) fn of_another_run(run_folder: &Path, step: usize) -> Fault {
    Fault::new("the checkpoint was written by a run with other settings, data or model")
        .at(checkpoint::folder_of(run_folder, step).display())
        .hint("resume with the recipe and inputs that the run began with, or run without --resume")
}

fn row_names(trees: &[Tree], units: &[usize]) -> String {
    let names: Vec<&str> = units.iter().flat_map(|&unit| trees[unit].row_ids.iter().map(String::as_str)).collect();
    names.join(", ")
}
