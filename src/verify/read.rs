//! The strict reading of the verifier's reply.
//!
//! In: the reply, the text and the batch that was asked about. Out: a [`Reading`], or why there is none. Never a guess: an
//! unknown id is no earlier one, and a quote that the text does not hold supports nothing.

use std::ops::{AddAssign, Range};

use regex::RegexBuilder;
use serde::{Deserialize, Serialize};

use crate::adjudicate::{Match, Tier};
use crate::contract::Target;
use crate::endpoint::read_answer;

/// Letters and digits that a quote must have: "it" tells nothing.
const LEAST_QUOTED: usize = 3;

/// Longer quotes are no passage but the text given back.
const LONGEST_QUOTE: usize = 4000;

/// Answers that were not accepted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejected {
    /// Ids that were not in the batch.
    pub outside_batch: usize,
    /// Ids of the batch whose quote is missing, too short, or not in the text.
    pub unsupported: usize,
}

impl AddAssign for Rejected {
    fn add_assign(&mut self, other: Self) {
        self.outside_batch += other.outside_batch;
        self.unsupported += other.unsupported;
    }
}

/// What a readable reply says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reading {
    /// Accepted matches, at most one a target, in the order of the reply.
    pub matches: Vec<Match>,
    /// The rest.
    pub rejected: Rejected,
}

/// Why a reply says nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// Not one JSON object of the asked form, plain or fenced.
    #[error("not one JSON object of the asked form")]
    NotTheForm,
}

#[derive(Deserialize)]
struct Reply {
    matches: Vec<Answer>,
}

#[derive(Deserialize)]
struct Answer {
    target_id: String,
    #[serde(default)]
    quote: Option<String>,
}

/// Reads a reply.
///
/// # Errors
/// [`Unreadable`].
pub fn read_reply(text: &str, payload: &str, batch: &[&Target]) -> Result<Reading, Unreadable> {
    let reply: Reply = read_answer(text).ok_or(Unreadable::NotTheForm)?;
    let mut reading = Reading::default();
    for answer in reply.matches {
        let Some(target) = batch.iter().find(|target| target.target_id == answer.target_id) else {
            reading.rejected.outside_batch += 1;
            continue;
        };
        let Some(span) = answer.quote.as_deref().and_then(|quote| find_quote(payload, quote)) else {
            reading.rejected.unsupported += 1;
            continue;
        };
        if reading.matches.iter().all(|found| found.target_id != target.target_id) {
            reading.matches.push(Match {
                target_id: target.target_id.clone(),
                alias: None,
                tier: Tier::Semantic,
                negated: false,
                weak: target.weak,
                span,
            });
        }
    }
    Ok(reading)
}

/// Where the text holds the quote: as it stands, or with other spaces and letter case, which models do not keep.
fn find_quote(payload: &str, quote: &str) -> Option<Range<usize>> {
    let quote = quote.trim();
    let letters = quote.chars().filter(|character| character.is_alphanumeric()).count();
    if letters < LEAST_QUOTED || quote.len() > LONGEST_QUOTE {
        return None;
    }
    if let Some(start) = payload.find(quote) {
        return Some(start..start + quote.len());
    }
    let words: Vec<String> = quote.split_whitespace().map(regex::escape).collect();
    let pattern = RegexBuilder::new(&words.join(r"\s+")).case_insensitive(true).build().ok()?;
    pattern.find(payload).map(|found| found.range())
}
