//! Claims about `loss`.
