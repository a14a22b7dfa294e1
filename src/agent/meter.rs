//! What a session's model took: calls, tokens, time.

use std::time::Instant;

use crate::endpoint::{CallError, Chat, ChatReply, ChatRequest};

/// Where the time of a call comes from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Clock {
    /// The machine's clock: a run's times are not repeatable.
    Wall,
    /// So many seconds a call and a token of its reply, declared: a scripted model's.
    Declared {
        /// Of each call.
        call_seconds: f64,
        /// Of each token of the reply.
        token_seconds: f64,
    },
}

/// Counts of one session.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usage {
    /// Calls of the model.
    pub calls: u64,
    /// Those that failed.
    pub failures: u64,
    /// Prompt tokens as counted by the provider.
    pub prompt_tokens: u64,
    /// Reply tokens as counted by the provider.
    pub completion_tokens: u64,
    /// Replies whose tokens nobody counted.
    pub uncounted: u64,
    /// Seconds in calls.
    pub seconds: f64,
}

/// A model with a count of one session.
pub struct Meter<'a> {
    chat: &'a (dyn Chat + Sync),
    clock: Clock,
    usage: Usage,
}

impl<'a> Meter<'a> {
    /// Nothing asked yet.
    pub fn new(chat: &'a (dyn Chat + Sync), clock: Clock) -> Self {
        Self { chat, clock, usage: Usage::default() }
    }

    /// The counts.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// Asks and counts.
    ///
    /// # Errors
    /// The model's.
    pub fn ask(&mut self, request: &ChatRequest) -> Result<ChatReply, CallError> {
        let started = Instant::now();
        let outcome = self.chat.chat(request);
        self.usage.calls += 1;
        let tokens = outcome.as_ref().ok().and_then(|reply| reply.prompt_tokens.zip(reply.completion_tokens));
        match (&outcome, tokens) {
            (Err(_), _) => self.usage.failures += 1,
            (Ok(_), None) => self.usage.uncounted += 1,
            (Ok(_), Some((prompt, completion))) => {
                self.usage.prompt_tokens += prompt;
                self.usage.completion_tokens += completion;
            }
        }
        self.usage.seconds += match self.clock {
            Clock::Wall => started.elapsed().as_secs_f64(),
            Clock::Declared { call_seconds, token_seconds } => {
                call_seconds + token_seconds * tokens.map_or(0.0, |(_, completion)| completion as f64)
            }
        };
        outcome
    }
}
