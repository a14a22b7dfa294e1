//! Claims about `statistic`.
#![expect(clippy::float_cmp, reason = "exact counts give exact values")]

use topalign::run::seed::Seed;
use topalign::statistic::{Column, Estimate, Method, Resampling, h_score, holm, sign_flip, swap_test, wilson};

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-6
}

/// Mean of a sample, as a statistic of weights.
fn mean_of(sample: &[f64]) -> impl Fn(&[u32]) -> Option<f64> + Sync + '_ {
    |weights| {
        let count: u32 = weights.iter().sum();
        let sum: f64 = sample.iter().zip(weights).map(|(value, weight)| value * f64::from(*weight)).sum();
        (count > 0).then(|| sum / f64::from(count))
    }
}

fn interval(sample: &[f64]) -> Estimate {
    Resampling::default().estimate("test", sample.len(), mean_of(sample))
}

#[test]
fn wilson_agrees_with_hand_computed_intervals() {
    // 8 of 10: centre (0.8 + 3.841459 / 20) / (1 + 0.3841459) = 0.716738, half width 0.226557.
    let (low, high) = wilson(8, 10).unwrap();
    assert!(close(low, 0.490_162_5) && close(high, 0.943_317_8), "{low} {high}");
    // 0 of 10: 3.841459 / (10 + 3.841459).
    let (low, high) = wilson(0, 10).unwrap();
    assert!(low == 0.0 && close(high, 0.277_532_8), "{low} {high}");
    assert_eq!(wilson(10, 10).unwrap().1, 1.0);
    assert_eq!(wilson(0, 0), None);
}

#[test]
fn h_is_the_harmonic_mean_and_0_when_both_terms_are_0() {
    assert_eq!(h_score(0.0, 1.0), 0.0);
    assert_eq!(h_score(1.0, 0.0), 1.0);
    assert_eq!(h_score(1.0, 1.0), 0.0);
    assert_eq!(h_score(0.0, 0.0), 0.0);
    // The published row: CR 98.0, LR 88.6 -> H 20.4.
    assert!((h_score(0.980, 0.886) - 0.204).abs() < 5e-4);
}

#[test]
fn one_unit_has_no_interval_and_says_why() {
    let estimate = interval(&[1.0]);
    assert_eq!((estimate.value, estimate.low, estimate.high), (Some(1.0), None, None));
    assert!(estimate.reason.is_some());
    assert_eq!(interval(&[]).value, None);
}

#[test]
fn a_constant_sample_has_a_degenerate_interval() {
    let estimate = interval(&[0.3; 7]);
    assert_eq!((estimate.low, estimate.high), (estimate.value, estimate.value));
    assert!(estimate.degenerate && estimate.reason.is_some());
}

#[test]
fn the_bootstrap_gives_the_same_bytes_for_any_number_of_threads() {
    let sample: Vec<f64> = (0..40_u32).map(|index| f64::from(index).sqrt()).collect();
    let with_threads = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        serde_json::to_string(&pool.install(|| interval(&sample))).unwrap()
    };
    assert_eq!(with_threads(1), with_threads(3));
    let other = Resampling { seed: Seed(7), ..Resampling::default() };
    assert_ne!(with_threads(1), serde_json::to_string(&other.estimate("test", 40, mean_of(&sample))).unwrap());
}

#[test]
fn the_bootstrap_interval_is_near_the_normal_one() {
    // 50 of 100: 0.5 +- 1.96 * 0.05.
    let sample: Vec<f64> = (0..100).map(|index| f64::from(index % 2)).collect();
    let estimate = interval(&sample);
    let (low, high) = (estimate.low.unwrap(), estimate.high.unwrap());
    assert!((low - 0.402).abs() < 0.015 && (high - 0.598).abs() < 0.015, "{low} {high}");
}

#[test]
fn sign_flip_of_m_pairs_of_one_sign_is_2_to_the_1_minus_m() {
    for (m, p, fraction) in [(6, 0.03125, "2/64"), (7, 0.015_625, "2/128"), (9, 0.003_906_25, "2/512")] {
        let test = sign_flip(&vec![-0.25; m], Resampling::default());
        assert_eq!((test.p, test.p_fraction.as_deref(), test.method), (p, Some(fraction), Method::Exact));
    }
    let many = sign_flip(&[1.0; 100], Resampling::default());
    assert!((many.p / 2_f64.powi(-99) - 1.0).abs() < 1e-12);
    assert_eq!((many.p_fraction.as_deref(), many.method), (Some("2/2^100"), Method::Exact));
}

#[test]
fn zero_pairs_never_change_p() {
    let plain = sign_flip(&[1.0, 2.0, -1.0, 3.0], Resampling::default());
    let padded = sign_flip(&[1.0, 0.0, 2.0, 0.0, -1.0, 3.0, 0.0], Resampling::default());
    assert_eq!((plain.p, plain.nonzero), (padded.p, padded.nonzero));
    // The denominator is 2^pairs: ten pairs, six of them moved.
    let ten = sign_flip(&[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0], Resampling::default());
    assert_eq!((ten.p, ten.p_fraction.as_deref()), (0.03125, Some("32/1024")));
}

