//! Attention over packed trees in tiles of queries. A tile multiplies its queries with the span of keys that any of them sees,
//! and a mask takes out the rest; no `[sequence, sequence]` buffer exists. The backward computes each tile's weights again.

use std::ops::Range;
use std::sync::Arc;

use candle_core::{D, DType, Device, Result, Tensor};

use super::own_backward::{Operation, apply3};
use super::{wide, widened};
use crate::kernel::AttentionLayout;

/// Most queries of a tile.
const QUERIES: usize = 512;
/// Most queries times keys of a tile: 2 MiB of f32 a head and buffer.
const PRODUCTS: usize = 1 << 19;
/// A tile is not made smaller than this for long spans of keys.
const FEWEST_QUERIES: usize = 16;

/// Some queries and the keys between the first and the last that one of them sees.
#[derive(Debug, Clone)]
struct Tile {
    queries: Range<usize>,
    keys: Range<usize>,
    /// 0 where a query sees a key, minus infinity elsewhere. `[queries, keys]`
    mask: Tensor,
}

/// The tiles of one pass.
#[derive(Debug, Clone)]
pub struct Tiles(Arc<Vec<Tile>>);

impl Tiles {
    /// Tiles for queries that each see these ranges of keys, at least one key each.
    fn new(visible: &[Vec<Range<usize>>], dtype: DType, device: &Device) -> Result<Self> {
        let mut tiles = Vec::new();
        let mut start = 0;
        while start < visible.len() {
            let (queries, keys) = fitting(visible, start);
            let mut mask = vec![f32::NEG_INFINITY; queries.len() * keys.len()];
            for (row, ranges) in mask.chunks_mut(keys.len()).zip(&visible[queries.clone()]) {
                for range in ranges {
                    row[range.start - keys.start..range.end - keys.start].fill(0.0);
                }
            }
            let mask = Tensor::from_vec(mask, (queries.len(), keys.len()), device)?.to_dtype(wide(dtype))?;
            start = queries.end;
            tiles.push(Tile { queries, keys, mask });
        }
        Ok(Self(Arc::new(tiles)))
    }

    /// The tiles of a packed tree.
    pub fn of_layout(layout: &AttentionLayout, dtype: DType, device: &Device) -> Result<Self> {
        layout.tiles.get(device, dtype, || Self::new(&layout.visible(), dtype, device))
    }
}

/// The longest tile from `start` on that holds the limits, and its span of keys.
fn fitting(visible: &[Vec<Range<usize>>], start: usize) -> (Range<usize>, Range<usize>) {
    let (mut first, mut last) = (usize::MAX, 0);
    for (offset, ranges) in visible[start..].iter().take(QUERIES).enumerate() {
        let from = ranges.iter().map(|range| range.start).min().unwrap_or(0).min(first);
        let to = ranges.iter().map(|range| range.end).max().unwrap_or(1).max(last);
        if offset >= FEWEST_QUERIES && (offset + 1) * (to - from) > PRODUCTS {
            return (start..start + offset, first..last);
        }
        (first, last) = (from, to);
    }
    (start..(start + QUERIES).min(visible.len()), first..last)
}

/// Numbers of heads and their size.
#[derive(Debug, Clone, Copy)]
struct Heads {
    /// Query heads that share a key head.
    group: usize,
    keys: usize,
    size: usize,
}

impl Heads {
    fn scale(self) -> f64 {
        1.0 / (self.size as f64).sqrt()
    }

    /// `[tokens, heads * size]` of a tile's rows as `[key heads, group * queries, size]`, so that the queries of a group stand
    /// beside each other before their keys.
    fn grouped(self, x: &Tensor, rows: &Range<usize>) -> Result<Tensor> {
        let count = rows.len();
        let x = x.narrow(0, rows.start, count)?.reshape((count, self.keys, self.group, self.size))?;
        x.permute((1, 2, 0, 3))?.contiguous()?.reshape((self.keys, self.group * count, self.size))
    }

    /// The way back: `[queries, heads * size]`.
    fn flat(self, x: &Tensor, count: usize) -> Result<Tensor> {
        let x = x.reshape((self.keys, self.group, count, self.size))?.permute((2, 0, 1, 3))?;
        x.contiguous()?.reshape((count, self.keys * self.group * self.size))
    }

    /// `[tokens, key heads * size]` as `[key heads, tokens, size]`.
    fn by_head(self, x: &Tensor) -> Result<Tensor> {
        x.reshape((x.dim(0)?, self.keys, self.size))?.transpose(0, 1)?.contiguous()
    }

    /// The softmax of a tile's scores, in f32. `[key heads, group * queries, keys]`
    fn weights(self, queries: &Tensor, keys: &Tensor, mask: &Tensor) -> Result<Tensor> {
        let (count, span) = mask.dims2()?;
        let scores = (widened(&queries.matmul(&keys.t()?)?)? * self.scale())?;
        let masked = scores.reshape((self.keys, self.group, count, span))?.broadcast_add(mask)?;
        candle_nn::ops::softmax_last_dim(&masked)?.reshape((self.keys, self.group * count, span))
    }

