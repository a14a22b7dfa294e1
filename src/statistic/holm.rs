//! Holm's step-down correction (Holm 1979).

/// Adjusted p-values, in the order given: the smallest times the number of tests, the next times one less, never decreasing,
/// at most 1.
///
/// ```
/// let adjusted = topalign::statistic::holm(&[0.01, 0.04, 0.03]);
/// assert_eq!(adjusted, [0.03, 0.06, 0.06]);
/// ```
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let mut adjusted = vec![0.0; p.len()];
    let mut least = 0.0_f64;
    for (rank, place) in order.into_iter().enumerate() {
        least = least.max((p[place] * (p.len() - rank) as f64).min(1.0));
        adjusted[place] = least;
    }
    adjusted
}
