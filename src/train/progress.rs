//! Progress on stderr, only where that is a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::log::StepRow;
use crate::rank::Group;

/// A bar of a known number of steps; it vanishes when dropped.
#[derive(Debug)]
pub(super) struct Progress(ProgressBar);

impl Progress {
    /// A bar with a label, e.g. `sft`. indicatif draws nothing where stderr is not a terminal, and
    /// ranks after the first draw nothing at all.
    pub(super) fn new(label: &str, total: usize, group: &dyn Group) -> Self {
        let target = if group.is_first() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(total as u64), target);
        let template = "{prefix} {bar:30} {pos}/{len} {msg}, {elapsed} gone, {eta} left";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_prefix(label.to_owned());
        Self(bar)
    }

    /// Moves to `done` steps with a short message.
    pub(super) fn at(&self, done: usize, message: String) {
        self.0.set_position(done as u64);
        self.0.set_message(message);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// What the bar and the log on stderr say of a step that took `tokens`.
pub(super) fn message(row: &StepRow, tokens: u64) -> String {
    let loss = row.loss.map_or_else(|| "none".to_owned(), |loss| format!("{loss:.4}"));
    match row.step_seconds {
        Some(seconds) if seconds > 0.0 => format!("loss {loss}, {:.0} tokens/s", tokens as f64 / seconds),
        _ => format!("loss {loss}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_says_its_loss_and_rate() {
        let mut row = StepRow {
            step: 3,
            epoch: 0.5,
            loss: Some(0.712_345),
            grad_norm: None,
            learning_rate: 1e-4,
            num_tokens: 900,
            step_seconds: Some(0.5),
            metrics: std::collections::BTreeMap::default(),
        };
        assert_eq!(message(&row, 300), "loss 0.7123, 600 tokens/s");
        (row.loss, row.step_seconds) = (None, Some(0.0));
        assert_eq!(message(&row, 300), "loss none");
    }
}
