//! The learning rate of each step.

use crate::recipe::settings::{Schedule, TrainSettings};

/// Learning rate of update number `update` (1 is the first) out of `total`.
///
/// Linear warm-up over `warmup_share` of the steps, rounded up, reaches the peak at the last warm-up step, so that the first
/// update is not wasted on a rate of 0; then the schedule falls to 0 one step after the last.
///
/// ```
/// # use topalign::recipe::settings::{Schedule, Share};
/// use topalign::train::learning_rate;
/// let rate = |update| learning_rate(1.0, Schedule::Linear, 0.2, update, 10);
/// assert_eq!((rate(1), rate(2), rate(3)), (0.5, 1.0, 1.0));
/// assert_eq!(rate(10), 0.125);
/// ```
pub fn learning_rate(peak: f64, schedule: Schedule, warmup_share: f64, update: usize, total: usize) -> f64 {
    let warmup = (warmup_share * total as f64).ceil() as usize;
    if update <= warmup {
        return peak * update as f64 / warmup as f64;
    }
    let remaining = total.saturating_sub(warmup).max(1) as f64;
    let progress = ((update - warmup - 1) as f64 / remaining).min(1.0);
    match schedule {
        Schedule::Constant => peak,
        Schedule::Linear => peak * (1.0 - progress),
        Schedule::Cosine => peak * 0.5 * (1.0 + (std::f64::consts::PI * progress).cos()),
    }
}

/// [`learning_rate`] as settings state it.
pub(super) fn of_settings(settings: &TrainSettings, update: usize, total: usize) -> f64 {
    learning_rate(settings.learning_rate.get(), settings.schedule, settings.warmup_share.get(), update, total)
}
