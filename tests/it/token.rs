//! Claims about `token`.
