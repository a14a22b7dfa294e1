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
mod variant;

pub use check::{Problem, examine, joined};
pub(crate) use value::{Pattern, Values};

use std::collections::{BTreeSet, VecDeque};

use rand::RngExt as _;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::run::digest;
use crate::run::seed::Seed;
use crate::trace::{Difficulty, Domain, Part, Trace};

use compose::{Composer, Entry};
use library::Library;

/// Draws of one scenario before the libraries are blamed.
const ATTEMPTS: u32 = 64;
/// Scenarios composed at once.
const CHUNK: usize = 512;

/// What to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Base scenarios.
    pub count: usize,
    /// Seed of all choices.
    pub seed: Seed,
    /// Names, values and task wordings of one part never occur in the other; absent draws from both.
    pub part: Option<Part>,
    /// What follows each base scenario.
    pub twins: Twins,
    /// Percent of the scenarios whose request asks for the private entry itself: there, disclosing it is right.
    pub disclosing: u8,
    /// How requests list what they ask for.
    pub wording: Wording,
}

/// How a request lists what it asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wording {
    /// In a sentence.
    #[default]
    Prose,
    /// As the numbered fields of a form, each by the name that the records have for it.
    Form,
}

/// The paired tests of a scenario.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Twins {
    /// None.
    #[default]
    None,
    /// A social-context twin and a negative control.
    Both,
}

/// The scenarios of a request, one after the other, each with its twins.
#[derive(Debug)]
pub struct Scenarios {
    request: Request,
    maker: Maker,
    next: usize,
    ready: VecDeque<Trace>,
    /// Short digests of (chain, task, values): none may come twice.
    seen: BTreeSet<[u8; 16]>,
}

impl Scenarios {
    /// Prepares the libraries.
    ///
    /// # Errors
    /// A library that does not parse or breaks its own rules.
    pub fn new(request: Request) -> Result<Self> {
        let maker = Maker {
            library: Library::embedded(request.part)?,
            values: Values::new(request.part),
            digest: library::digest(),
            seed: request.seed,
            part: request.part,
            disclosing: request.disclosing,
            wording: request.wording,
        };
        Ok(Self { request, maker, next: 0, ready: VecDeque::new(), seen: BTreeSet::new() })
    }

    /// Composes the next scenarios in parallel and takes them in order, so that the first of two equal ones stays.
    fn refill(&mut self) -> Result<()> {
        let range = self.next..self.request.count.min(self.next + CHUNK);
        self.next = range.end;
        let drawn: Vec<Option<(u32, Trace)>> =
            range.clone().into_par_iter().map(|index| self.maker.sound(index, 0)).collect();
        for (index, mut drawn) in range.zip(drawn) {
            let trace = loop {
                let Some((attempt, trace)) = drawn else {
                    return Err(Error::Failed(format!("no sound scenario {index} in {ATTEMPTS} draws")));
                };
                if self.seen.insert(fingerprint(&trace)) {
                    break trace;
                }
                drawn = self.maker.sound(index, attempt + 1);
            };
            let twins = match self.request.twins {
                Twins::None => Vec::new(),
                Twins::Both => self.maker.twins(&trace, index),
            };
            self.ready.push_back(trace);
            self.ready.extend(twins);
        }
        Ok(())
    }
}

/// Composes single scenarios; each depends on seed, part and index alone.
#[derive(Debug)]
struct Maker {
    library: Library,
    values: Values,
    digest: String,
    seed: Seed,
    part: Option<Part>,
    disclosing: u8,
    wording: Wording,
}

impl Maker {
    /// The first sound draw from this attempt on.
    fn sound(&self, index: usize, from: u32) -> Option<(u32, Trace)> {
        let part = part_name(self.part);
        // A stream of its own, so that the share changes no other choice.
        let draw: u8 = self.seed.stream(&format!("synthesis/{part}/{index}/entry")).random_range(0..100);
        let entry = if draw < self.disclosing { Entry::Asked } else { Entry::Private };
        (from..ATTEMPTS).find_map(|attempt| {
            let mut rng = self.seed.stream(&format!("synthesis/{part}/{index}/{attempt}"));
            let composer = Composer { library: &self.library, values: &self.values, wording: self.wording };
            let scenario = composer.compose(domain_of(index), difficulty_of(index), entry, &mut rng)?;
            let id = format!("synthetic/{part}-{}/{index}", self.seed.0);
            let trace = scenario.into_trace(&self.library, id, index, &self.digest);
            examine(&trace).is_empty().then_some((attempt, trace))
        })
    }

    fn twins(&self, base: &Trace, index: usize) -> Vec<Trace> {
        let mut rng = self.seed.stream(&format!("synthesis/{}/{index}/twins", part_name(self.part)));
        let twin = variant::social_context(base, &self.library, &mut rng);
        let control = variant::negative_control(base, &self.library, &mut rng);
        twin.into_iter().chain(control).collect()
    }
}

impl Iterator for Scenarios {
    type Item = Result<Trace>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ready.is_empty()
            && self.next < self.request.count
            && let Err(error) = self.refill()
        {
            self.next = self.request.count;
            return Some(Err(error));
        }
        self.ready.pop_front().map(Ok)
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
