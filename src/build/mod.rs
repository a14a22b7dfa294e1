//! Contracts and traces become audited SFT rows and preference pairs.
