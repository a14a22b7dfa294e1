//! Means over sessions with their intervals.
//!
//! In: scored sessions and questions, each a number a session or nothing. Out: one [`Figure`] a question. The session is the
//! unit; sessions of one cluster are resampled together.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::session::Scored;
use crate::statistic::{Column, Estimate, Resampling};

/// A mean over sessions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The mean; absent without any session that has a value.
    pub mean: Option<f64>,
    /// Lower end of the 95% interval.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// Sessions that have a value.
    pub n: usize,
    /// Every session has the same value, so the interval says nothing about others.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub degenerate: bool,
    /// Why something is absent or degenerate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Figure {
    pub(super) fn new(estimate: Estimate, n: usize) -> Self {
        Self {
            mean: estimate.value,
            low: estimate.low,
            high: estimate.high,
            n,
            degenerate: estimate.degenerate,
            reason: estimate.reason,
        }
    }
}

/// A number that a session may have.
pub(super) type Question<'a> = Box<dyn Fn(&Scored) -> Option<f64> + 'a>;

/// Questions to one set of sessions.
pub(super) struct Questions<'a> {
    sessions: &'a [&'a Scored],
    questions: Vec<(String, Question<'a>)>,
}

impl<'a> Questions<'a> {
    pub fn new(sessions: &'a [&'a Scored]) -> Self {
        Self { sessions, questions: Vec::new() }
    }

    /// Asks every session.
    pub fn ask(&mut self, name: impl Into<String>, question: impl Fn(&Scored) -> Option<f64> + 'a) {
        self.questions.push((name.into(), Box::new(question)));
    }

    /// All means, on the same resamples.
    pub fn answer(self, resampling: Resampling) -> Answers {
        let (places, clusters) = clusters(self.sessions);
        let columns: Vec<Column> = self
            .questions
            .iter()
            .map(|(_, question)| {
                let values = self.sessions.iter().zip(&places).map(|(scored, place)| (*place, question(scored)));
                Column::of(clusters, values)
            })
            .collect();
        let sizes = columns.iter().map(|column| column.counts.iter().sum::<f64>() as usize).collect::<Vec<_>>();
        let estimates = resampling.means("sessions", clusters, &columns);
        let names = self.questions.into_iter().map(|(name, _)| name);
        let figures = estimates.into_iter().zip(sizes).map(|(estimate, n)| Figure::new(estimate, n));
        Answers(names.zip(figures).collect())
    }
}

/// Cluster of each session, and how many there are; a session without a cluster is one of its own.
pub(super) fn clusters(sessions: &[&Scored]) -> (Vec<usize>, usize) {
    let mut known: BTreeMap<&str, usize> = BTreeMap::new();
    let mut count = 0;
    let mut next = || {
        count += 1;
        count - 1
    };
    let places = sessions
        .iter()
        .map(|scored| match scored.session.cluster.as_deref() {
            Some(name) => *known.entry(name).or_insert_with(&mut next),
            None => next(),
        })
        .collect();
    (places, count)
}

/// Figures by the name of their question.
pub(super) struct Answers(BTreeMap<String, Figure>);

impl Answers {
    /// The figure of a question that was asked.
    pub fn take(&mut self, name: &str) -> Figure {
        self.0.remove(name).unwrap_or_default()
    }

    /// The figures whose question starts with `prefix`, by the rest of its name.
    pub fn take_all(&mut self, prefix: &str) -> BTreeMap<String, Figure> {
        let names: Vec<String> = self.0.keys().filter(|name| name.starts_with(prefix)).cloned().collect();
        names.into_iter().map(|name| (name[prefix.len()..].to_owned(), self.take(&name))).collect()
    }
}
