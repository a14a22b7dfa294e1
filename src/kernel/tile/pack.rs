//! Operands in the order in which the tile unit reads them.
//!
//! In: a [`View`]. Out: [`Block`]s: for 16 lines (rows of the left, columns of the right operand) and 32 inner positions,
//! the tile of high parts and then that of low parts. A left tile is `[line][pair]`, a right one `[pair][line]`, where a
//! pair is two neighbouring inner positions in 32 bits.

#![allow(clippy::wildcard_imports)]

use std::arch::x86_64::*;
use std::ops::Range;

use super::super::matrix::View;

/// Lines in a tile.
pub const LINES: usize = 16;
/// Inner positions in a tile.
pub const INNER: usize = 32;
/// 32-bit pairs in a tile.
const TILE: usize = LINES * INNER / 2;

/// The high and the low tile of 16 lines and 32 inner positions.
#[repr(C, align(64))]
#[derive(Debug, Clone, Copy)]
pub struct Block([u32; 2 * TILE]);

impl Block {
    /// All zeros.
    pub const ZERO: Self = Self([0; 2 * TILE]);
}

/// Which operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Lines are rows.
    Left,
    /// Lines are columns.
    Right,
}

/// An operand by line and inner position, whichever of its dimensions they are.
#[derive(Clone, Copy)]
struct Operand<'a> {
    data: &'a [f32],
    lines: usize,
    line_stride: usize,
    inner_stride: usize,
}

