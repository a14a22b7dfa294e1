//! The program's readers and its matcher as they stand, without what needs tensors, so that they build in a few minutes; and
//! what each must hold.

// What only the rest of the program uses.
#![allow(dead_code, unused_imports)]

// `error` knows a tensor error, which nothing here can meet.
extern crate self as candle_core;

mod check;

pub use check::{CONTEXT, PLACE, check_error, check_log, check_round_trip, sessions, traces};

/// Stands for Candle's error.
#[derive(Debug)]
pub enum Error {}

impl std::fmt::Display for Error {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {}
    }
}

impl std::error::Error for Error {}

#[path = "../../src/adjudicate/mod.rs"]
pub mod adjudicate;
#[path = "../../src/agent/mod.rs"]
pub mod agent;
#[path = "../../src/audit/mod.rs"]
pub mod audit;
#[path = "../../src/contract/mod.rs"]
pub mod contract;
#[path = "../../src/dataset/mod.rs"]
pub mod dataset;
#[path = "../../src/endpoint/mod.rs"]
pub mod endpoint;
#[path = "../../src/error.rs"]
pub mod error;
#[path = "../../src/observation/mod.rs"]
pub mod observation;
#[path = "../../src/probe/mod.rs"]
pub mod probe;
#[path = "../../src/prompt/mod.rs"]
pub mod prompt;
#[path = "../../src/recipe/mod.rs"]
pub mod recipe;
#[path = "../../src/run/mod.rs"]
pub mod run;
pub mod scratch;
pub mod session;
#[path = "../../src/synthesis/mod.rs"]
pub mod synthesis;
#[path = "../../src/trace/mod.rs"]
pub mod trace;
#[path = "../../src/verify/mod.rs"]
pub mod verify;
#[path = "../../src/workspace/mod.rs"]
pub mod workspace;
