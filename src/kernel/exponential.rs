//! e^x in straight-line code that the compiler turns into vector instructions.

/// e^x to within 2 ulp over [-87, 88], clamped outside. After Cephes' `expf`: x = n ln 2 + r, a polynomial for e^r, and n
/// put into the exponent.
#[inline(always)]
#[allow(clippy::inline_always)] // the loops around it vectorise only when it is inlined
pub fn exp(x: f32) -> f32 {
    const ROUND: f32 = 12_582_912.0; // 1.5 * 2^23: adding and subtracting it rounds to the nearest integer
    let x = x.clamp(-87.0, 88.0);
    let n = (x * std::f32::consts::LOG2_E + ROUND) - ROUND;
    let r = x - n * 0.693_359_4 + n * 2.121_944_4e-4;
    let mut polynomial = 1.987_569_1e-4_f32;
    polynomial = polynomial * r + 1.398_199_9e-3;
    polynomial = polynomial * r + 8.333_452e-3;
    polynomial = polynomial * r + 4.166_579_6e-2;
    polynomial = polynomial * r + 1.666_666_5e-1;
    polynomial = polynomial * r + 5.0e-1;
    let fraction = polynomial * r * r + r + 1.0;
    fraction * f32::from_bits((((n as i32) + 127) << 23) as u32)
}

const LANES: usize = 16;

/// Replaces each value by e^(value - shift) and returns their sum.
pub fn exp_in_place(values: &mut [f32], shift: f32) -> f32 {
    let mut sums = [0.0_f32; LANES];
    let mut chunks = values.chunks_exact_mut(LANES);
    for chunk in &mut chunks {
        for (sum, value) in sums.iter_mut().zip(chunk) {
            *value = exp(*value - shift);
            *sum += *value;
        }
    }
    let mut total: f32 = sums.iter().sum();
    for value in chunks.into_remainder() {
        *value = exp(*value - shift);
        total += *value;
    }
    total
}

/// The largest value.
pub fn maximum(values: &[f32]) -> f32 {
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let chunks = values.chunks_exact(LANES);
    let rest = chunks.remainder().iter().copied().fold(f32::NEG_INFINITY, f32::max);
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane = if *value > *lane { *value } else { *lane };
        }
    }
    lanes.into_iter().fold(rest, f32::max)
}

#[cfg(test)]
mod tests {
    #[test]
    fn exp_agrees_with_the_standard_library() {
        let mut worst = 0.0_f64;
        for step in -8_600..8_700 {
            let x = step as f32 / 100.0;
            let exact = f64::from(x).exp();
            worst = worst.max((f64::from(super::exp(x)) - exact).abs() / exact);
        }
        assert!(worst < 3e-7, "{worst}");
    }
}
