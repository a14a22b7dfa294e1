//! Claims about `dataset`.