    /// `q` `[tokens, heads * size]`, `k` and `v` `[keys, key heads * size]`: `[tokens, heads * size]`.
    fn attend(self, [q, k, v]: [&Tensor; 3], tiles: &Tiles) -> Result<Tensor> {
        let (k, v) = (self.by_head(k)?, self.by_head(v)?);
        let of_tile = |tile: &Tile| {
            let of_keys = |x: &Tensor| x.narrow(1, tile.keys.start, tile.keys.len());
            let queries = self.grouped(q, &tile.queries)?;
            let weights = self.weights(&queries, &of_keys(&k)?, &tile.mask)?.to_dtype(q.dtype())?;
            self.flat(&weights.matmul(&of_keys(&v)?)?, tile.queries.len())
        };
        Tensor::cat(&tiles.0.iter().map(of_tile).collect::<Result<Vec<_>>>()?, 0)
    }
}

struct Attention {
    tiles: Tiles,
    heads: Heads,
}

/// See [`crate::kernel::attention`].
///
/// # Errors
/// Shapes that do not fit.
pub fn attention(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    layout: &AttentionLayout,
    query_heads: usize,
    key_value_heads: usize,
) -> Result<Tensor> {
    let size = q.dim(1)? / query_heads;
    let heads = Heads { group: query_heads / key_value_heads, keys: key_value_heads, size };
    let tiles = Tiles::of_layout(layout, q.dtype(), q.device())?;
    apply3(Attention { tiles, heads }, &q.contiguous()?, &k.contiguous()?, &v.contiguous()?)
}

/// Gradients of keys and values while tiles add to them. `[key heads, tokens, size]`, f32
struct Sum(Tensor);

impl Sum {
    fn add(&self, part: &Tensor, keys: &Range<usize>) -> Result<()> {
        let sum = (self.0.narrow(1, keys.start, keys.len())? + widened(part)?)?;
        self.0.slice_set(&sum.contiguous()?, 1, keys.start)
    }

    /// As the input: `[tokens, key heads * size]`.
    fn like(&self, input: &Tensor) -> Result<Tensor> {
        self.0.transpose(0, 1)?.contiguous()?.reshape(input.dims())?.to_dtype(input.dtype())
    }
}

impl Operation<3> for Attention {
    const NAME: &'static str = "composed-attention";

    fn forward(&self, inputs: [&Tensor; 3]) -> Result<Tensor> {
        self.heads.attend(inputs, &self.tiles)
    }

    /// With p the weights and g the gradient at the output: ds = p (g v^T - sum(g output)), as in the fused operation.
    fn backward(
        &self,
        [q, k, v]: [&Tensor; 3],
        _: [bool; 3],
        output: &Tensor,
        gradient: &Tensor,
    ) -> Result<[Option<Tensor>; 3]> {
        let heads = self.heads;
        let (by_head_k, by_head_v) = (heads.by_head(k)?, heads.by_head(v)?);
        let zeros = || Tensor::zeros(by_head_k.dims(), wide(k.dtype()), k.device());
        let (to_k, to_v) = (Sum(zeros()?), Sum(zeros()?));
        let mut to_q = Vec::new();
        let tiles: &[Tile] = &self.tiles.0;
        for Tile { queries, keys, mask } in tiles {
            let span = |x: &Tensor| x.narrow(1, keys.start, keys.len());
            let (tile_q, tile_g) = (heads.grouped(q, queries)?, heads.grouped(gradient, queries)?);
            let (tile_k, tile_v) = (span(&by_head_k)?, span(&by_head_v)?);
            let weights = heads.weights(&tile_q, &tile_k, mask)?;
            to_v.add(&weights.to_dtype(q.dtype())?.t()?.matmul(&tile_g)?, keys)?;
            let along = (widened(&tile_g)? * widened(&heads.grouped(output, queries)?)?)?.sum_keepdim(D::Minus1)?;
            let to_weights = widened(&tile_g.matmul(&tile_v.t()?)?)?.broadcast_sub(&along)?;
            let to_scores = ((weights * to_weights)? * heads.scale())?.to_dtype(q.dtype())?;
            to_k.add(&to_scores.t()?.matmul(&tile_q)?, keys)?;
            to_q.push(heads.flat(&to_scores.matmul(&tile_k)?, queries.len())?);
        }
        Ok([Some(Tensor::cat(&to_q, 0)?), Some(to_k.like(k)?), Some(to_v.like(v)?)])
    }
}

/// Attention of new tokens over kept keys and values of several sequences, for decoding: no gradient.
#[derive(Debug)]
pub struct CachedTiles {
    tiles: Tiles,
    heads: Heads,
}

impl CachedTiles {
    /// For sequences of so many past and new tokens each, whose keys and values, the new ones included, stand one sequence after
    /// the other.
    ///
    /// # Errors
    /// Tensor errors.
    pub fn new(
        sequences: &[(usize, usize)],
        (query_heads, key_value_heads, size): (usize, usize, usize),
        dtype: DType,
        device: &Device,
    ) -> Result<Self> {
        let mut visible = Vec::new();
        let mut start = 0;
        for &(past, new) in sequences {
            visible.extend((0..new).map(|token| std::iter::once(start..start + past + token + 1).collect()));
            start += past + new;
        }
        let heads = Heads { group: query_heads / key_value_heads, keys: key_value_heads, size };
        Ok(Self { tiles: Tiles::new(&visible, dtype, device)?, heads })
    }

    /// `q` `[new tokens, heads * size]`, `k` and `v` `[all tokens, key_value_heads * size]`: `[new tokens, heads * size]`.
    ///
    /// # Errors
    /// Tensor errors.
    pub fn attend(&self, q: &Tensor, k: &Tensor, v: &Tensor) -> Result<Tensor> {
        self.heads.attend([&q.contiguous()?, &k.contiguous()?, &v.contiguous()?], &self.tiles)
    }
}
