//! Optimizer, schedule, accumulation, the SFT and DPO loops.
