//! A model's own tokenizer and chat template; rows become token ids with answers marked.
//!
//! In: a Hugging Face folder or a GGUF file, and chat messages. Out: prompts and answers as token ids, and [`pack`]ed
//! trees of them. Rendering equals that of `transformers`: the goldens in `tests/cases/token` were made with it.

mod pack;

pub use pack::{Packed, PackedSequence, Segment, Tree, pack};
