//! Matrix products on the tile unit (AMX) of x86-64 processors, from f32 operands and into f32.
//!
//! In and out: [`View`]s, as for [`super::matrix::multiply`]. A value is split into bf16 parts, x = high + low + (2^-16 of
//! it), and x y is taken as high high + high low + low high: three tile products keep about 16 bits of each factor where one
//! keeps 8. Sums are f32 throughout. (bf16x3; see Henry, Tang and Heinecke 2019, arXiv 1904.06376.)

mod pack;
mod square;

use std::cell::RefCell;
use std::sync::OnceLock;

use rayon::prelude::*;

use super::matrix::View;
use pack::{Block, INNER, Side, pack_panels};
use square::{SIDE, Square, Tiles};

/// How many of the partial products are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parts {
    /// high high: bf16 operands.
    One,
    /// And high low, low high.
    Three,
}

/// Rows of the left operand that are packed at a time.
const ROWS_AT_ONCE: usize = 512;
/// Inner positions that are packed at a time: both operands' panels then stay in the second-level cache.
const INNER_AT_ONCE: usize = 24 * INNER;

/// Whether the processor has the unit and the kernel grants its state to this process.
pub fn is_available() -> bool {
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    *AVAILABLE.get_or_init(square::request)
}

/// Whether a product is large enough that packing pays.
pub fn is_worth(rows: usize, columns: usize, inner: usize) -> bool {
    rows >= SIDE && columns >= SIDE && inner >= 2 * INNER
}

/// Where a product goes.
pub struct Output<'a> {
    /// Row-major values.
    pub values: &'a mut [f32],
    /// Distance of its rows.
    pub stride: usize,
    /// Added to what is there, in place of replacing it.
    pub add: bool,
}

/// `output = scale * left * right`, or added. Call only where [`is_available`]; shapes are the caller's promise, as in
/// [`super::matrix::multiply`], which checks them.
pub fn multiply(output: Output<'_>, left: View<'_>, right: View<'_>, scale: f32, parts: Parts) {
    let Output { values, stride, add } = output;
    let mut packed = Vec::new();
    for first_row in (0..left.rows).step_by(ROWS_AT_ONCE) {
        let rows = (left.rows - first_row).min(ROWS_AT_ONCE);
        for first in (0..left.columns).step_by(INNER_AT_ONCE) {
            let inner = first..(first + INNER_AT_ONCE).min(left.columns);
            pack_left(&mut packed, left, first_row, rows, &inner);
            let chunk = Chunk { left: &packed, rows, inner, scale, parts, add: add || first > 0 };
            let target = Target { start: &raw mut values[first_row * stride], stride };
            chunk.multiply(right, target);
        }
    }
}

fn pack_left(packed: &mut Vec<Block>, left: View<'_>, first_row: usize, rows: usize, inner: &std::ops::Range<usize>) {
    let depth = inner.len().div_ceil(INNER);
    packed.resize(rows.div_ceil(SIDE) * 2 * depth, Block::ZERO);
    packed.par_chunks_mut(2 * depth).enumerate().for_each(|(panel, blocks)| {
        pack_panels(left, Side::Left, first_row + panel * SIDE, inner.clone(), blocks);
    });
}

/// One packed piece of the left operand against all of the right.
struct Chunk<'a> {
    left: &'a [Block],
    rows: usize,
    inner: std::ops::Range<usize>,
    scale: f32,
    parts: Parts,
    add: bool,
}

/// Where a chunk's rows go. Shared by tasks that write to different columns.
#[derive(Clone, Copy)]
struct Target {
    start: *mut f32,
    stride: usize,
}

// SAFETY: each task writes to its own columns only.
unsafe impl Sync for Target {}
// SAFETY: as above.
unsafe impl Send for Target {}

impl Target {
    /// # Safety
    /// The row and the columns lie within the output, which outlives the slice, and nobody else has these columns.
    unsafe fn row<'output>(self, row: usize, columns: &std::ops::Range<usize>) -> &'output mut [f32] {
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(row * self.stride + columns.start), columns.len()) }
    }
}

thread_local! {
    static RIGHT: RefCell<Vec<Block>> = const { RefCell::new(Vec::new()) };
}

impl Chunk<'_> {
    fn multiply(&self, right: View<'_>, target: Target) {
        let depth = self.inner.len().div_ceil(INNER);
        (0..right.columns.div_ceil(SIDE)).into_par_iter().for_each(|block| {
            let columns = block * SIDE..((block + 1) * SIDE).min(right.columns);
            RIGHT.with_borrow_mut(|packed| {
                packed.resize(2 * depth, Block::ZERO);
                pack_panels(right, Side::Right, columns.start, self.inner.clone(), packed);
                self.columns(packed, depth, &columns, target);
            });
        });
    }

    /// All rows of the chunk against one packed block of columns.
    fn columns(&self, right: &[Block], depth: usize, columns: &std::ops::Range<usize>, target: Target) {
        let tiles = Tiles::configure();
        let mut square = Square::ZERO;
        for (index, left) in self.left.chunks(2 * depth).enumerate() {
            tiles.multiply(left, right, depth, self.parts, &mut square);
            let first = index * SIDE;
            for row in 0..(self.rows - first).min(SIDE) {
                // SAFETY: rows and columns are those of the checked output; tasks differ in their columns.
                let to = unsafe { target.row(first + row, columns) };
                for (to, from) in to.iter_mut().zip(square.row(row)) {
                    *to = if self.add { self.scale.mul_add(*from, *to) } else { self.scale * from };
                }
            }
        }
    }
}
