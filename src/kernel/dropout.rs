//! Dropout (Srivastava et al. 2014) on the input of adapters: each value is left out with a probability, and what stays is
//! scaled so that the expectation is the same.
//!
//! What is left out is a pure function of seed, step, module and row: a resumed run and a recomputed layer drop the same.

use std::sync::Arc;

use candle_core::{Device, Result, Tensor};
use rand::Rng as _;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use crate::run::seed::Seed;

/// The dropout of one forward pass.
#[derive(Debug, Clone)]
pub struct Dropout {
    share: f64,
    seed: Seed,
    step: usize,
    rows: Arc<Vec<u64>>,
}

impl Dropout {
    /// Leaves out `share` of the values. `rows` names each row of the pass by a number of its own in the run. `[tokens]`
    pub fn new(share: f64, seed: Seed, step: usize, rows: Vec<u64>) -> Self {
        Self { share, seed, step, rows: Arc::new(rows) }
    }

    /// The mask of one module's input of this width.
    pub fn mask(&self, module: &str, width: usize) -> Mask {
        let stream = self.seed.stream(&format!("dropout/{}/{module}", self.step));
        let words = width.div_ceil(64);
        let mut bits = vec![0_u64; self.rows.len() * words];
        let threshold = (self.share * f64::from(u32::MAX)) as u32;
        bits.par_chunks_mut(words.max(1)).zip(self.rows.par_iter()).for_each(|(bits, &row)| {
            let mut random: ChaCha8Rng = stream.clone();
            random.set_stream(row);
            for (index, word) in bits.iter_mut().enumerate() {
                for bit in 0..(width - index * 64).min(64) {
                    *word |= u64::from(random.next_u32() >= threshold) << bit;
                }
            }
        });
        Mask { bits: Arc::new(bits), words, width, scale: (1.0 / (1.0 - self.share)) as f32 }
    }
}

/// Which values of a `[rows, width]` input stay.
#[derive(Debug, Clone)]
pub struct Mask {
    bits: Arc<Vec<u64>>,
    words: usize,
    width: usize,
    scale: f32,
}

impl Mask {
    /// Whether it is for an input of this shape.
    pub(super) fn fits(&self, rows: usize, width: usize) -> bool {
        self.width == width && self.bits.len() == rows * self.words
    }

    /// Leaves out what the mask leaves out and scales the rest. `[rows, width]`, row by row.
    pub(super) fn apply(&self, values: &mut [f32]) {
        values.par_chunks_mut(self.width.max(1)).zip(self.bits.par_chunks(self.words.max(1))).for_each(
            |(row, bits)| {
                for (values, word) in row.chunks_mut(64).zip(bits) {
                    for (bit, value) in values.iter_mut().enumerate() {
                        *value = if word >> bit & 1 == 1 { *value * self.scale } else { 0.0 };
                    }
                }
            },
        );
    }

    /// The factors as a tensor, for the composed path. `[rows, width]`
    ///
    /// # Errors
    /// Tensor errors.
    pub fn factors(&self, device: &Device) -> Result<Tensor> {
        let rows = self.bits.len() / self.words.max(1);
        let mut factors = vec![1.0; rows * self.width];
        self.apply(&mut factors);
        Tensor::from_vec(factors, (rows, self.width), device)
    }
}
