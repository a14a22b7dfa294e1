//! Scenarios with known truth, composed from four libraries by reverse inference: a sensitive conclusion first, then a chain that
//! leads to it, its steps placed in two to five tools, noise beside them, and a benign request that needs some of the same values.
//!
//! In: a count, a seed and a part of the value space. Out: canonical [`Trace`]s whose targets, required values, clues and support
//! are declared. Pure: the libraries are compiled in. Source: the three conditions C1 to C3 of TOP-R (arXiv 2512.16310).
//!
//! Scenario `i` depends on seed, part and `i` alone, so that a longer file starts with the shorter one, whatever the thread count.

mod check;
mod compose;
mod library;
mod prose;
mod value;

pub use check::{Problem, examine, joined};

use std::collections::BTreeSet;

use crate::dataset::Part;
use crate::error::{Error, Result};
use crate::run::digest;
use crate::run::seed::Seed;
use crate::trace::{Difficulty, Domain, Trace};

use compose::Composer;
use library::Library;
use value::Values;

/// Draws of one scenario before the libraries are blamed.
const ATTEMPTS: u32 = 64;

/// What to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Base scenarios.
    pub count: usize,
    /// Seed of all choices.
    pub seed: Seed,
    /// Names, values and task wordings of one part never occur in the other; absent draws from both.
    pub part: Option<Part>,
}

/// The scenarios of a request, one after the other.
#[derive(Debug)]
pub struct Scenarios {
    request: Request,
    library: Library,
    values: Values,
    digest: String,
    next: usize,
    /// Short digests of (chain, task, values): none may come twice.
    seen: BTreeSet<[u8; 16]>,
}

impl Scenarios {
    /// Prepares the libraries.
    ///
    /// # Errors
    /// A library that does not parse or breaks its own rules.
    pub fn new(request: Request) -> Result<Self> {
        let library = Library::embedded(request.part)?;
        Ok(Self {
            request,
            values: Values::new(request.part),
            digest: library::digest(),
            library,
            next: 0,
            seen: BTreeSet::new(),
        })
    }

    fn compose(&mut self, index: usize) -> Result<Trace> {
        for attempt in 0..ATTEMPTS {
            let part = part_name(self.request.part);
            let mut rng = self.request.seed.stream(&format!("synthesis/{part}/{index}/{attempt}"));
            let composer = Composer { library: &self.library, values: &self.values };
            let Some(scenario) = composer.compose(domain_of(index), difficulty_of(index), &mut rng) else { continue };
            let id = format!("synthetic/{part}-{}/{index}", self.request.seed.0);
            let trace = scenario.into_trace(&self.library, id, index, &self.digest);
            if examine(&trace).is_empty() && self.seen.insert(fingerprint(&trace)) {
                return Ok(trace);
            }
        }
        Err(Error::Failed(format!("no sound scenario {index} in {ATTEMPTS} draws")))
    }
}

impl Iterator for Scenarios {
    type Item = Result<Trace>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next == self.request.count {
            return None;
        }
        let index = self.next;
        self.next += 1;
        Some(self.compose(index))
    }
}

/// All scenarios of a request.
///
/// # Errors
/// As [`Scenarios::new`].
pub fn synthesize(request: Request) -> Result<Vec<Trace>> {
    Scenarios::new(request)?.collect()
}

/// Domains and difficulties take turns, so that every prefix is balanced.
fn domain_of(index: usize) -> Domain {
    Domain::ALL[index % Domain::ALL.len()]
}

fn difficulty_of(index: usize) -> Difficulty {
    [Difficulty::D1, Difficulty::D2, Difficulty::D3, Difficulty::D4][index / Domain::ALL.len() % 4]
}

fn part_name(part: Option<Part>) -> &'static str {
    match part {
        None => "all",
        Some(Part::Train) => "train",
        Some(Part::HeldOut) => "held-out",
    }
}

/// Of the chain, the task and every value shown: what must not repeat.
fn fingerprint(trace: &Trace) -> [u8; 16] {
    let mut text = trace.goal.clone();
    for tool in &trace.tools {
        text.push_str(&tool.return_text);
    }
    text.push_str(&trace.sensitive_conclusion);
    let hex = digest::of_bytes(text.as_bytes());
    let mut short = [0; 16];
    for (byte, pair) in short.iter_mut().zip(hex.as_bytes().chunks(2)) {
        *byte = std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok()).unwrap_or_default();
    }
    short
}
