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
pub use library::digest as libraries_digest;
pub(crate) use value::{Pattern, Values};

use std::collections::{HashSet, VecDeque};

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
    /// The next scenario to draw, and the next to settle.
    next: usize,
    settled: usize,
    ready: VecDeque<Trace>,
    /// Short digests of (chain, task, values): none may come twice.
    seen: HashSet<[u8; 16]>,
}

/// A scenario as it was drawn, before it is known whether an earlier one is the same.
#[derive(Debug, Serialize, Deserialize)]
pub struct Drawn {
    attempt: u32,
    base: Trace,
    twins: Vec<Trace>,
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
        Ok(Self { request, maker, next: 0, settled: 0, ready: VecDeque::new(), seen: HashSet::new() })
    }

    /// Draws scenarios in parallel, each by itself.
    ///
    /// # Errors
    /// Libraries that give no sound scenario.
    pub fn draw(&self, indices: &[usize]) -> Result<Vec<Drawn>> {
        indices.par_iter().map(|&index| self.drawn(index, 0)).collect()
    }

    fn drawn(&self, index: usize, from: u32) -> Result<Drawn> {
        let Some((attempt, base)) = self.maker.sound(index, from) else {
            return Err(Error::Failed(format!("no sound scenario {index} in {ATTEMPTS} draws")));
        };
        let twins = match self.request.twins {
            Twins::None => Vec::new(),
            Twins::Both => self.maker.twins(&base, index),
        };
        Ok(Drawn { attempt, base, twins })
    }

    /// Takes the next scenario in order, so that the first of two equal ones stays and the other is drawn anew; returns its traces.
    ///
    /// # Errors
    /// As [`Scenarios::draw`].
    pub fn settle(&mut self, mut drawn: Drawn) -> Result<impl Iterator<Item = Trace> + use<>> {
        let index = self.settled;
        self.settled += 1;
        while !self.seen.insert(fingerprint(&drawn.base)) {
            drawn = self.drawn(index, drawn.attempt + 1)?;
        }
        Ok(std::iter::once(drawn.base).chain(drawn.twins))
    }

    /// Scenarios settled until now.
    pub fn settled(&self) -> usize {
        self.settled
    }

    fn refill(&mut self) -> Result<()> {
        let range = self.next..self.request.count.min(self.next + CHUNK);
        self.next = range.end;
        for drawn in self.draw(&range.collect::<Vec<_>>())? {
            let traces = self.settle(drawn)?;
            self.ready.extend(traces);
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
    digest::short(text.as_bytes())
}
