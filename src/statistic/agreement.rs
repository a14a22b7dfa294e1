//! How far two sets of labels agree: raw agreement, Cohen's kappa for any number of classes, strict F1.
//!
//! In: pairs of labels. Out: a [`Confusion`] table and the figures that follow from it.
//! Source: Cohen 1960; ASLEval, section 3.3.

use std::collections::{BTreeMap, BTreeSet};

/// How often each pair of labels occurs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Confusion(BTreeMap<(String, String), u64>);

/// Precision, recall and F1 of one class, where every other label counts as "not it".
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StrictScore {
    /// Absent when the class was never predicted.
    pub precision: Option<f64>,
    /// Absent when the class never occurs.
    pub recall: Option<f64>,
    /// Absent when it neither occurs nor was predicted.
    pub f1: Option<f64>,
}

impl Confusion {
    /// Adds a pair.
    pub fn add(&mut self, a: &str, b: &str, times: u64) {
        if times > 0 {
            *self.0.entry((a.to_owned(), b.to_owned())).or_default() += times;
        }
    }

    /// Pairs in it.
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// Labels of either side, by name.
    pub fn labels(&self) -> BTreeSet<&str> {
        self.0.keys().flat_map(|(a, b)| [a.as_str(), b.as_str()]).collect()
    }

    /// How often `a` met `b`.
    pub fn count(&self, a: &str, b: &str) -> u64 {
        self.0.get(&(a.to_owned(), b.to_owned())).copied().unwrap_or(0)
    }

    /// Every pair that occurs, with its count.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str, u64)> {
        self.0.iter().map(|((a, b), count)| (a.as_str(), b.as_str(), *count))
    }

    /// Share of equal pairs; `None` of nothing.
    pub fn raw(&self) -> Option<f64> {
        let equal: u64 = self.iter().filter(|(a, b, _)| a == b).map(|(_, _, count)| count).sum();
        (self.total() > 0).then(|| equal as f64 / self.total() as f64)
    }

    /// `(p_o - p_e) / (1 - p_e)`; `None` when both sides know one class only, where chance alone agrees always.
    pub fn kappa(&self) -> Option<f64> {
        let total = self.total() as f64;
        let (mut first, mut second): (BTreeMap<&str, u64>, BTreeMap<&str, u64>) = Default::default();
        for (a, b, count) in self.iter() {
            *first.entry(a).or_default() += count;
            *second.entry(b).or_default() += count;
        }
        let together = |(label, count): (&&str, &u64)| *count as f64 * second.get(label).copied().unwrap_or(0) as f64;
        let chance = first.iter().map(together).sum::<f64>() / (total * total);
        let raw = self.raw()?;
        (self.labels().len() > 1 && chance < 1.0).then(|| (raw - chance) / (1.0 - chance))
    }

    /// Strict score of the second label as a prediction of the first: only `positive` itself counts.
    pub fn strict(&self, positive: &str) -> StrictScore {
        let hits = self.count(positive, positive);
        let of = |side: fn((&str, &str)) -> String| -> u64 {
            self.iter().filter(|(a, b, _)| side((a, b)) == positive).map(|(_, _, count)| count).sum()
        };
        let (actual, predicted) = (of(|(a, _)| a.to_owned()), of(|(_, b)| b.to_owned()));
        let share = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
        StrictScore {
            precision: share(hits, predicted),
            recall: share(hits, actual),
            f1: share(2 * hits, actual + predicted),
        }
    }
}
