//! Claims about `evaluate`.
