//! Attention over packed trees (Dao et al. 2022 for the blockwise recomputation): a query sees its own segment causally and
//! the whole of its ancestors. Only visible keys are multiplied, block by block of queries; no `[sequence, sequence]` buffer.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use candle_core::{CpuStorage, CustomOp3, Layout, Result, Shape, Tensor, bail};
use rayon::prelude::*;

use super::composed::{Tiles, Uploaded};
use super::exponential::{exp, exp_in_place, maximum};
use super::matrix::{Threads, View, multiply};
use super::storage::{slice, with_values};
use super::{composed, is_fused};

/// Queries handled by one task.
const QUERIES: usize = 128;

/// What each run of tokens sees: its own past, and all of `before`.
#[derive(Debug)]
pub struct AttentionLayout {
    tokens: usize,
    runs: Vec<Run>,
    /// The composed path's tiles.
    pub(super) tiles: Uploaded<Tiles>,
}

#[derive(Debug)]
struct Run {
    own: Range<usize>,
    before: Vec<Range<usize>>,
}

impl AttentionLayout {
    /// A layout from runs in order: each run's tokens and the earlier ranges that it sees whole.
    ///
    /// # Errors
    /// Runs that leave a gap or overlap, or that look ahead of themselves.
    pub fn new(runs: impl IntoIterator<Item = (Range<usize>, Vec<Range<usize>>)>) -> Result<Self> {
        let mut layout = Self { tokens: 0, runs: Vec::new(), tiles: Uploaded::default() };
        for (own, before) in runs {
            if own.start != layout.tokens || own.is_empty() {
                bail!("attention layout: segment {own:?} does not continue at token {}", layout.tokens);
            }
            if let Some(range) = before.iter().find(|range| range.end > own.start || range.is_empty()) {
                bail!("attention layout: segment {own:?} cannot see {range:?}");
            }
            layout.tokens = own.end;
            layout.runs.push(Run { own, before });
        }
        Ok(layout)
    }

    /// The ranges of keys that each token sees.
    pub(super) fn visible(&self) -> Vec<Vec<Range<usize>>> {
        let of_run = |run: &Run| {
            let of_token =
                |token: usize| run.before.iter().cloned().chain(std::iter::once(run.own.start..token + 1)).collect();
            run.own.clone().map(of_token).collect::<Vec<_>>()
        };
        self.runs.iter().flat_map(of_run).collect()
    }

    fn blocks(&self) -> Vec<Block<'_>> {
        let starts = |run: &Run| run.own.clone().step_by(QUERIES);
        self.runs
            .iter()
            .flat_map(|run| {
                starts(run).map(move |start| {
                    let queries = start..(start + QUERIES).min(run.own.end);
                    Block { before: &run.before, own: run.own.start..queries.end, queries }
                })
            })
            .collect()
    }
}

/// One task: some queries of a run and the keys that they see.
struct Block<'a> {
    queries: Range<usize>,
    before: &'a [Range<usize>],
    /// Keys of the own run up to the last query.
    own: Range<usize>,
}

impl Block<'_> {
    fn keys(&self) -> usize {
        self.before.iter().map(Range::len).sum::<usize>() + self.own.len()
    }

    /// Ranges of keys with the column at which each starts in the block of scores.
    fn ranges(&self) -> impl Iterator<Item = (usize, Range<usize>)> + '_ {
        let mut column = 0;
        self.before.iter().chain(std::iter::once(&self.own)).map(move |range| {
            let start = column;
            column += range.len();
            (start, range.clone())
        })
    }

    /// Number of keys that the query in this row of the block sees: the columns after them are the future.
    fn visible(&self, row: usize) -> usize {
        self.keys() - (self.queries.len() - 1 - row)
    }
}

/// Numbers of heads and their size.
#[derive(Debug, Clone, Copy)]
struct Heads {
    queries: usize,
    keys: usize,
    size: usize,
}

impl Heads {
    fn scale(self) -> f32 {
        1.0 / (self.size as f32).sqrt()
    }

