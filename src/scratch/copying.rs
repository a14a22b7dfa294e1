//! Attention that repeats what followed the same token before, laid out in the first two layers.
//!
//! Layer 0: half of the heads look one token back and write what stands there into directions of their own. Layer 1: every head
//! compares the token at hand with what those directions hold, and takes over the token at the place that matches. All else
//! stays random, and training changes everything. Olsson et al. 2022 (arXiv 2209.11895) describe the circuit in trained models.

use super::shape::Shape;
use super::weights::{EMBEDDING_DEVIATION, Matrix, Weights, name, normal};
use crate::run::seed::Seed;

/// All embeddings share one direction with this length, which gives attention something to turn by position alone.
const SHARED: f64 = 0.7;
/// Score of the token before, over that of its neighbours: enough to single it out.
const PEAK: f64 = 150.0;
/// What is left of random queries and keys in the heads that look back.
const REMNANT: f32 = 0.1;
/// Length of what a head that looks back adds to the residual stream.
const WRITTEN: f32 = 0.07;
/// Scale of queries and keys that compare.
const ASKED: f32 = 3.0;
const OFFERED: f32 = 2.5;
/// Scale of what is taken over.
const TAKEN: f32 = 0.15;
/// Slower rotations than this, in radians a token, still tell tokens apart from a hundred tokens away.
const SLOW: f64 = 0.01;
/// Base of rotary embeddings, as in the config.
const THETA: f64 = 10_000.0;

pub(super) fn lay_out(weights: &mut Weights, shape: &Shape, seed: Seed) {
    let (hidden, head_size) = (shape.hidden_size, shape.hidden_size / shape.heads);
    let shared = unit(normal(hidden, 1.0, seed, "copying/shared"));
    if let Some(embeddings) = weights.get_mut("model.embed_tokens.weight") {
        for row in 0..embeddings.rows {
            add(embeddings.row_mut(row), SHARED as f32, &shared);
        }
    }
    let back = shape.heads / 2;
    for head in 0..back {
        look_back(weights, head * head_size, head_size, &shared);
        write_apart(weights, head * head_size, head_size, seed);
    }
    for head in 0..shape.heads {
        let (own, from) = (head * head_size, head % back.max(1) * head_size);
        compare(weights, own, from, head_size);
        take_over(weights, own, head_size, &shared);
    }
}

/// Queries and keys along the shared direction, turned against each other by one token.
fn look_back(weights: &mut Weights, start: usize, head_size: usize, shared: &[f32]) {
    let half = head_size / 2;
    let hidden = shared.len() as f64;
    // A normed embedding's length along the shared direction.
    let along = hidden.sqrt() * SHARED / (SHARED * SHARED + EMBEDDING_DEVIATION * EMBEDDING_DEVIATION * hidden).sqrt();
    let amplitude = (PEAK * (head_size as f64).sqrt() / half as f64).sqrt() / along;
    for pair in 0..half {
        let angle = rotation(pair, half);
        let turns = [(pair, 1.0, angle.cos()), (pair + half, 0.0, angle.sin())];
        for (row, query, key) in turns {
            for (part, along) in [("self_attn.q_proj", query), ("self_attn.k_proj", key)] {
                edit(weights, 0, part, |matrix| {
                    let row = matrix.row_mut(start + row);
                    scale(row, REMNANT);
                    add(row, (amplitude * along) as f32, shared);
                });
            }
        }
    }
    without(weights, 0, start, head_size, shared);
}

/// Output columns of unit length that hardly overlap, so that what a head writes can be read apart from the rest.
fn write_apart(weights: &mut Weights, start: usize, head_size: usize, seed: Seed) {
    edit(weights, 0, "self_attn.o_proj", |output| {
        let deviation = (output.rows as f64).sqrt().recip();
        let columns = normal(output.rows * head_size, deviation, seed, &format!("copying/written/{start}"));
        for row in 0..output.rows {
            for column in 0..head_size {
                output.row_mut(row)[start + column] = WRITTEN * columns[row * head_size + column];
            }
        }
    });
}

/// Queries read the token at hand as the head that looks back read the one before; keys read what that head wrote. Only slow
/// rotations are used: the fast ones tell nothing at a distance.
fn compare(weights: &mut Weights, own: usize, from: usize, head_size: usize) {
    let half = head_size / 2;
    let (Some(read), Some(written)) =
        (weights.get(&name(0, "self_attn.v_proj")).cloned(), weights.get(&name(0, "self_attn.o_proj")).cloned())
    else {
        return;
    };
    for row in 0..head_size {
        let slow = if rotation(row % half, half) <= SLOW { 1.0 } else { 0.0 };
        edit(weights, 1, "self_attn.q_proj", |matrix| {
            let target = matrix.row_mut(own + row);
            scale(target, REMNANT / 2.0);
            add(target, slow * ASKED, read.row(from + row));
        });
        edit(weights, 1, "self_attn.k_proj", |matrix| {
            let column: Vec<f32> = (0..written.rows).map(|at| written.row(at)[from + row] / WRITTEN).collect();
            let target = matrix.row_mut(own + row);
            scale(target, REMNANT / 2.0);
            add(target, slow * OFFERED, &column);
        });
    }
}

/// The output gives back what the values read: the token itself, in a part of its directions.
fn take_over(weights: &mut Weights, own: usize, head_size: usize, shared: &[f32]) {
    without(weights, 1, own, head_size, shared);
    let Some(values) = weights.get(&name(1, "self_attn.v_proj")).cloned() else { return };
    edit(weights, 1, "self_attn.o_proj", |output| {
        for row in 0..output.rows {
            for column in 0..head_size {
                output.row_mut(row)[own + column] = TAKEN * values.row(own + column)[row];
            }
        }
    });
}

/// Values that do not read the shared direction.
fn without(weights: &mut Weights, layer: usize, start: usize, head_size: usize, shared: &[f32]) {
    edit(weights, layer, "self_attn.v_proj", |values| {
        for row in start..start + head_size {
            let along: f32 = values.row(row).iter().zip(shared).map(|(value, unit)| value * unit).sum();
            add(values.row_mut(row), -along, shared);
        }
    });
}

fn edit(weights: &mut Weights, layer: usize, part: &str, change: impl FnOnce(&mut Matrix)) {
    if let Some(matrix) = weights.get_mut(&name(layer, part)) {
        change(matrix);
    }
}

/// Radians a token by which a pair of a head's dimensions turns.
fn rotation(pair: usize, half: usize) -> f64 {
    THETA.powf(-(pair as f64) / half as f64)
}

fn scale(values: &mut [f32], by: f32) {
    for value in values {
        *value *= by;
    }
}

fn add(to: &mut [f32], scale: f32, what: &[f32]) {
    for (value, other) in to.iter_mut().zip(what) {
        *value += scale * other;
    }
}

fn unit(mut vector: Vec<f32>) -> Vec<f32> {
    let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
    scale(&mut vector, length.recip());
    vector
}
