//! How two systems differ, paired by trace.
//!
//! In: verdicts by system. Out: a [`Contrast`] for every pair of systems and metric: difference = a - b, its bootstrap interval
//! over groups (both systems resampled together), and an exact paired test.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::rates::{Clusters, share, unit_of};
use super::verdict::Verdict;
use crate::statistic::{Estimate, Method, PairedTest, Resampling, h_score, sign_flip, swap_test};

/// One metric of two systems.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Contrast {
    /// What differs.
    pub metric: Metric,
    /// First system.
    pub a: String,
    /// Second system.
    pub b: String,
    /// Traces scored for both.
    pub pairs: usize,
    /// Pairs that are not equal.
    pub nonzero: usize,
    /// a - b.
    pub difference: Option<f64>,
    /// Lower end of its 95% interval.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// Two-sided p of the paired test.
    pub p: Option<f64>,
    /// The same as a fraction.
    pub p_fraction: Option<String>,
    /// How p was found.
    pub method: Option<Method>,
    /// Why something is absent or degenerate.
    pub reason: Option<String>,
}

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Complete answers.
    CompletionRate,
    /// Stated conclusions.
    LeakageRate,
    /// Harmonic mean of completion and privacy.
    HScore,
    /// Exposure coverage rate.
    Ecr,
}

impl Metric {
    /// All metrics, in table order.
    pub const ALL: [Self; 4] = [Self::CompletionRate, Self::LeakageRate, Self::HScore, Self::Ecr];

    /// The name used in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::CompletionRate => "completion_rate",
            Self::LeakageRate => "leakage_rate",
            Self::HScore => "h_score",
            Self::Ecr => "ecr",
        }
    }

    /// The name for people.
    pub fn title(self) -> &'static str {
        match self {
            Self::CompletionRate => "completion",
            Self::LeakageRate => "leakage",
            Self::HScore => "H",
            Self::Ecr => "ECR",
        }
    }
}

/// Means of one system over the seeds of one trace.
#[derive(Debug, Clone, Copy)]
struct Means<'a> {
    unit: &'a str,
    completed: Option<f64>,
    leaked: Option<f64>,
    ecr: Option<f64>,
}

/// One trace under both systems: values of a and of b, one for a plain metric, two for H.
struct Pair<'a> {
    unit: &'a str,
    a: [f64; 2],
    b: [f64; 2],
}

/// Every pair of systems, every metric.
pub(super) fn contrasts(systems: &BTreeMap<&str, Vec<&Verdict>>, resampling: Resampling) -> Vec<Contrast> {
    let means: Vec<(&str, BTreeMap<&str, Means<'_>>)> =
        systems.iter().map(|(name, rows)| (*name, by_trace(rows))).collect();
    let mut contrasts = Vec::new();
    for (place, (a, first)) in means.iter().enumerate() {
        for (b, second) in &means[place + 1..] {
            for metric in Metric::ALL {
                let pairs = pairs(metric, first, second);
                contrasts.push(contrast(metric, (a, b), &pairs, resampling));
            }
        }
    }
    contrasts
}

fn by_trace<'a>(rows: &[&'a Verdict]) -> BTreeMap<&'a str, Means<'a>> {
    let mut traces: BTreeMap<&str, Vec<&Verdict>> = BTreeMap::new();
    for row in rows {
        traces.entry(&row.trace_id).or_default().push(row);
    }
    let number = |yes: bool| f64::from(u8::from(yes));
    let mean = |values: Vec<f64>| crate::statistic::mean(&values);
    traces
        .into_iter()
        .map(|(id, rows)| {
            let means = Means {
                unit: unit_of(rows[0]),
                completed: mean(rows.iter().filter_map(|row| row.completed).map(number).collect()),
                leaked: mean(rows.iter().filter_map(|row| row.leaked).map(number).collect()),
                ecr: mean(rows.iter().filter_map(|row| row.exposure.as_ref()).map(|exposure| exposure.ecr).collect()),
            };
            (id, means)
        })
        .collect()
}

