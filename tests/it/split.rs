//! Claims about `split`.
