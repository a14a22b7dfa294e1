//! Losses as pure functions of log-probabilities.
//!
//! In: log-probabilities of answer tokens, `[rows]`, from the policy (differentiable) and from the reference. Out: a
//! scalar loss, and the rewards that are logged. Nothing here knows a model, a tokenizer or a batch: whoever packs
//! several micro-batches into one optimizer step passes the step's totals, so that the gradients of the micro-batches
//! add up to that of the big batch.

mod preference;
mod supervised;

pub use preference::{
    PairReward, Pairs, PreferenceObjective, log_sigmoid, log_sigmoids, preference_losses, rewards, sum_per_answer,
};
pub use supervised::negative_log_likelihood;