#[test]
fn all_zero_pairs_give_p_1() {
    assert_eq!(sign_flip(&[0.0; 5], Resampling::default()).p, 1.0);
    assert_eq!(sign_flip(&[], Resampling::default()).p, 1.0);
}

#[test]
fn a_sum_of_zero_gives_p_1_in_any_unit() {
    assert_eq!(sign_flip(&[1.0, 2.0, -3.0], Resampling::default()).p, 1.0);
    assert_eq!(sign_flip(&[0.1, 0.2, -0.3], Resampling::default()).p, 1.0);
}

/// p of every one of the 2^n assignments of signs, tried one by one.
fn brute_force(differences: &[f64]) -> f64 {
    let n = differences.len();
    let observed = differences.iter().sum::<f64>().abs();
    let reaches = |bits: u32| {
        let sign = |place: usize| if bits >> place & 1 == 1 { -1.0 } else { 1.0 };
        differences.iter().enumerate().map(|(place, value)| sign(place) * value).sum::<f64>().abs() >= observed - 1e-9
    };
    (0..1_u32 << n).filter(|&bits| reaches(bits)).count() as f64 / f64::from(1_u32 << n)
}

#[test]
fn exact_counts_agree_with_trying_every_assignment() {
    let gridded = [1.0, 0.5, -0.5, 2.0, 1.5, -1.0, 0.5, 1.0, 1.0, -0.5];
    assert_eq!(sign_flip(&gridded, Resampling::default()).p, brute_force(&gridded));
    let irregular = [1.0, 2.0_f64.sqrt(), -3.0_f64.sqrt(), 5.0_f64.sqrt(), std::f64::consts::PI, -0.1, 0.7];
    assert_eq!(sign_flip(&irregular, Resampling::default()).p, brute_force(&irregular));
}

#[test]
fn a_swap_of_pairs_is_a_flip_of_signs_where_the_statistic_is_a_sum() {
    let differences = [1.0, 1.0, -1.0, 1.0, 1.0, 1.0, -1.0, 1.0];
    let shifts: Vec<[f64; 2]> = differences.iter().map(|value| [-value, 0.0]).collect();
    let observed: f64 = differences.iter().sum();
    let test = swap_test(8, &shifts, |[shift, _]| observed + 2.0 * shift, Resampling::default());
    assert_eq!(test, sign_flip(&differences, Resampling::default()));
    assert_eq!(test.p, brute_force(&differences));
}

#[test]
fn differences_off_any_grid_are_sampled_past_the_limit_in_any_order() {
    let mut differences: Vec<f64> = (1..=30_u32).map(|index| f64::from(index).sqrt() - 2.0).collect();
    let forward = sign_flip(&differences, Resampling::default());
    differences.reverse();
    let backward = sign_flip(&differences, Resampling::default());
    assert_eq!(forward, backward);
    assert_eq!(forward.method, Method::Sampled);
    assert!(forward.p >= 1.0 / 10_000.0);
    assert!(forward.p_fraction.unwrap().ends_with("/10000"));
    // Nothing drawn is as extreme as this, and p is still not below one in the number of draws.
    let all_up: Vec<f64> = (1..=40_u32).map(|index| f64::from(index).sqrt()).collect();
    let least = sign_flip(&all_up, Resampling::default());
    assert_eq!((least.p, least.p_fraction.as_deref()), (0.0001, Some("1/10000")));
}

#[test]
fn many_hundred_pairs_stay_exact() {
    let differences: Vec<f64> = (0..400).map(|index| if index % 3 == 0 { -1.0 } else { 1.0 }).collect();
    let test = sign_flip(&differences, Resampling::default());
    // 266 of 400 positive: 2 P(X >= 266) for X ~ Binomial(400, 1/2), about 3e-11.
    assert_eq!(test.method, Method::Exact);
    assert!(test.p > 1e-12 && test.p < 1e-10, "{}", test.p);
}

#[test]
fn holm_multiplies_the_smallest_p_most_and_never_decreases() {
    assert_eq!(holm(&[0.5, 0.01, 0.04]), [0.5, 0.03, 0.08]);
    assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
    assert!(holm(&[]).is_empty());
}

#[test]
fn many_means_share_resamples_and_agree_with_one_at_a_time() {
    let sample: Vec<f64> = (0..30_u32).map(|index| f64::from(index).sqrt()).collect();
    let column = Column::of(30, sample.iter().enumerate().map(|(place, value)| (place, Some(*value))));
    let only_first =
        Column::of(30, sample.iter().enumerate().map(|(place, value)| (place, (place == 0).then_some(*value))));
    let found =
        Resampling::default().means("test", 30, &[column.clone(), only_first, Column::of(30, std::iter::empty())]);
    let alone = interval(&sample);
    assert!(close(found[0].low.unwrap(), alone.low.unwrap()) && close(found[0].high.unwrap(), alone.high.unwrap()));
    assert_eq!((found[1].value, found[1].low), (Some(0.0), None));
    assert_eq!(found[2].value, None);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
    assert_eq!(found[0], pool.install(|| Resampling::default().means("test", 30, &[column]))[0]);
}
