//! Claims about `build`.
