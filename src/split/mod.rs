//! Traces are grouped by near-duplication and dealt to train and held-out by group.
