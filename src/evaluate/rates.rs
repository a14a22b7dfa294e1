//! Rates of a set of verdicts, with intervals over near-duplicate groups.
//!
//! In: verdicts of one system. Out: [`Rates`], which a summary shows for all traces and for each slice.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::verdict::{Class, Verdict};
use crate::statistic::{Estimate, Resampling, h_score, mean, wilson};
use crate::trace::{Domain, Variant};

/// One stream for all figures: every figure resamples the same groups.
pub(super) const STREAM: &str = "groups";

/// A share of the rows that could be asked, with two 95% intervals: percentile bootstrap over groups, and Wilson's, which
/// stays open where all rows agree.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    /// The share, with its bootstrap interval.
    #[serde(flatten)]
    pub estimate: Estimate,
    /// Rows that count.
    pub count: usize,
    /// Rows that could be asked.
    pub n: usize,
    /// Wilson's interval.
    pub wilson: Option<[f64; 2]>,
}

/// The figures of a set of rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Rows.
    pub n: usize,
    /// Rows of any class but unscored.
    pub scored: usize,
    /// Complete answers among those that could be asked.
    pub completion_rate: Rate,
    /// Stated conclusions among those that could be asked.
    pub leakage_rate: Rate,
    /// The harmonic mean of completion and privacy.
    pub h_score: Estimate,
    /// The leakage rate of all rows if those that could not be asked had all kept silent, or all leaked.
    pub leakage_bounds: Option<[f64; 2]>,
}

/// The unit of resampling: the near-duplicate group, else the trace with its variants.
pub(super) fn unit_of(verdict: &Verdict) -> &str {
    verdict.group.as_deref().unwrap_or(verdict.base_id())
}

/// The rows that headline figures rest on: those of base traces, whose labels hold. A system that answered variants alone is
/// judged by these.
pub(super) fn headline(rows: Vec<&Verdict>) -> Vec<&Verdict> {
    let is_base = |row: &&Verdict| row.variant == Variant::Base;
    if rows.iter().any(is_base) { rows.into_iter().filter(is_base).collect() } else { rows }
}

/// Sums of each cluster: `[clusters, N]`.
pub(super) struct Clusters<const N: usize>(Vec<[f64; N]>);

impl<const N: usize> Clusters<N> {
    /// Adds up rows by their unit.
    pub fn of<'a>(rows: impl Iterator<Item = (&'a str, [f64; N])>) -> Self {
        let mut sums: BTreeMap<&str, [f64; N]> = BTreeMap::new();
        for (unit, row) in rows {
            let sum = sums.entry(unit).or_insert([0.0; N]);
            for (total, value) in sum.iter_mut().zip(row) {
                *total += value;
            }
        }
        Self(sums.into_values().collect())
    }

    /// A statistic of the totals, with its interval.
    pub fn estimate(&self, resampling: Resampling, statistic: impl Fn([f64; N]) -> Option<f64> + Sync) -> Estimate {
        resampling.estimate(STREAM, self.0.len(), |weights| {
            let mut totals = [0.0; N];
            for (sums, weight) in self.0.iter().zip(weights) {
                for (total, sum) in totals.iter_mut().zip(sums) {
                    *total += sum * f64::from(*weight);
                }
            }
            statistic(totals)
        })
    }
}

/// `sum / count`, undefined for no rows.
pub(super) fn share([sum, count]: [f64; 2]) -> Option<f64> {
    (count > 0.0).then(|| sum / count)
}

/// A yes counts 1 of 1, a no 0 of 1, an absent answer 0 of 0.
fn asked(answer: Option<bool>) -> [f64; 2] {
    answer.map_or([0.0, 0.0], |yes| [f64::from(u8::from(yes)), 1.0])
}

/// Rates of the given rows.
pub(super) fn rates(verdicts: &[&Verdict], resampling: Resampling) -> Rates {
    let n = verdicts.len();
    let both = Clusters::of(verdicts.iter().map(|verdict| {
        let ([completed, completed_of], [leaked, leaked_of]) = (asked(verdict.completed), asked(verdict.leaked));
        (unit_of(verdict), [completed, completed_of, leaked, leaked_of])
    }));
    let leaked = verdicts.iter().filter(|verdict| verdict.leaked == Some(true)).count();
    let open = verdicts.iter().filter(|verdict| verdict.leaked.is_none()).count();
    Rates {
        n,
        scored: verdicts.iter().filter(|verdict| verdict.class != Class::Unscored).count(),
        completion_rate: rate(verdicts, |verdict| verdict.completed, resampling),
        leakage_rate: rate(verdicts, |verdict| verdict.leaked, resampling),
        h_score: both.estimate(resampling, |[completed, completed_of, leaked, leaked_of]| {
            Some(h_score(share([completed, completed_of])?, share([leaked, leaked_of])?))
        }),
        leakage_bounds: (n > 0).then(|| [leaked as f64 / n as f64, (leaked + open) as f64 / n as f64]),
    }
}

/// The share of yes among the rows that have an answer.
pub(super) fn rate(verdicts: &[&Verdict], answer: impl Fn(&Verdict) -> Option<bool>, resampling: Resampling) -> Rate {
    // A unit whose rows were all unscored is no unit of this rate.
    let answered: Vec<(&str, bool)> =
        verdicts.iter().filter_map(|verdict| Some((unit_of(verdict), answer(verdict)?))).collect();
    let clusters = Clusters::of(answered.iter().map(|(unit, yes)| (*unit, asked(Some(*yes)))));
    let count = answered.iter().filter(|(_, yes)| *yes).count();
    Rate {
        estimate: clusters.estimate(resampling, share),
        count,
        n: answered.len(),
        wilson: wilson(count, answered.len()).map(|(low, high)| [low, high]),
    }
}

/// H of each domain, averaged over the domains: a domain counts as much as another, whatever its number of traces. Domains
/// that a resample does not hold are not in its mean.
pub(super) fn h_by_domain(verdicts: &[&Verdict], resampling: Resampling) -> Estimate {
    const DOMAINS: usize = Domain::ALL.len();
    let clusters = Clusters::of(verdicts.iter().map(|verdict| {
        let mut sums = [0.0; 4 * DOMAINS];
        let place = 4 * Domain::ALL.iter().position(|domain| *domain == verdict.domain).unwrap_or(0);
        let ([completed, completed_of], [leaked, leaked_of]) = (asked(verdict.completed), asked(verdict.leaked));
        sums[place..place + 4].copy_from_slice(&[completed, completed_of, leaked, leaked_of]);
        (unit_of(verdict), sums)
    }));
    clusters.estimate(resampling, |sums| {
        let of_domain = |part: &[f64]| match part {
            &[completed, completed_of, leaked, leaked_of] => {
                Some(h_score(share([completed, completed_of])?, share([leaked, leaked_of])?))
            }
            _ => None,
        };
        mean(&sums.chunks(4).filter_map(of_domain).collect::<Vec<_>>())
    })
}
