//! Intervals and tests, pure.
