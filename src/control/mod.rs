//! What contracts and scorer must show before anybody is judged: which parts of a support already carry a target, that
//! authorising everybody gives an exposure of 0 and nobody one of 1, and unrelated donors for the judge's floor.
//!
//! In: traces, contracts, appearances, a seed. Out: [`TraceSubsets`] and [`SubsetCounts`], [`Control`], donors. Pure: no files,
//! no clock.
//! Source: ASLEval, section 3.1 (arXiv 2609.18864); TOP-Bench's conditions C2 and C3 (arXiv 2512.16310).

mod authorization;
mod pairing;
mod subset;
mod tally;

pub use authorization::{Appearance, Control, ControlCounts, control, every_target};
pub use pairing::{Pairing, donors, repair};
pub use subset::{Carried, CarriedBy, SubsetCount, SubsetCounts, TraceSubsets, subsets};
pub use tally::{Checked, Checks, RoleCount, Tally, TraceReason};
