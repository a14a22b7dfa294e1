//! The percentile bootstrap over clusters.
//!
//! In: a number of clusters and a statistic of how often each is drawn. Out: an [`Estimate`].

use rand::RngExt as _;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::run::seed::Seed;

/// Replicates closer than this are equal: means of equal fractions differ in their last bits.
const SAME: f64 = 1e-12;

/// A figure with its 95% interval; what cannot be computed is absent and says why.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The figure.
    pub value: Option<f64>,
    /// Lower end.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// The sample is constant: the interval is the point itself and says nothing about other samples.
    #[serde(default)]
    pub degenerate: bool,
    /// Why something is absent or degenerate.
    #[serde(default)]
    pub reason: Option<String>,
}

impl Estimate {
    /// No figure, because of `reason`.
    pub fn absent(reason: impl Into<String>) -> Self {
        Self { reason: Some(reason.into()), ..Self::default() }
    }

    /// A figure without an interval, because of `reason`.
    pub fn point(value: f64, reason: impl Into<String>) -> Self {
        Self { value: Some(value), reason: Some(reason.into()), ..Self::default() }
    }
}

/// How often to resample, and from which seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resampling {
    /// Resamples of a bootstrap, draws of a sampled test.
    pub resamples: usize,
    /// Seed of every stream.
    pub seed: Seed,
}

impl Default for Resampling {
    fn default() -> Self {
        Self { resamples: 10_000, seed: Seed(2027) }
    }
}

impl Resampling {
    /// The statistic of the whole sample with its percentile interval.
    ///
    /// `statistic` sees how often each cluster is in the sample, `[clusters]`; `None` where it is undefined (nothing scored).
    /// `name` names the stream: figures with one name resample the same clusters.
    pub fn estimate(&self, name: &str, clusters: usize, statistic: impl Fn(&[u32]) -> Option<f64> + Sync) -> Estimate {
        let Some(value) = statistic(&vec![1; clusters]) else { return Estimate::absent("nothing scored") };
        if clusters < 2 {
            return Estimate::point(value, "one unit: no interval");
        }
        interval(value, self.replicates(name, clusters, &statistic))
    }

    /// The statistic of each resample, in order; undefined ones are left out. Each resample has a stream of its own, so
    /// threads cannot change it.
    fn replicates(&self, name: &str, clusters: usize, statistic: &(impl Fn(&[u32]) -> Option<f64> + Sync)) -> Vec<f64> {
        let base = self.seed.stream(&format!("bootstrap/{name}"));
        let draw = |weights: &mut Vec<u32>, resample: u64| {
            let mut random = base.clone();
            random.set_stream(resample);
            weights.clear();
            weights.resize(clusters, 0);
            for _ in 0..clusters {
                weights[random.random_range(0..clusters)] += 1;
            }
            statistic(weights)
        };
        let replicates: Vec<Option<f64>> =
            (0..self.resamples as u64).into_par_iter().map_init(Vec::new, draw).collect();
        replicates.into_iter().flatten().filter(|value| value.is_finite()).collect()
    }
}

/// Sums and counts of one figure by cluster, both `[clusters]`; the figure is the ratio of their totals.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Column {
    /// Sum of the values in each cluster.
    pub sums: Vec<f64>,
    /// Values in each cluster.
    pub counts: Vec<f64>,
}

impl Column {
    /// Adds up values by cluster; units without a value count nowhere.
    pub fn of(clusters: usize, values: impl Iterator<Item = (usize, Option<f64>)>) -> Self {
        let mut column = Self { sums: vec![0.0; clusters], counts: vec![0.0; clusters] };
        for (cluster, value) in values {
            if let Some(value) = value {
                column.sums[cluster] += value;
                column.counts[cluster] += 1.0;
            }
        }
        column
    }

    /// The mean of every cluster, where it is one and the same: no resample can change it.
    fn constant(&self) -> Option<f64> {
        let mut means =
            self.sums.iter().zip(&self.counts).filter(|(_, count)| **count > 0.0).map(|(sum, count)| sum / count);
        let first = means.next().unwrap_or(0.0);
        means.all(|mean| (mean - first).abs() < SAME).then_some(first)
    }

    fn mean(&self, weights: &[f64]) -> Option<f64> {
        let (mut sum, mut count) = (0.0, 0.0);
        for ((weight, part), of) in weights.iter().zip(&self.sums).zip(&self.counts) {
            sum += weight * part;
            count += weight * of;
        }
        (count > 0.0).then(|| sum / count)
    }
}

impl Resampling {
    /// Means of many figures over the same clusters, each with its percentile interval. Every resample is drawn once for all of
    /// them, so that they move together and cost little more than one.
    pub fn means(&self, name: &str, clusters: usize, columns: &[Column]) -> Vec<Estimate> {
        let base = self.seed.stream(&format!("bootstrap/{name}"));
        let moving: Vec<usize> = (0..columns.len()).filter(|place| columns[*place].constant().is_none()).collect();
        let draw = |weights: &mut Vec<f64>, resample: u64| -> Vec<Option<f64>> {
            let mut random = base.clone();
            random.set_stream(resample);
            weights.clear();
            weights.resize(clusters, 0.0);
            for _ in 0..clusters {
                weights[random.random_range(0..clusters)] += 1.0;
            }
            moving.iter().map(|place| columns[*place].mean(weights)).collect()
        };
        let drawn: Vec<Vec<Option<f64>>> = if moving.is_empty() {
            Vec::new()
        } else {
            (0..self.resamples as u64).into_par_iter().map_init(Vec::new, draw).collect()
        };
        let whole = vec![1.0; clusters];
        columns
            .iter()
            .enumerate()
            .map(|(place, column)| {
                let Some(value) = column.mean(&whole) else { return Estimate::absent("nothing to average") };
                if column.counts.iter().filter(|count| **count > 0.0).count() < 2 {
                    return Estimate::point(value, "one unit: no interval");
                }
                match moving.binary_search(&place) {
                    Ok(at) => interval(value, drawn.iter().filter_map(|resample| resample[at]).collect()),
                    Err(_) => interval(value, vec![value]),
                }
            })
            .collect()
    }
}

/// A value with the percentile interval of its replicates.
fn interval(value: f64, mut replicates: Vec<f64>) -> Estimate {
    if replicates.is_empty() {
        return Estimate::point(value, "no resample could be scored: no interval");
    }
    replicates.sort_by(f64::total_cmp);
    let (low, high) = (quantile(&replicates, 0.025), quantile(&replicates, 0.975));
    let degenerate = replicates.last().zip(replicates.first()).is_some_and(|(last, first)| last - first < SAME);
    if degenerate {
        let reason = Some("constant sample: the interval is degenerate".to_owned());
        return Estimate { value: Some(value), low: Some(value), high: Some(value), degenerate, reason };
    }
    Estimate { value: Some(value), low: Some(low), high: Some(high), degenerate, reason: None }
}

/// Linear between order statistics (the common "type 7"); `sorted` is not empty.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let position = share * (sorted.len() - 1) as f64;
    let below = position.floor() as usize;
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] + (sorted[above] - sorted[below]) * (position - below as f64)
}
