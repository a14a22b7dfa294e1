//! Claims about `model`.
