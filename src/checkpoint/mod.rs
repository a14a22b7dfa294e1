//! Checkpoints and exports: a run's exact state, and folders that transformers and PEFT load.
//!
//! In: named tensors and the run's position. Out: folders that appear whole or not at all.

mod adapter;
mod card;
mod export;
mod merge;
mod source;
mod state;
mod tensors;

pub use adapter::AdapterExport;
pub use card::{CardContent, ModelCard};
pub use export::ModelExport;
pub use merge::{MERGED, merge};
pub use source::SourceModel;
pub use state::{
    Checkpoint, Resumable, TrainingState, clear, exist, folder_of, latest, load, prune, rotate, save, states, sweep,
};
pub use tensors::{read_tensors, write_tensors};
