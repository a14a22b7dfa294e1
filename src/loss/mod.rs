//! Losses as pure functions of log-probabilities.
//!
//! In: log-probabilities of answer tokens, `[rows]`, from the policy (differentiable) and from the reference. Out: a
//! scalar loss, and the rewards that are logged. Nothing here knows a model, a tokenizer or a batch: whoever packs
//! several micro-batches into one optimizer step passes the step's totals, so that the gradients of the micro-batches
//! add up to that of the big batch.

mod logistic;
mod preference;
mod supervised;
mod unpaired;

pub use logistic::{log_sigmoid, log_sigmoids};
pub use preference::{PairReward, Pairs, PreferenceObjective, Scores, preference_losses, rewards, sum_per_answer};
pub use supervised::negative_log_likelihood;
pub use unpaired::{Desirability, unpaired_baseline, unpaired_losses, weighted_share};
