//! Claims about `train`.
