//! Attention that looks values up by their key and repeats them, laid out in the first two layers.
//!
//! Olsson et al. 2022 (arXiv 2209.11895) find in trained models that one head notes which token came before, and that a later
//! head uses the note to repeat what followed the last time. Here three heads of layer 0 note the tokens one, two and three
//! places back, and every head of layer 1 compares them with the token at hand and the two before it: it attends to the place
//! whose history agrees longest, and takes over what stands there. Tokens that differ in case start alike, and so do the joints
//! `": "` of JSON and `: ` or ` | ` of answers; so `Order total: ` finds `"order_total": "` before any training, which then
//! changes everything.
//!
//! The residual stream has four parts: one shared direction, what a token is, the three notes, and what comes next. Embeddings
//! and output weights are not tied: the token at hand would else be the likeliest to come.

use super::shape::Shape;
use super::weights::{Matrix, Weights, name, normal};
use crate::run::seed::Seed;

/// Places back that are noted.
const BACK: usize = 3;
/// Weight of agreement by distance: the nearest counts most.
const WEIGHTS: [f64; BACK] = [1.0, 0.8, 0.6];
/// Share of a token's direction that it has in common with those it starts alike with.
const COMMON: f64 = 0.9;
/// Deviation of embeddings and output weights about their places.
const NOISE: f64 = 0.01;
const OUTPUT_NOISE: f64 = 0.02;
/// Length of output weights, and how much is taken over: both make what is copied likelier.
const OUTPUT: f32 = 2.0;
const TAKEN: f32 = 1.5;
/// Score of the place that is looked back to, shared among the fastest rotations, which tell neighbours apart.
const LOOK: f64 = 100.0;
const FAST_PAIRS: usize = 8;
/// Score of full agreement with one place back.
const AGREEMENT: f64 = 12.0;
/// Slower rotations than this, in radians a token, still agree hundreds of tokens away.
const SLOW: f64 = 0.004;
/// What is left of the random weights of heads that have a task.
const REMNANT: f32 = 0.05;

/// Why a shape has no room for the layout.
pub(super) fn fault(shape: &Shape) -> Option<&'static str> {
    let fits = shape.layers >= 2
        && shape.heads >= BACK
        && shape.key_value_heads == shape.heads
        && Parts::of(shape.hidden_size).note <= shape.hidden_size / shape.heads.max(1)
        && shape.hidden_size >= 64;
    (!fits).then_some(
        "`start = \"copying\"` needs two layers, three to eight heads, `key_value_heads` equal to `heads`, and `hidden_size` of at least 64",
    )
}

/// Where the parts of the residual stream begin, and how wide they are.
#[derive(Debug, Clone, Copy)]
struct Parts {
    token: usize,
    token_width: usize,
    notes: usize,
    note: usize,
    next: usize,
}

impl Parts {
    fn of(hidden_size: usize) -> Self {
        let note = hidden_size / 8;
        let token_width = (hidden_size - 1 - BACK * note) / 2;
        Self { token: 1, token_width, notes: 1 + token_width, note, next: 1 + token_width + BACK * note }
    }
}

/// Lays the circuit out over random weights; `tokens` are the texts of the vocabulary, by id.
pub(super) fn lay_out(weights: &mut Weights, shape: &Shape, tokens: &[String], seed: Seed) {
    let parts = Parts::of(shape.hidden_size);
    embed(weights, tokens, parts, seed);
    // [note, token width]: what of a token a note holds.
    let read = orthonormal(parts.note, parts.token_width, seed, "copying/read");
    look_back(weights, shape, parts, &read);
    compare(weights, shape, parts, &read, seed);
    take_over(weights, shape, parts);
}

/// What a token starts alike with.
fn meaning(token: &str) -> String {
    match token {
        "_" => " ".to_owned(),
        "\": \"" | " | " => ": ".to_owned(),
        other => other.to_lowercase(),
    }
}

fn embed(weights: &mut Weights, tokens: &[String], parts: Parts, seed: Seed) {
    let (common, own) = (COMMON as f32, (1.0 - COMMON * COMMON).sqrt() as f32);
    for (part, at, length, noise) in
        [("model.embed_tokens.weight", parts.token, 1.0, NOISE), ("lm_head.weight", parts.next, OUTPUT, OUTPUT_NOISE)]
    {
        let Some(matrix) = weights.get_mut(part) else { continue };
        let random = normal(matrix.values.len(), noise, seed, &format!("copying/{part}"));
        matrix.values.copy_from_slice(&random);
        for (id, token) in tokens.iter().enumerate().take(matrix.rows) {
            let shared = normal(parts.token_width, 1.0, seed, &format!("copying/meaning/{}", meaning(token)));
            let alone = normal(parts.token_width, 1.0, seed, &format!("copying/token/{id}"));
            let direction = unit(shared.iter().zip(alone).map(|(shared, alone)| common * shared + own * alone));
            add(&mut matrix.row_mut(id)[at..], length, &direction);
        }
    }
    if let Some(matrix) = weights.get_mut("model.embed_tokens.weight") {
        for row in 0..matrix.rows {
            matrix.row_mut(row)[0] += 1.0;
        }
    }
}

