//! Claims about `trace`.
