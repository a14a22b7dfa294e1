//! Matrix products over slices with strides: the one place that calls `gemm` or the tile unit.

use gemm::Parallelism;

use super::tile;
use crate::recipe::settings::Arithmetic;

/// A matrix within a slice: element (row, column) stands at `row * row_stride + column * column_stride`.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    pub(super) data: &'a [f32],
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) row_stride: usize,
    pub(super) column_stride: usize,
}

impl<'a> View<'a> {
    /// A row-major matrix whose rows are `row_stride` values apart.
    ///
    /// # Panics
    /// If it reaches past its slice: a bug of the caller, never of an input.
    pub fn new(data: &'a [f32], rows: usize, columns: usize, row_stride: usize) -> Self {
        let view = Self { data, rows, columns, row_stride, column_stride: 1 };
        assert!(rows == 0 || columns == 0 || view.last() < data.len(), "matrix view reaches past its slice");
        view
    }

    /// The transpose, without moving anything.
    #[must_use]
    pub fn transposed(self) -> Self {
        Self {
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
            ..self
        }
    }

    fn last(&self) -> usize {
        (self.rows - 1) * self.row_stride + (self.columns - 1) * self.column_stride
    }
}

/// Whether a product may use all threads or is itself one task of many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threads {
    /// All of rayon's, in this arithmetic.
    All(Arithmetic),
    /// The calling one, in f32.
    One,
}

/// The tile product for a product of this kind and size, where the machine has one and it pays.
fn tile_parts(threads: Threads, rows: usize, columns: usize, inner: usize) -> Option<tile::Parts> {
    let parts = match threads {
        Threads::One | Threads::All(Arithmetic::F32) => return None,
        Threads::All(Arithmetic::SplitBf16) => tile::Parts::Three,
        Threads::All(Arithmetic::Bf16) => tile::Parts::One,
    };
    (tile::is_worth(rows, columns, inner) && tile::is_available()).then_some(parts)
}

/// `out = scale * left * right`, or `out += ...` when `add`; `out` is row-major with rows `out_stride` apart.
///
/// # Panics
/// If the shapes do not fit each other or the slices: a bug of the caller, never of an input.
pub fn multiply(
    out: &mut [f32],
    out_stride: usize,
    left: View<'_>,
    right: View<'_>,
    scale: f32,
    add: bool,
    threads: Threads,
) {
    assert_eq!(left.columns, right.rows, "inner sizes of a product differ");
    let (rows, columns, inner) = (left.rows, right.columns, left.columns);
    if rows == 0 || columns == 0 {
        return;
    }
    assert!(columns <= out_stride || rows == 1, "rows of a product overlap");
    assert!((rows - 1) * out_stride + columns <= out.len(), "a product reaches past its output");
    if let Some(parts) = tile_parts(threads, rows, columns, inner) {
        return tile::multiply(tile::Output { values: out, stride: out_stride, add }, left, right, scale, parts);
    }
    let parallelism = match threads {
        Threads::All(_) => Parallelism::Rayon(0),
        Threads::One => Parallelism::None,
    };
    // SAFETY: both views were checked against their slices when made, the output just now; `out` is borrowed mutably, so
    // it overlaps neither.
    unsafe {
        gemm::gemm(
            rows,
            columns,
            inner,
            out.as_mut_ptr(),
            1,
            out_stride as isize,
            add,
            left.data.as_ptr(),
            left.column_stride as isize,
            left.row_stride as isize,
            right.data.as_ptr(),
            right.column_stride as isize,
            right.row_stride as isize,
            if add { 1.0 } else { 0.0 },
            scale,
            false,
            false,
            false,
            parallelism,
        );
    }
}
