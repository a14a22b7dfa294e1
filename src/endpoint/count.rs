//! What asking an endpoint took.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{CallError, ChatReply};

/// Counts of one client, or of several added up.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Counts {
    /// Requests, however they were answered.
    pub requests: usize,
    /// Requests answered from the cache.
    pub cache_hits: usize,
    /// Cache files that could not be read, and were asked for anew.
    pub cache_damaged: usize,
    /// Calls that went out, retries included.
    pub calls: usize,
    /// Calls after a failed one for the same request.
    pub retries: usize,
    /// Requests without a usable reply.
    pub failures: usize,
    /// Prompt tokens that the endpoint counted, cached replies not included.
    pub prompt_tokens: u64,
    /// Reply tokens that the endpoint counted, cached replies not included.
    pub completion_tokens: u64,
    /// Replies whose tokens the endpoint did not count: the sums are too low by them.
    pub uncounted_replies: usize,
    /// What the counted tokens cost; absent without prices, or where replies were not counted.
    pub cost: Option<f64>,
    /// Seconds of each successful call, in the order in which they ended.
    #[serde(skip)]
    seconds: Vec<f64>,
    /// Median seconds of a successful call; absent without one.
    pub median_seconds: Option<f64>,
    /// Seconds that 95% of the successful calls stayed within; absent without one.
    pub p95_seconds: Option<f64>,
}

impl Counts {
    pub(super) fn add_reply(&mut self, reply: &ChatReply, took: Duration) {
        self.seconds.push(took.as_secs_f64());
        match (reply.prompt_tokens, reply.completion_tokens) {
            (Some(prompt), Some(completion)) => {
                self.prompt_tokens += prompt;
                self.completion_tokens += completion;
            }
            _ => self.uncounted_replies += 1,
        }
    }

    /// Counts one request that took one call, as those of a model of this machine do.
    pub fn add_outcome(&mut self, outcome: &Result<ChatReply, CallError>, took: Duration) {
        self.requests += 1;
        self.calls += 1;
        match outcome {
            Ok(reply) => self.add_reply(reply, took),
            Err(_) => self.failures += 1,
        }
    }

    /// The counts with their quantiles computed.
    #[must_use]
    pub fn summed_up(mut self) -> Self {
        self.seconds.sort_by(f64::total_cmp);
        self.median_seconds = quantile(&self.seconds, 0.5);
        self.p95_seconds = quantile(&self.seconds, 0.95);
        self
    }
}

/// Nearest rank.
fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

impl fmt::Display for Counts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} requests, {} from the cache, {} calls, {} retries, {} failed; {} prompt and {} reply tokens",
            self.requests,
            self.cache_hits,
            self.calls,
            self.retries,
            self.failures,
            self.prompt_tokens,
            self.completion_tokens,
        )?;
        if self.uncounted_replies > 0 {
            write!(formatter, " ({} replies uncounted)", self.uncounted_replies)?;
        }
        if let Some(cost) = self.cost {
            write!(formatter, "; cost {cost:.4}")?;
        }
        if let (Some(median), Some(p95)) = (self.median_seconds, self.p95_seconds) {
            write!(formatter, "; a call took {median:.2} s (median), {p95:.2} s (95%)")?;
        }
        Ok(())
    }
}
