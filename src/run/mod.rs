//! The edges every stage shares: the one writer of files, JSONL, digests, seed streams, interruption and shards.

pub mod atomic;
pub mod digest;
pub mod interrupt;
pub(crate) mod json;
pub mod jsonl;
pub mod keyed;
pub mod seed;
pub mod shard;
mod temporary;