/// The traces that both systems were scored on.
fn pairs<'a>(
    metric: Metric,
    first: &BTreeMap<&'a str, Means<'a>>,
    second: &BTreeMap<&'a str, Means<'a>>,
) -> Vec<Pair<'a>> {
    let values = |means: &Means<'_>| match metric {
        Metric::CompletionRate => Some([means.completed?, 0.0]),
        Metric::LeakageRate => Some([means.leaked?, 0.0]),
        Metric::Ecr => Some([means.ecr?, 0.0]),
        Metric::HScore => Some([means.completed?, means.leaked?]),
    };
    let pair =
        |(id, a): (&&'a str, &Means<'a>)| Some(Pair { unit: a.unit, a: values(a)?, b: values(second.get(id)?)? });
    first.iter().filter_map(pair).collect()
}

fn contrast(metric: Metric, (a, b): (&str, &str), pairs: &[Pair<'_>], resampling: Resampling) -> Contrast {
    let sums = Clusters::of(pairs.iter().map(|pair| {
        let ([a0, a1], [b0, b1]) = (pair.a, pair.b);
        (pair.unit, [a0, a1, b0, b1, 1.0])
    }));
    let estimate = sums.estimate(resampling, |[a0, a1, b0, b1, count]| {
        Some(
            score(metric, [share([a0, count])?, share([a1, count])?])
                - score(metric, [share([b0, count])?, share([b1, count])?]),
        )
    });
    let test = (!pairs.is_empty()).then(|| test(metric, pairs, resampling));
    Contrast::of(metric, (a, b), pairs.len(), estimate, test)
}

/// The metric of two rates: H of completion and leakage, else the first alone.
fn score(metric: Metric, [first, second]: [f64; 2]) -> f64 {
    if metric == Metric::HScore { h_score(first, second) } else { first }
}

/// H is no mean over pairs, so its pairs are swapped whole instead of flipping the sign of a difference.
fn test(metric: Metric, pairs: &[Pair<'_>], resampling: Resampling) -> PairedTest {
    if metric != Metric::HScore {
        let differences: Vec<f64> = pairs.iter().map(|pair| pair.a[0] - pair.b[0]).collect();
        return sign_flip(&differences, resampling);
    }
    let shift = |pair: &Pair<'_>| [pair.b[0] - pair.a[0], pair.b[1] - pair.a[1]];
    let shifts: Vec<[f64; 2]> =
        pairs.iter().map(shift).filter(|parts| parts.iter().any(|part| part.abs() > 1e-12)).collect();
    let sum = |values: fn(&Pair<'_>) -> [f64; 2]| {
        pairs.iter().map(values).fold([0.0; 2], |sum, value| [sum[0] + value[0], sum[1] + value[1]])
    };
    let (a, b, count) = (sum(|pair| pair.a), sum(|pair| pair.b), pairs.len() as f64);
    let difference = |[completed, leaked]: [f64; 2]| {
        h_score((a[0] + completed) / count, (a[1] + leaked) / count)
            - h_score((b[0] - completed) / count, (b[1] - leaked) / count)
    };
    swap_test(pairs.len(), &shifts, difference, resampling)
}

impl Contrast {
    fn of(metric: Metric, (a, b): (&str, &str), pairs: usize, estimate: Estimate, test: Option<PairedTest>) -> Self {
        let reason = if pairs == 0 { Some("no trace is scored for both".to_owned()) } else { estimate.reason };
        let nonzero = test.as_ref().map_or(0, |test| test.nonzero);
        Self {
            metric,
            a: a.to_owned(),
            b: b.to_owned(),
            pairs,
            nonzero,
            difference: estimate.value,
            low: estimate.low,
            high: estimate.high,
            p: test.as_ref().map(|test| test.p),
            p_fraction: test.as_ref().and_then(|test| test.p_fraction.clone()),
            method: test.map(|test| test.method),
            reason,
        }
    }
}
