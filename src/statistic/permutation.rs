//! Exact tests of paired samples: under the null, the two systems of a pair could as well be swapped.
//!
//! In: paired differences, or a statistic of which pairs are swapped. Out: a two-sided [`PairedTest`].

use rand::RngExt as _;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::Resampling;

/// Pairs up to which every assignment is tried where no exact count by sums applies.
const ENUMERATION_LIMIT: usize = 16;

/// Assignments up to this many pairs fit in a `u128` count.
const COUNT_LIMIT: usize = 120;

/// Additions allowed for an exact count by sums.
const SUM_LIMIT: u64 = 50_000_000;

/// Denominators up to 2^20 are written out.
const PLAIN_DENOMINATOR: usize = 20;

/// How a p-value was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// All assignments counted.
    Exact,
    /// Seeded draws of assignments; p is never below one in the number of draws.
    Sampled,
}

/// A two-sided test of paired samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PairedTest {
    /// Pairs that are not equal.
    pub nonzero: usize,
    /// The p-value.
    pub p: f64,
    /// The same as a fraction, of 2^pairs where it is exact; absent where the count exceeds 128 bits.
    pub p_fraction: Option<String>,
    /// How it was found.
    pub method: Method,
}

/// Sign-flip test of the mean difference. Pairs of difference 0 never change p; with m others, all of one sign, p is
/// 2^(1-m). Differences on a common grid (0, 1/2, 1, ...) are counted exactly by their sums, whatever their number.
///
/// ```
/// # use topalign::statistic::{Resampling, sign_flip};
/// let test = sign_flip(&[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0], Resampling::default());
/// assert_eq!((test.p, test.p_fraction.as_deref()), (0.03125, Some("4/128")));
/// ```
pub fn sign_flip(differences: &[f64], resampling: Resampling) -> PairedTest {
    let mut moved: Vec<f64> = differences.iter().copied().filter(|difference| difference.abs() > 1e-12).collect();
    // The order of the pairs must not reach a sampled p.
    moved.sort_by(|a, b| a.abs().total_cmp(&b.abs()).then(a.total_cmp(b)));
    if let Some(steps) = on_grid(&moved) {
        return count_by_sums(&steps, differences.len());
    }
    let swapped = |signs: &[bool]| {
        moved.iter().zip(signs).map(|(difference, swap)| if *swap { -difference } else { *difference }).sum::<f64>()
    };
    swap_test(differences.len(), moved.len(), swapped, resampling)
}

/// Test of any statistic that changes its sign when all pairs are swapped. `statistic` sees which of the `movable` pairs
/// (those whose swap can matter) are swapped, `[movable]`; `pairs` counts all of them.
pub fn swap_test(
    pairs: usize,
    movable: usize,
    statistic: impl Fn(&[bool]) -> f64 + Sync,
    resampling: Resampling,
) -> PairedTest {
    let observed = statistic(&vec![false; movable]).abs();
    let reaches = |swaps: &[bool]| statistic(swaps).abs() >= observed - 1e-9 * observed.max(1e-3);
    if movable <= ENUMERATION_LIMIT {
        let all = 1_u32 << movable;
        let assignment = |bits: u32| (0..movable).map(|pair| bits >> pair & 1 == 1).collect::<Vec<bool>>();
        let count = (0..all).into_par_iter().filter(|&bits| reaches(&assignment(bits))).count();
        return exact(count as u128, movable, pairs);
    }
    let base = resampling.seed.stream("swap");
    let draws = resampling.resamples.max(1);
    let hits = (0..draws as u64)
        .into_par_iter()
        .filter(|&draw| {
            let mut random = base.clone();
            random.set_stream(draw);
            let swaps: Vec<bool> = (0..movable).map(|_| random.random::<bool>()).collect();
            reaches(&swaps)
        })
        .count();
    // The assignment seen is one of the draws: p is never 0.
    let p = (hits + 1) as f64 / (draws + 1) as f64;
    let p_fraction = Some(format!("{}/{}", hits + 1, draws + 1));
    PairedTest { nonzero: movable, p, p_fraction, method: Method::Sampled }
}

/// The differences as whole steps of their common unit, if they have one that keeps the count affordable.
fn on_grid(moved: &[f64]) -> Option<Vec<i64>> {
    let largest = moved.iter().fold(0.0_f64, |largest, value| largest.max(value.abs()));
    let tolerance = 1e-9 * largest;
    let unit = moved.iter().fold(0.0, |unit, value| common_unit(unit, value.abs(), tolerance));
    let mut total = 0_u64;
    let mut steps = Vec::with_capacity(moved.len());
    for value in moved {
        let step = (value / unit).round();
        if (value - step * unit).abs() > 1e-6 * unit || step.abs() > SUM_LIMIT as f64 {
            return None;
        }
        total += step.abs() as u64;
        steps.push(step as i64);
    }
    (total.saturating_mul(moved.len() as u64) <= SUM_LIMIT).then_some(steps)
}

/// Euclid's algorithm on reals: remainders below `tolerance` are 0.
fn common_unit(a: f64, b: f64, tolerance: f64) -> f64 {
    let (mut a, mut b) = (a, b);
    while b > tolerance {
        (a, b) = (b, a % b);
    }
    a
}

/// Counts sign assignments by the sum of their positive part, so that 2^m of them cost m times the range of the sums.
fn count_by_sums(steps: &[i64], pairs: usize) -> PairedTest {
    let total: i64 = steps.iter().map(|step| step.abs()).sum();
    let observed = steps.iter().sum::<i64>().abs();
    // A positive part of s means a sum of 2 s - total.
    let extreme = |positive: usize| (2 * positive as i64 - total).abs() >= observed;
    let cells = usize::try_from(total).unwrap_or(0) + 1;
    if steps.len() <= COUNT_LIMIT {
        let mut counts = vec![0_u128; cells];
        counts[0] = 1;
        for step in steps {
            let step = step.unsigned_abs() as usize;
            for positive in (step..cells).rev() {
                counts[positive] += counts[positive - step];
            }
        }
        let count = (0..cells).filter(|&positive| extreme(positive)).map(|positive| counts[positive]).sum();
        return exact(count, steps.len(), pairs);
    }
    let mut shares = vec![0.0_f64; cells];
    shares[0] = 1.0;
    for step in steps {
        let step = step.unsigned_abs() as usize;
        for positive in (0..cells).rev() {
            let carried = if positive >= step { shares[positive - step] } else { 0.0 };
            shares[positive] = 0.5 * (shares[positive] + carried);
        }
    }
    let p: f64 = (0..cells).filter(|&positive| extreme(positive)).map(|positive| shares[positive]).sum();
    let p = p.clamp(f64::MIN_POSITIVE, 1.0);
    PairedTest { nonzero: steps.len(), p, p_fraction: None, method: Method::Exact }
}

/// `count` of 2^movable assignments, written as a share of 2^pairs.
fn exact(count: u128, movable: usize, pairs: usize) -> PairedTest {
    let p = count as f64 / 2_f64.powi(i32::try_from(movable).unwrap_or(i32::MAX));
    let fraction = if pairs <= PLAIN_DENOMINATOR {
        format!("{}/{}", count << (pairs - movable), 1_u64 << pairs)
    } else if pairs <= COUNT_LIMIT {
        format!("{}/2^{pairs}", count << (pairs - movable))
    } else {
        format!("{count}/2^{movable}")
    };
    PairedTest { nonzero: movable, p, p_fraction: Some(fraction), method: Method::Exact }
}
