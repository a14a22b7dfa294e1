//! Intervals and tests of rates, all in f64. Pure: randomness comes only from named streams of a given seed, so that the same
//! sample gives the same bytes for any number of threads.
//!
//! In: counts, samples and paired differences. Out: [`Estimate`]s and [`PairedTest`]s.
//! Source: ASLEval's statistics (arXiv 2609.18864): the session is the unit, percentile bootstrap, exact sign-flip.

mod agreement;
mod bootstrap;
mod holm;
mod permutation;
mod rate;

pub use agreement::{Confusion, StrictScore};
pub use bootstrap::{Column, Estimate, Resampling};
pub use holm::holm;
pub use permutation::{Method, PairedTest, sign_flip, swap_test};
pub use rate::{h_score, mean, wilson};
