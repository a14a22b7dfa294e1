//! Claims about `generate`.
