//! Machines without a tile unit: nothing is ever worth its product.

use super::matrix::View;

/// As on machines with the unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parts {
    /// bf16 operands.
    One,
    /// Split operands.
    Three,
}

/// As on machines with the unit.
pub struct Output<'a> {
    /// Row-major values.
    pub values: &'a mut [f32],
    /// Distance of its rows.
    pub stride: usize,
    /// Added to what is there.
    pub add: bool,
}

/// Never.
pub fn is_available() -> bool {
    false
}

/// Never.
pub fn is_worth(_: usize, _: usize, _: usize) -> bool {
    false
}

/// Not called: [`is_available`] is false.
pub fn multiply(_: Output<'_>, _: View<'_>, _: View<'_>, _: f32, _: Parts) {}
