//! Exact tests of paired samples: under the null, the two systems of a pair could as well be swapped.
//!
//! In: paired differences, or a statistic of which pairs are swapped. Out: a two-sided [`PairedTest`].

use std::collections::BTreeMap;

use rand::RngExt as _;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::Resampling;

/// Combinations of kinds of pairs up to which an exact count is affordable.
const COMBINATION_LIMIT: u64 = 1 << 20;

/// Assignments up to this many pairs fit in a `u128` count.
const COUNT_LIMIT: usize = 120;

/// Additions allowed for an exact count by sums.
const SUM_LIMIT: u64 = 400_000_000;

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
    // Swapping a pair takes its difference away twice.
    let observed: f64 = moved.iter().sum();
    let shifts: Vec<[f64; 1]> = moved.iter().map(|difference| [-2.0 * difference]).collect();
    swap_test(differences.len(), &shifts, |[shift]| observed + shift, resampling)
}

/// Test of any difference of two systems under the swap of whole pairs. Swapping a pair moves what a system sums over its pairs
/// by the pair's `shift`, `[moved pairs, parts]`; `statistic` gives the difference for a total of shifts, and `pairs` counts
/// the unmoved pairs too. Equal (and opposite) shifts are counted together, which keeps samples of yes and no exact.
pub fn swap_test<const N: usize>(
    pairs: usize,
    shifts: &[[f64; N]],
    statistic: impl Fn([f64; N]) -> f64 + Sync,
    resampling: Resampling,
) -> PairedTest {
    let observed = statistic([0.0; N]).abs();
    let reaches = |shift: [f64; N]| statistic(shift).abs() >= observed - 1e-9 * observed.max(1e-3);
    let kinds = kinds(shifts);
    let combinations = kinds.iter().try_fold(1_u64, |product, kind| product.checked_mul(kind.count as u64 + 1));
    match combinations {
        Some(combinations) if combinations <= COMBINATION_LIMIT => {
            count_by_kinds(&kinds, combinations, pairs, shifts.len(), reaches)
        }
        _ => sample(&kinds, shifts.len(), reaches, resampling),
    }
}

/// Pairs whose swap moves the totals by `shift`, or by its opposite.
struct Kind<const N: usize> {
    shift: [f64; N],
    count: usize,
    /// Those that move by the opposite.
    opposite: usize,
}

impl<const N: usize> Kind<N> {
    /// Adds the shift of `up` pairs that stand on its side; with `opposite` of them there before, nothing has moved.
    fn add(&self, up: usize, total: &mut [f64; N]) {
        let steps = up as f64 - self.opposite as f64;
        for (total, part) in total.iter_mut().zip(self.shift) {
            *total += steps * part;
        }
    }
}

/// Kinds in the order of their shifts, whatever the order of the pairs.
fn kinds<const N: usize>(shifts: &[[f64; N]]) -> Vec<Kind<N>> {
    let mut kinds: BTreeMap<[i64; N], Kind<N>> = BTreeMap::new();
    for shift in shifts {
        let grid = shift.map(|part| (part * 1e9).round() as i64);
        let opposite = grid.iter().find(|part| **part != 0).is_some_and(|part| *part < 0);
        let (key, shift) = if opposite { (grid.map(|part| -part), shift.map(|part| -part)) } else { (grid, *shift) };
        let kind = kinds.entry(key).or_insert(Kind { shift, count: 0, opposite: 0 });
        kind.count += 1;
        kind.opposite += usize::from(opposite);
    }
    kinds.into_values().collect()
}

/// All assignments, those of one kind counted by binomials: `up` of the kind's pairs stand on the side of its shift.
fn count_by_kinds<const N: usize>(
    kinds: &[Kind<N>],
    combinations: u64,
    pairs: usize,
    movable: usize,
    reaches: impl Fn([f64; N]) -> bool + Sync,
) -> PairedTest {
    let rows: Vec<Vec<u128>> = kinds.iter().map(|kind| binomials(kind.count.min(COUNT_LIMIT))).collect();
    let shares: Vec<Vec<f64>> = kinds.iter().map(|kind| binomial_shares(kind.count)).collect();
    let countable = movable <= COUNT_LIMIT;
    let (mut count, mut share) = (0_u128, 0.0);
    for combination in 0..combinations {
        let mut rest = combination;
        let (mut shift, mut ways, mut part) = ([0.0; N], 1_u128, 1.0);
        for (place, kind) in kinds.iter().enumerate() {
            let up = (rest % (kind.count as u64 + 1)) as usize;
            rest /= kind.count as u64 + 1;
            kind.add(up, &mut shift);
            if countable {
                ways *= rows[place][up];
            } else {
                part *= shares[place][up];
            }
        }
        if reaches(shift) {
            count += ways;
            share += part;
        }
    }
    if countable {
        return exact(count, movable, pairs);
    }
    PairedTest { nonzero: movable, p: share.clamp(f64::MIN_POSITIVE, 1.0), p_fraction: None, method: Method::Exact }
}

/// C(n, k) for k = 0..=n.
fn binomials(n: usize) -> Vec<u128> {
    let mut row = vec![1_u128];
    for _ in 0..n {
        let mut next = vec![1_u128];
        next.extend(row.windows(2).map(|pair| pair[0] + pair[1]));
        next.push(1);
        row = next;
    }
    row
}

/// C(n, k) / 2^n for k = 0..=n.
fn binomial_shares(n: usize) -> Vec<f64> {
    let mut row = vec![1.0_f64];
    for _ in 0..n {
        let mut next = vec![row[0] / 2.0];
        next.extend(row.windows(2).map(|pair| f64::midpoint(pair[0], pair[1])));
        next.push(row[row.len() - 1] / 2.0);
        row = next;
    }
    row
}

/// Seeded draws, each from a stream of its own.
fn sample<const N: usize>(
    kinds: &[Kind<N>],
    movable: usize,
    reaches: impl Fn([f64; N]) -> bool + Sync,
    resampling: Resampling,
) -> PairedTest {
    let base = resampling.seed.stream("swap");
    let draws = resampling.resamples.max(1);
    let hit = |draw: &u64| {
        let mut random = base.clone();
        random.set_stream(*draw);
        let mut shift = [0.0; N];
        for kind in kinds {
            let up = (0..kind.count).filter(|_| random.random::<bool>()).count();
            kind.add(up, &mut shift);
        }
        reaches(shift)
    };
    // The assignment seen is the first of the draws: p is never below one in their number.
    let hits = 1 + (1..draws as u64).into_par_iter().filter(hit).count();
    let p = hits as f64 / draws as f64;
    let p_fraction = Some(format!("{hits}/{draws}"));
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
