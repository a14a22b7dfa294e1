//! The training loop and its parts, on a bigram model and on a tiny decoder.

#[path = "train/toy.rs"]
pub mod toy;

#[path = "train/parts.rs"]
mod parts;

#[path = "train/bigram.rs"]
mod bigram;
