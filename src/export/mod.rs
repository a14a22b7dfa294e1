//! Data and settings for other trainers.
//!
//! In: a recipe, SFT rows, preference pairs. Out: a folder that TRL's command line runs from, on any number of machines.

mod trl;

pub use trl::{Exported, Handover, OUTPUTS as TRL_OUTPUTS, write_trl};
