//! Batched decoding with a KV cache, and the two-stage protocol.