    /// Scaled scores of a block for one query head. `[queries, keys]`
    fn scores(self, block: &Block<'_>, head: usize, q: &[f32], k: &[f32], scores: &mut [f32]) {
        let stride = block.keys();
        let queries = self.queries_of(block, head, q);
        for (column, range) in block.ranges() {
            let keys = self.keys_of(&range, head, k);
            multiply(&mut scores[column..], stride, queries, keys.transposed(), self.scale(), false, Threads::One);
        }
    }

    fn queries_of<'a>(self, block: &Block<'_>, head: usize, q: &'a [f32]) -> View<'a> {
        let width = self.queries * self.size;
        View::new(&q[block.queries.start * width + head * self.size..], block.queries.len(), self.size, width)
    }

    fn keys_of<'a>(self, range: &Range<usize>, head: usize, k: &'a [f32]) -> View<'a> {
        let width = self.keys * self.size;
        let key_head = head / (self.queries / self.keys);
        View::new(&k[range.start * width + key_head * self.size..], range.len(), self.size, width)
    }
}

struct Attention {
    layout: Arc<AttentionLayout>,
    heads: Heads,
    /// Log of each query's sum of exponentials, kept for the backward. `[heads, tokens]`
    log_sums: OnceLock<Vec<f32>>,
}

/// `q` `[tokens, heads * size]`, `k` and `v` `[tokens, key_value_heads * size]`: `[tokens, heads * size]`.
///
/// # Errors
/// Shapes that do not fit each other or the layout.
pub fn attention(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    layout: &Arc<AttentionLayout>,
    query_heads: usize,
    key_value_heads: usize,
) -> Result<Tensor> {
    let ((tokens, width), (_, key_width)) = (q.dims2()?, k.dims2()?);
    let fits = query_heads > 0 && key_value_heads > 0 && query_heads.is_multiple_of(key_value_heads);
    if !fits || tokens != layout.tokens || width * key_value_heads != key_width * query_heads || k.shape() != v.shape()
    {
        bail!(
            "attention: q {:?}, k {:?}, v {:?} do not fit {query_heads}/{key_value_heads} heads and {} tokens",
            q.shape(),
            k.shape(),
            v.shape(),
            layout.tokens
        );
    }
    let heads = Heads { queries: query_heads, keys: key_value_heads, size: width / query_heads };
    if is_fused(q) {
        let operation = Attention { layout: layout.clone(), heads, log_sums: OnceLock::new() };
        q.contiguous()?.apply_op3(&k.contiguous()?, &v.contiguous()?, operation)
    } else {
        composed::attention(q, k, v, layout, query_heads, key_value_heads)
    }
}

impl CustomOp3 for Attention {
    fn name(&self) -> &'static str {
        "tree-attention"
    }

    fn cpu_fwd(
        &self,
        s1: &CpuStorage,
        l1: &Layout,
        s2: &CpuStorage,
        l2: &Layout,
        s3: &CpuStorage,
        l3: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (q, k, v) = (slice(s1, l1)?, slice(s2, l2)?, slice(s3, l3)?);
        let (tokens, size, width) = (self.layout.tokens, self.heads.size, self.heads.queries * self.heads.size);
        let blocks = self.layout.blocks();
        let tasks: Vec<_> =
            (0..self.heads.queries).flat_map(|head| blocks.iter().map(move |block| (head, block))).collect();
        let parts: Vec<(Vec<f32>, Vec<f32>)> =
            tasks.par_iter().with_max_len(1).map(|&(head, block)| self.heads.attend(block, head, q, k, v)).collect();
        let mut output = vec![0.0; tokens * width];
        let mut log_sums = vec![0.0; self.heads.queries * tokens];
        for ((head, block), (values, sums)) in tasks.iter().zip(&parts) {
            for (row, token) in block.queries.clone().enumerate() {
                let start = token * width + head * size;
                output[start..start + size].copy_from_slice(&values[row * size..(row + 1) * size]);
                log_sums[head * tokens + token] = sums[row];
            }
        }
        let _ = self.log_sums.set(log_sums);
        Ok((CpuStorage::F32(output), l1.shape().clone()))
    }

    fn bwd(
        &self,
        q: &Tensor,
        k: &Tensor,
        v: &Tensor,
        output: &Tensor,
        gradient: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let Some(log_sums) = self.log_sums.get() else { bail!("attention: backward before forward") };
        let (to_q, to_k, to_v) = with_values(q, |q| {
            with_values(k, |k| {
                with_values(v, |v| {
                    with_values(output, |output| {
                        with_values(gradient, |gradient| {
                            let saved = Saved { q, k, v, output, gradient, log_sums };
                            Ok(self.gradients(&saved))
                        })
                    })
                })
            })
        })?;
        Ok((
            Some(Tensor::from_vec(to_q, q.shape(), q.device())?),
            Some(Tensor::from_vec(to_k, k.shape(), k.device())?),
            Some(Tensor::from_vec(to_v, v.shape(), v.device())?),
        ))
    }
}

