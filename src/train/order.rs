//! Which rows each step trains on: a seeded shuffle per epoch, or the file's order; computable for any step without replaying the ones before.

use std::num::NonZeroUsize;

use rand::seq::SliceRandom as _;

use crate::recipe::settings::{RowOrder, TrainSettings};
use crate::run::seed::Seed;

/// The order of a whole run. `Order` is a pure function of its fields: a resumed run asks for the next step and gets what
/// the uninterrupted run would have got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Order {
    /// Rows or trees.
    pub units: usize,
    /// Units of one optimizer step; the last step of an epoch takes what is left.
    pub units_per_step: NonZeroUsize,
    /// Passes over the data.
    pub epochs: NonZeroUsize,
    /// Stop after this many steps.
    pub max_steps: Option<NonZeroUsize>,
    /// Seed of the run.
    pub seed: Seed,
    /// Shuffled or not.
    pub order: RowOrder,
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
    /// The order that settings ask for.
    pub fn new(units: usize, settings: &TrainSettings, seed: Seed) -> Self {
        Self {
            units,
            units_per_step: settings.rows_per_step,
            epochs: settings.epochs,
            max_steps: settings.max_steps,
            seed,
            order: settings.order,
        }
    }

    /// Steps of one epoch.
    pub fn steps_per_epoch(&self) -> usize {
        self.units.div_ceil(self.units_per_step.get())
    }

    /// Steps of the whole run.
    pub fn steps(&self) -> usize {
        let steps = self.steps_per_epoch() * self.epochs.get();
        self.max_steps.map_or(steps, |max| steps.min(max.get()))
    }

    /// Units of step `step`, from 0; `None` after the last.
    pub fn window(&self, step: usize) -> Option<Window> {
        if step >= self.steps() {
            return None;
        }
        let epoch = step / self.steps_per_epoch();
        let position = step % self.steps_per_epoch() * self.units_per_step.get();
        let mut units: Vec<usize> = (0..self.units).collect();
        if self.order == RowOrder::Shuffled {
            units.shuffle(&mut self.seed.stream(&format!("order/epoch/{epoch}")));
        }
        let end = (position + self.units_per_step.get()).min(self.units);
        Some(Window { epoch, position, units: units[position..end].to_vec() })
    }

    /// Epochs done after `steps` steps, with the fraction of the running one.
    pub fn epochs_after(&self, steps: usize) -> f64 {
        let (whole, part) = (steps / self.steps_per_epoch().max(1), steps % self.steps_per_epoch().max(1));
        whole as f64 + (part * self.units_per_step.get()) as f64 / self.units.max(1) as f64
    }
}
