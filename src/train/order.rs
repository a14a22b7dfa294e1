//! Which rows each step trains on: a seeded shuffle per epoch, or the file's order; computable for any step without replaying the ones before.

use std::num::NonZeroUsize;

use rand::seq::SliceRandom as _;

use crate::recipe::settings::{RowOrder, StepSize, TrainSettings};
use crate::run::seed::Seed;
use crate::token::Tree;

/// The order of a whole run. `Order` is a pure function of trees, settings and seed: a resumed run asks for the next step and
/// gets what the uninterrupted run would have got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    units: usize,
    epochs: NonZeroUsize,
    max_steps: Option<NonZeroUsize>,
    seed: Seed,
    rows: RowOrder,
    windows: Windows,
}

/// How an epoch is cut into steps.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Windows {
    /// So many units each; the last step of an epoch takes what is left.
    Rows(NonZeroUsize),
    /// Where each step of each epoch begins: which units fit together depends on the shuffle.
    Tokens(Vec<Vec<usize>>),
}

/// One step's units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// Epoch, from 0.
    pub epoch: usize,
    /// Units of this epoch that came before.
    pub position: usize,
    /// Indices of the units.
    pub units: Vec<usize>,
}

impl Order {
    /// The order of these trees that settings ask for.
    pub fn new(trees: &[Tree], settings: &TrainSettings, seed: Seed) -> Self {
        let first = match settings.step_size {
            StepSize::Rows(rows) => Windows::Rows(rows),
            StepSize::Tokens(_) => Windows::Tokens(Vec::new()),
        };
        let mut order = Self {
            units: trees.len(),
            epochs: settings.epochs,
            max_steps: settings.max_steps,
            seed,
            rows: settings.order,
            windows: first,
        };
        if let StepSize::Tokens(budget) = settings.step_size {
            order.windows = Windows::Tokens(order.starts(trees, budget.get()));
        }
        order
    }

    /// Where each step of each epoch begins, as far as the run goes.
    fn starts(&self, trees: &[Tree], budget: usize) -> Vec<Vec<usize>> {
        let mut epochs = Vec::new();
        let mut steps = 0;
        for epoch in 0..self.epochs.get() {
            let starts = starts_of(&self.epoch_units(epoch), trees, budget);
            steps += starts.len();
            epochs.push(starts);
            if self.units == 0 || self.max_steps.is_some_and(|max| steps >= max.get()) {
                break;
            }
        }
        epochs
    }

    /// The units of an epoch in their order.
    fn epoch_units(&self, epoch: usize) -> Vec<usize> {
        let mut units: Vec<usize> = (0..self.units).collect();
        if self.rows == RowOrder::Shuffled {
            units.shuffle(&mut self.seed.stream(&format!("order/epoch/{epoch}")));
        }
        units
    }

    /// Seed of the run.
    pub fn seed(&self) -> Seed {
        self.seed
    }

    /// Epochs asked for.
    pub fn epochs(&self) -> usize {
        self.epochs.get()
    }

    /// Units of the largest step.
    pub fn most_units_of_a_step(&self) -> usize {
        match &self.windows {
            Windows::Rows(rows) => rows.get().min(self.units),
            Windows::Tokens(epochs) => epochs
                .iter()
                .flat_map(|starts| starts.iter().zip(starts.iter().skip(1).chain([&self.units])))
                .map(|(start, end)| end - start)
                .max()
                .unwrap_or(0),
        }
    }

    /// Steps of the whole run.
    pub fn steps(&self) -> usize {
        let steps = match &self.windows {
            Windows::Rows(rows) => self.units.div_ceil(rows.get()).saturating_mul(self.epochs.get()),
            Windows::Tokens(epochs) => epochs.iter().map(Vec::len).sum(),
        };
        self.max_steps.map_or(steps, |max| steps.min(max.get()))
    }

    /// Epoch, first unit and end of step `step`, from 0.
    fn place(&self, step: usize) -> Option<(usize, usize, usize)> {
        match &self.windows {
            Windows::Rows(rows) => {
                let steps = self.units.div_ceil(rows.get());
                let position = step.checked_rem(steps)? * rows.get();
                Some((step / steps, position, (position + rows.get()).min(self.units)))
            }
            Windows::Tokens(epochs) => {
                let mut left = step;
                for (epoch, starts) in epochs.iter().enumerate() {
                    if let Some(&start) = starts.get(left) {
                        return Some((epoch, start, starts.get(left + 1).copied().unwrap_or(self.units)));
                    }
                    left -= starts.len();
                }
                None
            }
        }
    }

    /// Units of step `step`, from 0; `None` after the last.
    pub fn window(&self, step: usize) -> Option<Window> {
        if step >= self.steps() {
            return None;
        }
        let (epoch, position, end) = self.place(step)?;
        Some(Window { epoch, position, units: self.epoch_units(epoch)[position..end].to_vec() })
    }

    /// Epochs done after `steps` steps, with the fraction of the running one.
    pub fn epochs_after(&self, steps: usize) -> f64 {
        let Some((epoch, _, end)) = steps.checked_sub(1).and_then(|step| self.place(step)) else { return 0.0 };
        epoch as f64 + end as f64 / self.units.max(1) as f64
    }
}

/// Takes units in their order into steps of at most `budget` packed tokens; one above it is a step of its own.
fn starts_of(units: &[usize], trees: &[Tree], budget: usize) -> Vec<usize> {
    let mut starts = Vec::new();
    let mut tokens = 0;
    for (position, &unit) in units.iter().enumerate() {
        let more = trees.get(unit).map_or(0, Tree::packed_tokens);
        if starts.is_empty() || tokens + more > budget {
            starts.push(position);
            tokens = 0;
        }
        tokens += more;
    }
    starts
}
