//! The training loop and its parts, on a bigram model and on a tiny decoder.

#![allow(
    clippy::unwrap_used,
    clippy::float_cmp,
    reason = "a test fails by panicking, and states exact values on purpose"
)]

#[path = "train/bf16.rs"]
mod bf16;
#[path = "train/bigram.rs"]
mod bigram;
#[path = "train/decoder.rs"]
mod decoder;
#[path = "train/dropout.rs"]
mod dropout;
#[path = "train/evaluation.rs"]
mod evaluation;
#[path = "train/interruption.rs"]
mod interruption;
#[path = "train/losses.rs"]
mod losses;
#[path = "train/parts.rs"]
mod parts;
#[path = "train/plan.rs"]
mod plan;
#[path = "train/ranks.rs"]
mod ranks;
#[path = "train/recompute.rs"]
mod recompute;
#[path = "train/record.rs"]
mod record;
#[path = "train/resolved.rs"]
mod resolved;
#[path = "train/rows.rs"]
mod rows;
#[path = "train/tiny.rs"]
pub mod tiny;
#[path = "train/toy.rs"]
pub mod toy;
