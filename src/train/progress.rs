//! Progress on stderr, only where that is a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar of a known number of steps; it vanishes when dropped.
#[derive(Debug)]
pub(super) struct Progress(ProgressBar);

impl Progress {
    /// A bar with a label, e.g. `sft`. indicatif draws nothing where stderr is not a terminal.
    pub(super) fn new(label: &str, total: usize) -> Self {
        let bar = ProgressBar::with_draw_target(Some(total as u64), ProgressDrawTarget::stderr());
        let template = "{prefix} {bar:30} {pos}/{len} {elapsed}<{eta} {msg}";
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
