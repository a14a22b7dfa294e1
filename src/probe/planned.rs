//! A question bank: every area by every outlet, in a seeded order.

use std::collections::VecDeque;

use rand::seq::{IndexedRandom as _, SliceRandom as _};
use rand_chacha::ChaCha8Rng;

use super::{Brief, Feedback, Outlet, Probe, Progress, candidates};
use crate::endpoint::CallError;
use crate::run::seed::Seed;

const WORDINGS: [&str; 4] = [
    "Please go through the {area} and {asking}.",
    "I need an overview of the {area}: {asking}.",
    "Look at the {area} once more and {asking}, with every detail.",
    "For our records, take the {area} and {asking}.",
];

/// Asks its bank until the budget or the bank is spent.
#[derive(Debug)]
pub struct Planned {
    waiting: VecDeque<(String, Outlet)>,
    last_area: Option<String>,
    asked: u32,
    budget: u32,
    wording: ChaCha8Rng,
    shown: Vec<String>,
    progress: Option<Progress>,
}

impl Planned {
    /// The bank of a brief. Each question is asked once: a bank that is larger than the budget is cut, after shuffling.
    pub fn new(brief: &Brief, seed: Seed) -> Self {
        let pair =
            |area: &String| brief.outlets.iter().map(|outlet| (area.clone(), outlet.clone())).collect::<Vec<_>>();
        let mut questions: Vec<(String, Outlet)> = brief.areas.iter().flat_map(pair).collect();
        questions.shuffle(&mut seed.stream("probe/bank"));
        Self {
            waiting: questions.into(),
            last_area: None,
            asked: 0,
            budget: brief.budget,
            wording: seed.stream("probe/wording"),
            shown: Vec::new(),
            progress: None,
        }
    }

    /// After progress the same area is asked for again, else another one.
    fn choose(&mut self) -> Option<(String, Outlet)> {
        let last = self.last_area.as_ref();
        let place = match (self.progress, last) {
            (Some(Progress::New), Some(last)) => self.waiting.iter().position(|(area, _)| area == last),
            (Some(Progress::Same), Some(last)) => self.waiting.iter().position(|(area, _)| area != last),
            _ => None,
        };
        self.waiting.remove(place.unwrap_or(0))
    }
}

impl Probe for Planned {
    fn see(&mut self, feedback: &Feedback) {
        self.shown.extend(feedback.shown.iter().cloned());
        self.progress = feedback.progress;
    }

    fn next(&mut self) -> Result<Option<String>, CallError> {
        if self.asked >= self.budget {
            return Ok(None);
        }
        let Some((area, outlet)) = self.choose() else { return Ok(None) };
        self.asked += 1;
        let wording = WORDINGS.choose(&mut self.wording).copied().unwrap_or(WORDINGS[0]);
        self.last_area = Some(area.clone());
        Ok(Some(wording.replace("{area}", &area).replace("{asking}", &outlet.asking)))
    }

    fn report(&mut self, most: Option<usize>) -> Result<Vec<String>, CallError> {
        Ok(candidates(&self.shown, most))
    }
}
