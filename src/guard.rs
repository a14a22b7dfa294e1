//! Guards: what they find at the exits they stand at does not leave.
//!
//! In: the frozen contract's matcher, exits, a share of targets that is caught. Out: texts in which every caught cover is replaced
//! and nothing else is touched. At every exit and with a share of 1 this is the all-exit redaction oracle.
//! Source: ASLEval, sections 4 and 5.2 (arXiv 2609.18864).

use std::collections::BTreeSet;
use std::ops::Range;

use rand::RngExt as _;

use crate::adjudicate::{Match, Matcher, Tier};
use crate::run::seed::Seed;
use crate::workspace::{Exit, Filter};

/// What stands in place of what was taken out.
pub const REDACTED: &str = "[redacted]";

/// Rounds of taking out: what is left may look like a target only once its neighbour is gone.
const ROUNDS: usize = 4;

/// A guard of one session.
#[derive(Debug)]
pub struct Guard<'a> {
    /// Where it stands.
    exits: BTreeSet<Exit>,
    matcher: &'a Matcher,
    /// Share of the targets that it knows; drawn once a session for each.
    recall: f64,
    seed: Seed,
}

impl<'a> Guard<'a> {
    /// A guard that catches each target with probability `recall`.
    pub fn new(exits: BTreeSet<Exit>, matcher: &'a Matcher, recall: f64, seed: Seed) -> Self {
        Self { exits, matcher, recall, seed }
    }

    fn catches(&self, target: &str) -> bool {
        self.recall >= 1.0 || self.seed.stream(&format!("guard/{target}")).random::<f64>() < self.recall
    }
}

impl Filter for Guard<'_> {
    fn pass(&self, exit: Exit, text: &str) -> String {
        if !self.exits.contains(&exit) {
            return text.to_owned();
        }
        redact(text, self.matcher, |target| self.catches(target))
    }
}

/// Takes every appearance of the targets that `catches` names out of a text. Should something still be found after some rounds,
/// nothing of the text is left.
pub fn redact(text: &str, matcher: &Matcher, catches: impl Fn(&str) -> bool) -> String {
    let mut text = text.to_owned();
    for _ in 0..ROUNDS {
        let found = covers(&matcher.find(&text), &catches);
        if found.is_empty() {
            return text;
        }
        text = without(&text, &found);
    }
    if covers(&matcher.find(&text), &catches).is_empty() { text } else { REDACTED.to_owned() }
}

/// Spans of caught targets in order, those that overlap or touch merged.
fn covers(matches: &[Match], catches: &impl Fn(&str) -> bool) -> Vec<Range<usize>> {
    // A part of a target, such as a surname, is anybody's word.
    let is_caught = |found: &&Match| found.tier < Tier::Partial && catches(&found.target_id);
    let mut spans: Vec<Range<usize>> = matches.iter().filter(is_caught).map(|found| found.span.clone()).collect();
    spans.sort_by_key(|span| (span.start, span.end));
    let mut covers: Vec<Range<usize>> = Vec::new();
    for span in spans {
        match covers.last_mut() {
            Some(last) if span.start <= last.end => last.end = last.end.max(span.end),
            _ => covers.push(span),
        }
    }
    covers
}

fn without(text: &str, covers: &[Range<usize>]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for cover in covers {
        out.push_str(&text[done..text.floor_char_boundary(cover.start)]);
        out.push_str(REDACTED);
        done = text.ceil_char_boundary(cover.end);
    }
    out.push_str(&text[done..]);
    out
}