/// Packs the two panels of 16 lines that start at `first`, over `inner`; what lies past the operand is 0.
pub fn pack_panels(view: View<'_>, side: Side, first: usize, inner: Range<usize>, blocks: &mut [Block]) {
    let operand = match side {
        Side::Left => Operand {
            data: view.data,
            lines: view.rows,
            line_stride: view.row_stride,
            inner_stride: view.column_stride,
        },
        Side::Right => Operand {
            data: view.data,
            lines: view.columns,
            line_stride: view.column_stride,
            inner_stride: view.row_stride,
        },
    };
    let depth = blocks.len() / 2;
    for (panel, blocks) in blocks.chunks_mut(depth).enumerate() {
        for (index, block) in blocks.iter_mut().enumerate() {
            let start = inner.start + index * INNER;
            // SAFETY: the tile unit is there (`is_available`), and every processor that has it has these instructions.
            unsafe { pack(operand, side, first + panel * LINES, start..inner.end.min(start + INNER), block) };
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
fn pack(operand: Operand<'_>, side: Side, first: usize, inner: Range<usize>, block: &mut Block) {
    let whole = first + LINES <= operand.lines && inner.len() == INNER;
    let at = |line: usize, position: usize| {
        (first + line) * operand.line_stride + (inner.start + position) * operand.inner_stride
    };
    if whole && operand.inner_stride == 1 {
        by_lines(&std::array::from_fn(|line| &operand.data[at(line, 0)..][..INNER]), side, block);
    } else if whole && operand.line_stride == 1 {
        by_positions(&std::array::from_fn(|position| &operand.data[at(0, position)..][..LINES]), side, block);
    } else {
        let mut values = [[0.0_f32; INNER]; LINES];
        for (line, row) in values.iter_mut().enumerate().take(operand.lines.saturating_sub(first)) {
            for (position, value) in row.iter_mut().enumerate().take(inner.len()) {
                *value = operand.data[at(line, position)];
            }
        }
        by_lines(&std::array::from_fn(|line| values[line].as_slice()), side, block);
    }
}

type Rows = [__m512i; LINES];

/// From lines of 32 values each.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
fn by_lines(lines: &[&[f32]; LINES], side: Side, block: &mut Block) {
    let mut high: Rows = [_mm512_setzero_si512(); LINES];
    let mut low = high;
    for (line, values) in lines.iter().enumerate() {
        let (first, second) = (split(load(values)), split(load(&values[LINES..])));
        high[line] = narrowed(second.0, first.0);
        low[line] = narrowed(second.1, first.1);
    }
    store(&high, &low, side == Side::Right, block);
}

/// From positions of 16 values each.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
fn by_positions(positions: &[&[f32]; INNER], side: Side, block: &mut Block) {
    let mut high: Rows = [_mm512_setzero_si512(); LINES];
    let mut low = high;
    for pair in 0..LINES {
        let (even, odd) = (split(load(positions[2 * pair])), split(load(positions[2 * pair + 1])));
        high[pair] = beside(even.0, odd.0);
        low[pair] = beside(even.1, odd.1);
    }
    store(&high, &low, side == Side::Left, block);
}

#[target_feature(enable = "avx512f")]
fn load(values: &[f32]) -> __m512 {
    assert!(values.len() >= LINES);
    // SAFETY: just checked.
    unsafe { _mm512_loadu_ps(values.as_ptr()) }
}

/// The value rounded to bf16, kept as f32, and the rest. What is not finite has no rest, so that an infinity stays one.
#[target_feature(enable = "avx512f,avx512bw")]
fn split(value: __m512) -> (__m512, __m512) {
    let upper = _mm512_set1_epi32(0xFFFF_0000_u32.cast_signed());
    let bits = _mm512_castps_si512(value);
    let rounded = _mm512_and_si512(_mm512_add_epi32(bits, _mm512_set1_epi32(0x8000)), upper);
    let exponent = _mm512_set1_epi32(0x7F80_0000);
    let finite = _mm512_cmpneq_epi32_mask(_mm512_and_si512(bits, exponent), exponent);
    let high = _mm512_castsi512_ps(_mm512_mask_mov_epi32(bits, finite, rounded));
    (high, _mm512_maskz_sub_ps(finite, value, high))
}

/// 32 neighbouring values in bf16.
#[target_feature(enable = "avx512f,avx512bf16")]
fn narrowed(second: __m512, first: __m512) -> __m512i {
    // SAFETY: both are 512 bits without invalid values.
    unsafe { std::mem::transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(second, first)) }
}

/// Pairs of the values of two positions, in bf16.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
fn beside(even: __m512, odd: __m512) -> __m512i {
    // Even positions' values in the lower 16 words, odd ones' in the upper.
    let both = narrowed(odd, even);
    let order: [u16; 32] = std::array::from_fn(|index| (index / 2 + 16 * (index % 2)) as u16);
    // SAFETY: 64 bytes without invalid values.
    let order = unsafe { _mm512_loadu_si512(order.as_ptr().cast()) };
    _mm512_permutexvar_epi16(order, both)
}

#[target_feature(enable = "avx512f")]
fn store(high: &Rows, low: &Rows, is_across: bool, block: &mut Block) {
    let (high, low) = if is_across { (transposed(high), transposed(low)) } else { (*high, *low) };
    for (row, values) in block.0.chunks_exact_mut(LINES).zip(high.into_iter().chain(low)) {
        // SAFETY: 16 values of 32 bits, in a block aligned to 64 bytes.
        unsafe { _mm512_store_si512(row.as_mut_ptr().cast(), values) };
    }
}

/// 16 x 16 values of 32 bits.
#[target_feature(enable = "avx512f")]
fn transposed(rows: &Rows) -> Rows {
    let mut pairs = *rows;
    for index in 0..8 {
        let (first, second) = (rows[2 * index], rows[2 * index + 1]);
        pairs[2 * index] = _mm512_unpacklo_epi32(first, second);
        pairs[2 * index + 1] = _mm512_unpackhi_epi32(first, second);
    }
    // quads[4 q + c]: column c of each 128-bit lane, in rows 4 q to 4 q + 3.
    let mut quads = *rows;
    for quad in (0..LINES).step_by(4) {
        quads[quad] = _mm512_unpacklo_epi64(pairs[quad], pairs[quad + 2]);
        quads[quad + 1] = _mm512_unpackhi_epi64(pairs[quad], pairs[quad + 2]);
        quads[quad + 2] = _mm512_unpacklo_epi64(pairs[quad + 1], pairs[quad + 3]);
        quads[quad + 3] = _mm512_unpackhi_epi64(pairs[quad + 1], pairs[quad + 3]);
    }
    let mut columns = *rows;
    for column in 0..4 {
        let even = |a, b| _mm512_shuffle_i32x4::<0x88>(a, b);
        let odd = |a, b| _mm512_shuffle_i32x4::<0xDD>(a, b);
        let (upper, lower) = ((quads[column], quads[4 + column]), (quads[8 + column], quads[12 + column]));
        let evens = (even(upper.0, upper.1), even(lower.0, lower.1));
        let odds = (odd(upper.0, upper.1), odd(lower.0, lower.1));
        columns[column] = even(evens.0, evens.1);
        columns[8 + column] = odd(evens.0, evens.1);
        columns[4 + column] = even(odds.0, odds.1);
        columns[12 + column] = odd(odds.0, odds.1);
    }
    columns
}
