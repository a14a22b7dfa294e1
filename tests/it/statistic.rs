//! Claims about `statistic`.