impl Heads {
    /// Output `[queries, size]` and log-sums `[queries]` of one block and head.
    fn attend(self, block: &Block<'_>, head: usize, q: &[f32], k: &[f32], v: &[f32]) -> (Vec<f32>, Vec<f32>) {
        let (rows, keys) = (block.queries.len(), block.keys());
        let mut scores = vec![0.0; rows * keys];
        self.scores(block, head, q, k, &mut scores);
        let mut log_sums = Vec::with_capacity(rows);
        for (row, scores) in scores.chunks_mut(keys).enumerate() {
            let (seen, future) = scores.split_at_mut(block.visible(row));
            future.fill(0.0);
            let largest = maximum(seen);
            let sum = exp_in_place(seen, largest);
            let scale = 1.0 / sum;
            for value in seen {
                *value *= scale;
            }
            log_sums.push(largest + sum.ln());
        }
        let mut output = vec![0.0; rows * self.size];
        for (index, (column, range)) in block.ranges().enumerate() {
            let weights = View::new(&scores[column..], rows, range.len(), keys);
            multiply(&mut output, self.size, weights, self.keys_of(&range, head, v), 1.0, index > 0, Threads::One);
        }
        (output, log_sums)
    }
}

/// What the backward reads.
struct Saved<'a> {
    q: &'a [f32],
    k: &'a [f32],
    v: &'a [f32],
    output: &'a [f32],
    gradient: &'a [f32],
    log_sums: &'a [f32],
}

/// Gradients of one query head, each `[tokens, size]`.
struct HeadGradients {
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
}

impl Attention {
    fn gradients(&self, saved: &Saved<'_>) -> (Vec<f32>, Vec<f32>, Vec<f32>) {
        let heads = self.heads;
        let blocks = self.layout.blocks();
        let per_head: Vec<HeadGradients> = (0..heads.queries)
            .into_par_iter()
            .with_max_len(1)
            .map(|head| self.head_gradients(&blocks, head, saved))
            .collect();
        let tokens = self.layout.tokens;
        let mut to_q = vec![0.0; tokens * heads.queries * heads.size];
        let mut to_k = vec![0.0; tokens * heads.keys * heads.size];
        let mut to_v = vec![0.0; tokens * heads.keys * heads.size];
        for (head, part) in per_head.iter().enumerate() {
            let key_head = head / (heads.queries / heads.keys);
            add_columns(&mut to_q, &part.q, heads.queries * heads.size, head * heads.size, heads.size);
            add_columns(&mut to_k, &part.k, heads.keys * heads.size, key_head * heads.size, heads.size);
            add_columns(&mut to_v, &part.v, heads.keys * heads.size, key_head * heads.size, heads.size);
        }
        (to_q, to_k, to_v)
    }

