//! Training: rows and a model in; a run folder with log, checkpoints and the trained model out.

mod gradient;
mod memory;
mod optimizer;
mod order;
mod schedule;

pub use gradient::{Accumulator, clip_factor, global_norm};
pub use optimizer::{AdamConstants, AdamW, Update};
pub use order::{Order, Window};
pub use schedule::learning_rate;
