//! Claims about `scenarios`.
