//! Traces become contracts; contracts make and audit training rows; rows train a model; the model's completions are
//! adjudicated against the same contracts.
//!
//! `ARCHITECTURE.md` lists the modules in the order of flow; a module imports only modules before it.

pub mod adjudicate;
pub mod agent;
pub mod audit;
pub mod build;
pub mod checkpoint;
pub mod cli;
pub mod completion;
pub mod contract;
pub mod control;
pub mod dataset;
pub mod device;
pub mod endpoint;
pub mod error;
pub mod evaluate;
pub mod export;
pub mod exposure;
pub mod generate;
pub mod guard;
pub mod kernel;
pub mod loss;
pub mod model;
pub mod observation;
pub mod pipeline;
pub mod probe;
pub mod prompt;
pub mod rank;
pub mod recipe;
pub mod report;
pub mod run;
pub mod scratch;
pub mod session;
pub mod split;
pub mod statistic;
pub mod synthesis;
pub mod token;
pub mod trace;
pub mod train;
pub mod verify;
pub mod workspace;
