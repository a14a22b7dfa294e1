//! Training: rows and a model in; a run folder with log, checkpoints and the trained model out.
//!
//! The parts are pure where they can be: [`Order`] says which rows a step takes, [`deal`] packs them into passes,
//! an [`Objective`] turns log-probabilities into a share of the step's loss, [`Accumulator`] sums gradients, [`AdamW`]
//! updates. [`Loop`] strings them together; [`sft`] and [`dpo`] put a model, rows and a run folder around it.

mod answers;
mod batch;
mod estimate;
mod evaluation;
mod events;
mod gradient;
mod job;
mod log;
mod manifest;
mod memory;
mod objective;
mod optimizer;
mod order;
mod out_of_memory;
mod parity;
mod plan;
mod policy;
mod preferences;
mod progress;
mod record;
mod reference;
mod resolved;
mod rows;
mod run_loop;
mod schedule;
mod session;

pub use batch::{MicroBatch, TOKENS_PER_PASS, deal, tokens_per_pass};
pub use estimate::{Activations, MemoryEstimate, memory};
pub use evaluation::{Best, EVALUATION_LOSS, Evaluation};
pub use events::{EVENTS, Events};
pub use gradient::{Accumulator, clip_factor, global_norm};
pub use job::{Job, MODEL_INPUT, Rows, Start, dpo, plan_dpo, plan_sft, sft};
pub use log::{Log, Means, StepRow, read_log};
pub use manifest::{DataCounts, MANIFEST, ParameterCounts, RunManifest, RunOutcome, RunStatus, peak_memory_bytes};
pub use objective::{Mismatched, Objective, Preference, StepScale, Supervised};
pub use optimizer::{AdamConstants, AdamW, DecayGroup, Update};
pub use order::{Order, Window};
pub use parity::{Difference, Parity, Probe, compare};
pub use plan::{Example, Plan, TimeEstimate, TrainedText};
pub use policy::{DecoderPolicy, LossOf, Pass, Policy};
pub use record::write_trainer_state;
pub use reference::{read_cached, reference, write_cached};
pub use resolved::{RESOLVED, ResolvedRecipe};
pub use rows::{DropReason, DroppedRow, Encoded, encode_dpo, encode_sft, encode_unpaired};
pub use run_loop::{Loop, LoopOutcome};
pub use schedule::learning_rate;

/// The step log's file name in the run folder.
pub const LOG: &str = "log.jsonl";