    fn head_gradients(&self, blocks: &[Block<'_>], head: usize, saved: &Saved<'_>) -> HeadGradients {
        let count = self.layout.tokens * self.heads.size;
        let mut gradients = HeadGradients { q: vec![0.0; count], k: vec![0.0; count], v: vec![0.0; count] };
        for block in blocks {
            self.block_gradients(block, head, saved, &mut gradients);
        }
        gradients
    }

    /// The softmax's backward: with p the weights and g the gradient at the output, ds = p * (g v^T - sum(g * output)).
    fn block_gradients(&self, block: &Block<'_>, head: usize, saved: &Saved<'_>, gradients: &mut HeadGradients) {
        let heads = self.heads;
        let (rows, keys, size) = (block.queries.len(), block.keys(), heads.size);
        let mut weights = vec![0.0; rows * keys];
        heads.scores(block, head, saved.q, saved.k, &mut weights);
        let at_output = heads.queries_of(block, head, saved.gradient);
        let mut to_scores = vec![0.0; rows * keys];
        for (column, range) in block.ranges() {
            let values = heads.keys_of(&range, head, saved.v).transposed();
            multiply(&mut to_scores[column..], keys, at_output, values, 1.0, false, Threads::One);
        }
        let width = heads.queries * size;
        for (row, token) in block.queries.clone().enumerate() {
            let start = token * width + head * size;
            let dot: f32 = saved.gradient[start..start + size]
                .iter()
                .zip(&saved.output[start..start + size])
                .map(|(g, o)| g * o)
                .sum();
            let log_sum = saved.log_sums[head * self.layout.tokens + token];
            let (seen, future) = weights[row * keys..(row + 1) * keys].split_at_mut(block.visible(row));
            let (to_seen, to_future) = to_scores[row * keys..(row + 1) * keys].split_at_mut(seen.len());
            future.fill(0.0);
            to_future.fill(0.0);
            for (weight, to_score) in seen.iter_mut().zip(to_seen) {
                *weight = exp(*weight - log_sum);
                *to_score = *weight * (*to_score - dot);
            }
        }
        let queries = heads.queries_of(block, head, saved.q);
        let to_queries = &mut gradients.q[block.queries.start * size..block.queries.end * size];
        for (index, (column, range)) in block.ranges().enumerate() {
            let weights = View::new(&weights[column..], rows, range.len(), keys).transposed();
            let to_scores = View::new(&to_scores[column..], rows, range.len(), keys);
            let span = range.start * size..range.end * size;
            let scale = heads.scale();
            multiply(&mut gradients.v[span.clone()], size, weights, at_output, 1.0, true, Threads::One);
            multiply(&mut gradients.k[span], size, to_scores.transposed(), queries, scale, true, Threads::One);
            let keys = heads.keys_of(&range, head, saved.k);
            multiply(to_queries, size, to_scores, keys, scale, index > 0, Threads::One);
        }
    }
}

/// Adds `part` `[tokens, size]` to the columns of `whole` `[tokens, width]` from `start` on.
fn add_columns(whole: &mut [f32], part: &[f32], width: usize, start: usize, size: usize) {
    for (whole, part) in whole.chunks_mut(width).zip(part.chunks(size)) {
        whole[start..start + size].iter_mut().zip(part).for_each(|(sum, value)| *sum += value);
    }
}

/// Attention of new queries over a cache, for decoding: no gradient.
#[derive(Debug, Clone, Copy)]
pub struct CachedAttention {
    /// Query heads.
    pub query_heads: usize,
    /// Key and value heads.
    pub key_value_heads: usize,
    /// Size of a head.
    pub head_size: usize,
}

impl CachedAttention {
    /// `q` `[new, heads * size]` are the last tokens of a sequence whose keys and values, theirs included, are `k` and `v`
    /// `[tokens, key_value_heads * size]`: `[new, heads * size]`.
    ///
    /// # Panics
    /// If the slices do not fit: a bug of the caller.
    pub fn attend(&self, q: &[f32], k: &[f32], v: &[f32]) -> Vec<f32> {
        let heads = Heads { queries: self.query_heads, keys: self.key_value_heads, size: self.head_size };
        let width = heads.queries * heads.size;
        let tokens = k.len() / (heads.keys * heads.size);
        let new = q.len() / width;
        let past = tokens - new;
        let mut output = vec![0.0; q.len()];
        for start in (0..new).step_by(QUERIES) {
            let end = (start + QUERIES).min(new);
            let rows = &q[start * width..end * width];
            // The block's queries stand at 0 of `rows`; its keys are all tokens up to the last query.
            let block = Block { queries: 0..end - start, before: &[], own: 0..past + end };
            let parts: Vec<_> =
                (0..heads.queries).into_par_iter().map(|head| heads.attend(&block, head, rows, k, v).0).collect();
            for (head, part) in parts.iter().enumerate() {
                add_columns(&mut output[start * width..end * width], part, width, head * heads.size, heads.size);
            }
        }
        output
    }
}
