//! Checkpoints and exports that other programs load.
