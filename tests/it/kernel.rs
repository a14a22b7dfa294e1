//! Claims about `kernel`.
