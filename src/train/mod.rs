//! Training: rows and a model in; a run folder with log, checkpoints and the trained model out.
//!
//! The parts are pure where they can be: [`Order`] says which rows a step takes, [`deal`] packs them into passes,
//! an [`Objective`] turns log-probabilities into a share of the step's loss, [`Accumulator`] sums gradients, [`AdamW`]
//! updates. [`Loop`] strings them together; [`sft`] and [`dpo`] put a model, rows and a run folder around it.

mod batch;
mod gradient;
mod job;
mod log;
mod manifest;
mod memory;
mod objective;
mod optimizer;
mod order;
mod policy;
mod progress;
mod record;
mod reference;
mod rows;
mod run_loop;
mod schedule;
mod session;

pub use batch::{MicroBatch, TOKENS_PER_PASS, deal};
pub use gradient::{Accumulator, clip_factor, global_norm};
pub use job::{Job, Start, dpo, sft};
pub use log::{Log, Means, StepRow, read_log};
pub use manifest::{DataCounts, MANIFEST, ParameterCounts, RunManifest, RunOutcome, RunStatus, peak_memory_bytes};
pub use objective::{Objective, Preference, Supervised};
pub use optimizer::{AdamConstants, AdamW, Update};
pub use order::{Order, Window};
pub use policy::{DecoderPolicy, Pass, Policy};
pub use record::{write_events, write_trainer_state};
pub use reference::{read_cached, reference, write_cached};
pub use rows::{DropReason, DroppedRow, Encoded, encode_dpo, encode_sft};
pub use run_loop::{Loop, LoopOutcome};
pub use schedule::learning_rate;

/// The step log's file name in the run folder.
pub const LOG: &str = "log.jsonl";
