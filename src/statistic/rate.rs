//! Closed forms: means, the Wilson interval, the harmonic score of completion and privacy.

/// The 0.975 quantile of the standard normal distribution.
const Z_95: f64 = 1.959_963_984_540_054;

/// Arithmetic mean; `None` of nothing.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Wilson's 95% score interval of a proportion (Wilson 1927), `None` for no trials. It stays open where a bootstrap collapses:
/// 0 of 10 gives [0, 0.278].
///
/// ```
/// let (low, high) = topalign::statistic::wilson(0, 10).unwrap();
/// assert_eq!(low, 0.0);
/// assert!((high - 0.277_533).abs() < 1e-6);
/// ```
pub fn wilson(successes: usize, trials: usize) -> Option<(f64, f64)> {
    if trials == 0 {
        return None;
    }
    let n = trials as f64;
    let share = successes.min(trials) as f64 / n;
    let z2 = Z_95 * Z_95;
    let centre = share + z2 / (2.0 * n);
    let half = Z_95 * (share * (1.0 - share) / n + z2 / (4.0 * n * n)).sqrt();
    let scale = 1.0 + z2 / n;
    let low = if successes == 0 { 0.0 } else { ((centre - half) / scale).max(0.0) };
    let high = if successes >= trials { 1.0 } else { ((centre + half) / scale).min(1.0) };
    Some((low, high))
}

/// H = 2 CR (1 - LR) / (CR + (1 - LR)), as a fraction; 0 when both terms are 0.
pub fn h_score(completion_rate: f64, leakage_rate: f64) -> f64 {
    let privacy = 1.0 - leakage_rate;
    let sum = completion_rate + privacy;
    if sum <= 0.0 { 0.0 } else { 2.0 * completion_rate * privacy / sum }
}
