//! The next token out of logits: greedy, or drawn at a temperature from the nucleus. Pure and in f64.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng as _;

use crate::error::{Fault, Result};
use crate::recipe::settings::GenerateSettings;

/// How the next token is chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sampler {
    /// The token with the highest logit; of equal ones the lowest id.
    Greedy,
    /// Drawn in proportion to `exp(logit / temperature)` among the nucleus.
    Nucleus {
        /// Above 0.
        temperature: f64,
        /// Share of the probability that the nucleus holds at least, in (0, 1]; 1 keeps every token.
        top_p: f64,
    },
}

impl Sampler {
    /// Reads the settings: temperature 0 is greedy.
    ///
    /// # Errors
    /// A [`Fault`] for each value out of its range.
    pub fn from_settings(settings: &GenerateSettings) -> Result<Self> {
        let temperature = settings.temperature;
        let top_p = settings.top_p.unwrap_or(1.0);
        let mut faults = Vec::new();
        if !(temperature.is_finite() && temperature >= 0.0) {
            faults.push(Fault::new("`generate.temperature` must be finite and at least 0").got(temperature));
        }
        if !(top_p > 0.0 && top_p <= 1.0) {
            faults.push(Fault::new("`generate.top_p` must be above 0 and at most 1").got(top_p));
        }
        if !faults.is_empty() {
            return Err(crate::error::Error::Invalid(faults));
        }
        Ok(if temperature == 0.0 { Self::Greedy } else { Self::Nucleus { temperature, top_p } })
    }

    /// Chooses from logits `[vocabulary]`. `None` if they are empty or hold no finite highest value.
    pub fn choose(self, logits: &[f32], generator: &mut ChaCha8Rng) -> Option<u32> {
        let best = highest(logits)?;
        match self {
            Self::Greedy => Some(best),
            Self::Nucleus { temperature, top_p } => {
                // 53 bits make every multiple of 2^-53 in [0, 1).
                let uniform = (generator.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
                let highest = f64::from(logits[best as usize]);
                let weights: Vec<f64> =
                    logits.iter().map(|&logit| ((f64::from(logit) - highest) / temperature).exp()).collect();
                Some(draw(&weights, top_p, uniform))
            }
        }
    }
}

/// The first index of the highest logit; NaN anywhere means that the model is broken.
fn highest(logits: &[f32]) -> Option<u32> {
    let mut best: Option<usize> = None;
    for (index, logit) in logits.iter().enumerate() {
        if logit.is_nan() {
            return None;
        }
        if best.is_none_or(|best| *logit > logits[best]) {
            best = Some(index);
        }
    }
    best.filter(|&best| logits[best].is_finite()).map(|best| best as u32)
}

/// The token at `uniform` of the cumulated weights, heaviest first, within the smallest set that holds `top_p` of them.
fn draw(weights: &[f64], top_p: f64, uniform: f64) -> u32 {
    let mut order: Vec<u32> = (0..weights.len() as u32).collect();
    order.sort_by(|&left, &right| weights[right as usize].total_cmp(&weights[left as usize]).then(left.cmp(&right)));
    let total: f64 = order.iter().map(|&id| weights[id as usize]).sum();
    let mut nucleus = 0;
    let mut held = 0.0;
    while nucleus < order.len() && (nucleus == 0 || held < top_p * total) {
        held += weights[order[nucleus] as usize];
        nucleus += 1;
    }
    let mut rest = uniform * held;
    for &id in &order[..nucleus] {
        rest -= weights[id as usize];
        if rest < 0.0 {
            return id;
        }
    }
    // Rounding may leave a remainder of 0: the lightest token that can be drawn.
    order[nucleus.saturating_sub(1)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::seed::Seed;

    fn counts(sampler: Sampler, logits: &[f32], draws: usize) -> Vec<usize> {
        let mut generator = Seed(7).stream("test");
        let mut counts = vec![0; logits.len()];
        for _ in 0..draws {
            counts[sampler.choose(logits, &mut generator).unwrap() as usize] += 1;
        }
        counts
    }

    #[test]
    fn greedy_takes_the_highest_and_the_lowest_id_of_equals() {
        assert_eq!(Sampler::Greedy.choose(&[0.0, 3.0, 3.0, -1.0], &mut Seed(0).stream("test")), Some(1));
    }

    #[test]
    fn broken_logits_choose_nothing() {
        for logits in [&[][..], &[0.0, f32::NAN], &[f32::NEG_INFINITY], &[f32::INFINITY, 0.0]] {
            assert_eq!(Sampler::Greedy.choose(logits, &mut Seed(0).stream("test")), None);
        }
    }

    #[test]
    fn draws_follow_the_softmax() {
        // Weights 1 : 2 : 5.
        let logits = [0.0, 2.0_f32.ln(), 5.0_f32.ln()];
        let counts = counts(Sampler::Nucleus { temperature: 1.0, top_p: 1.0 }, &logits, 8000);
        for (count, expected) in counts.iter().zip([1000.0, 2000.0, 5000.0]) {
            assert!((*count as f64 - expected).abs() < 150.0, "{counts:?}");
        }
    }

    #[test]
    fn the_nucleus_holds_the_fewest_tokens_that_reach_its_share() {
        // Probabilities 0.125, 0.25, 0.625: 0.8 needs two of them, 0.6 one.
        let logits = [0.0, 2.0_f32.ln(), 5.0_f32.ln()];
        let two = counts(Sampler::Nucleus { temperature: 1.0, top_p: 0.8 }, &logits, 2000);
        assert!(two[0] == 0 && two[1] > 400 && two[2] > 1000, "{two:?}");
        assert_eq!(counts(Sampler::Nucleus { temperature: 1.0, top_p: 0.6 }, &logits, 200), [0, 0, 200]);
    }

    #[test]
    fn a_low_temperature_is_nearly_greedy_and_does_not_overflow() {
        let sampler = Sampler::Nucleus { temperature: 1e-6, top_p: 1.0 };
        assert_eq!(counts(sampler, &[1e30, 0.0, -1e30], 50), [50, 0, 0]);
    }

    #[test]
    fn settings_out_of_range_are_all_refused_at_once() {
        let settings = GenerateSettings { temperature: -1.0, top_p: Some(1.5), ..GenerateSettings::default() };
        let error = Sampler::from_settings(&settings).unwrap_err();
        assert_eq!(error.to_string().lines().count(), 2);
    }
}
