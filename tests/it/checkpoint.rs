//! Claims about `checkpoint`.