/// Queries and keys along the shared direction, turned against each other by one, two and three tokens; values note the token.
fn look_back(weights: &mut Weights, shape: &Shape, parts: Parts, read: &[Vec<f32>]) {
    let (head_size, half) = sizes(shape);
    let normed = (shape.hidden_size as f64 / 2.0).sqrt();
    let amplitude = (LOOK / FAST_PAIRS as f64 * (head_size as f64).sqrt()).sqrt() / normed;
    for back in 0..BACK {
        let start = back * head_size;
        fade(weights, 0, start, head_size);
        for pair in 0..FAST_PAIRS.min(half) {
            let angle = shape.rotation(pair) * (back + 1) as f64;
            edit(weights, 0, "self_attn.q_proj", |matrix| matrix.row_mut(start + pair)[0] += amplitude as f32);
            edit(weights, 0, "self_attn.k_proj", |matrix| {
                matrix.row_mut(start + pair)[0] += (amplitude * angle.cos()) as f32;
                matrix.row_mut(start + pair + half)[0] += (amplitude * angle.sin()) as f32;
            });
        }
        for (row, direction) in read.iter().enumerate() {
            edit(weights, 0, "self_attn.v_proj", |matrix| {
                matrix.row_mut(start + row).fill(0.0);
                add(&mut matrix.row_mut(start + row)[parts.token..], normed.recip() as f32, direction);
            });
            edit(weights, 0, "self_attn.o_proj", |matrix| {
                matrix.row_mut(parts.notes + back * parts.note + row)[start + row] += 1.0;
            });
        }
    }
}

/// Queries hold the token at hand and what was noted of the two before; keys hold what was noted of the three before. Only slow
/// rotations are used, and each distance has directions of its own in them.
fn compare(weights: &mut Weights, shape: &Shape, parts: Parts, read: &[Vec<f32>], seed: Seed) {
    let (head_size, half) = sizes(shape);
    let slow: Vec<usize> = (0..half).filter(|&pair| shape.rotation(pair) <= SLOW).collect();
    let dims: Vec<usize> = slow.iter().flat_map(|&pair| [pair, pair + half]).collect();
    let share = parts.token_width as f64 / parts.note as f64;
    let sharpness = (AGREEMENT * (head_size as f64).sqrt() * share).sqrt() / after_notes(shape, parts);
    for head in 0..shape.heads {
        let start = head * head_size;
        fade(weights, 1, start, head_size);
        for (back, weight) in WEIGHTS.iter().enumerate() {
            let scale = (sharpness * weight.sqrt()) as f32;
            let turned = orthonormal(parts.note, dims.len(), seed, &format!("copying/compare/{head}/{back}"));
            for (at, dim) in dims.iter().enumerate() {
                let column: Vec<f32> = turned.iter().map(|row| row[at]).collect();
                edit(weights, 1, "self_attn.k_proj", |matrix| {
                    add(&mut matrix.row_mut(start + dim)[parts.notes + back * parts.note..], scale, &column);
                });
                edit(weights, 1, "self_attn.q_proj", |matrix| {
                    let row = matrix.row_mut(start + dim);
                    if back == 0 {
                        for (value, direction) in column.iter().zip(read) {
                            add(&mut row[parts.token..], scale * value, direction);
                        }
                    } else {
                        add(&mut row[parts.notes + (back - 1) * parts.note..], scale, &column);
                    }
                });
            }
        }
    }
}

/// Each head carries a part of the token that it attends to over to what comes next.
fn take_over(weights: &mut Weights, shape: &Shape, parts: Parts) {
    let (head_size, _) = sizes(shape);
    let normed = after_notes(shape, parts);
    for at in 0..parts.token_width {
        let row = at % shape.heads * head_size + at / shape.heads;
        edit(weights, 1, "self_attn.v_proj", |matrix| {
            matrix.row_mut(row).fill(0.0);
            matrix.row_mut(row)[parts.token + at] = normed.recip() as f32;
        });
        edit(weights, 1, "self_attn.o_proj", |matrix| matrix.row_mut(parts.next + at)[row] += TAKEN);
    }
}

/// What the norm before layer 1 multiplies by: the stream then holds the shared direction, the token, and three notes of it.
fn after_notes(shape: &Shape, parts: Parts) -> f64 {
    let length = 2.0 + BACK as f64 * parts.note as f64 / parts.token_width as f64;
    (shape.hidden_size as f64 / length).sqrt()
}

fn sizes(shape: &Shape) -> (usize, usize) {
    let head_size = shape.hidden_size / shape.heads;
    (head_size, head_size / 2)
}

/// Makes room: the random weights of a head nearly vanish.
fn fade(weights: &mut Weights, layer: usize, start: usize, head_size: usize) {
    for part in ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"] {
        edit(weights, layer, part, |matrix| {
            for row in start..start + head_size {
                for value in matrix.row_mut(row) {
                    *value *= REMNANT;
                }
            }
        });
    }
}

fn edit(weights: &mut Weights, layer: usize, part: &str, change: impl FnOnce(&mut Matrix)) {
    if let Some(matrix) = weights.get_mut(&name(layer, part)) {
        change(matrix);
    }
}

fn add(to: &mut [f32], scale: f32, what: &[f32]) {
    for (value, other) in to.iter_mut().zip(what) {
        *value += scale * other;
    }
}

fn unit(values: impl Iterator<Item = f32>) -> Vec<f32> {
    let mut vector: Vec<f32> = values.collect();
    let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
    for value in &mut vector {
        *value /= length;
    }
    vector
}

/// Random rows at right angles, by Gram and Schmidt; with more rows than columns the rest are unit vectors only.
fn orthonormal(rows: usize, columns: usize, seed: Seed, name: &str) -> Vec<Vec<f32>> {
    let random = normal(rows * columns, 1.0, seed, name);
    let mut made: Vec<Vec<f32>> = Vec::with_capacity(rows);
    for row in random.chunks(columns.max(1)) {
        let mut vector = row.to_vec();
        if made.len() < columns {
            for earlier in &made {
                let along: f32 = vector.iter().zip(earlier).map(|(left, right)| left * right).sum();
                add(&mut vector, -along, earlier);
            }
        }
        made.push(unit(vector.into_iter()));
    }
    made
}
