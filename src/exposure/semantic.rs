//! The semantic verifier over session logs: asked only about what matching left open, once for each text.
//!
//! In: observations with their matches. Out: matches of tier `semantic` added to them, and a [`SemanticReport`]. They stay out of
//! every headline figure. Source: ASLEval, D-2 (arXiv 2609.18864).

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::register::Frozen;
use crate::adjudicate::{Match, Matcher};
use crate::endpoint::Chat;
use crate::error::Result;
use crate::run::digest;
use crate::verify::{self, Outcome, Tally};

/// What the verifier did, beside the figures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SemanticReport {
    /// The verifier's name.
    pub model: String,
    /// What it was asked and what came of it.
    pub tally: Tally,
}

/// A verifier and what it has said so far, so that a second pass over a log asks nothing again.
pub struct Semantic<'a> {
    chat: &'a (dyn Chat + Sync),
    workers: usize,
    outcomes: Vec<Outcome>,
    /// Places in `outcomes` by the digest of targets, channel and text.
    known: HashMap<String, usize>,
}

/// A text that was searched.
pub(super) struct Searched<'a> {
    pub frozen: &'a Frozen,
    pub matcher: &'a Matcher,
    pub channel: &'a str,
    pub text: &'a str,
}

impl<'a> Semantic<'a> {
    /// A verifier that takes `workers` requests at a time.
    pub fn new(chat: &'a (dyn Chat + Sync), workers: usize) -> Self {
        Self { chat, workers, outcomes: Vec::new(), known: HashMap::new() }
    }

    /// What it did so far.
    pub fn report(&self) -> SemanticReport {
        SemanticReport { model: self.chat.model().to_owned(), tally: Tally::of(&self.outcomes) }
    }

    /// Its matches in each of the texts, in their order. What has no verdict is in the report, and no match.
    ///
    /// # Errors
    /// [`crate::error::Error::Interrupted`].
    pub(super) fn matches(&mut self, texts: &[Searched<'_>]) -> Result<Vec<Vec<Match>>> {
        let keys = texts.iter().map(Searched::key).collect::<Result<Vec<_>>>()?;
        let mut fresh = Vec::new();
        let mut questions = Vec::new();
        for (searched, key) in texts.iter().zip(&keys) {
            if self.known.contains_key(key) || fresh.contains(&key) {
                continue;
            }
            let contract = &searched.frozen.contract;
            let open = verify::Observation::new(contract, searched.matcher, searched.channel, searched.text);
            if let Some(open) = open {
                fresh.push(key);
                questions.push(open);
            }
        }
        let outcomes = verify::verify_all(self.chat, self.workers, &questions, || {})?;
        for (key, outcome) in fresh.into_iter().zip(outcomes) {
            self.known.insert(key.clone(), self.outcomes.len());
            self.outcomes.push(outcome);
        }
        let of = |key: &String| self.known.get(key).map(|&place| self.outcomes[place].matches.clone());
        Ok(keys.iter().map(|key| of(key).unwrap_or_default()).collect())
    }
}

impl Searched<'_> {
    fn key(&self) -> Result<String> {
        digest::of_value(&(&self.frozen.targets_key, &self.frozen.contract.contract_id, self.channel, self.text))
    }
}
