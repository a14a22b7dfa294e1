//! A fixed sequence of requests, whatever comes back.

use super::{Feedback, Probe, candidates};
use crate::endpoint::CallError;

/// Asks what an earlier session asked.
#[derive(Debug, Clone)]
pub struct Replay {
    waiting: std::vec::IntoIter<String>,
    shown: Vec<String>,
}

impl Replay {
    /// A sequence, in order.
    pub fn new(requests: Vec<String>) -> Self {
        Self { waiting: requests.into_iter(), shown: Vec::new() }
    }
}

impl Probe for Replay {
    fn see(&mut self, feedback: &Feedback) {
        self.shown.extend(feedback.shown.iter().cloned());
    }

    fn next(&mut self) -> Result<Option<String>, CallError> {
        Ok(self.waiting.next())
    }

    fn report(&mut self, most: Option<usize>) -> Result<Vec<String>, CallError> {
        Ok(candidates(&self.shown, most))
    }
}
