//! One integration binary; one module per noun.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::float_cmp)] // a test that cannot go on fails

mod adjudicate;
mod agent;
mod agreement;
mod architecture;
mod audit;
mod build;
mod checker;
mod checkpoint;
mod command;
mod contract;
mod control;
mod dataset;
mod device;
mod disk;
mod edges;
mod embedded;
mod endpoint;
mod evaluate;
mod exposure;
mod generate;
mod inferred;
mod kernel;
mod loss;
mod members;
mod model;
mod observation;
mod prompt;
mod ranks;
mod reader;
mod recipe;
mod report;
mod scenarios;
mod server;
mod session;
mod shard;
mod split;
mod statistic;
mod synthesis;
mod tile;
mod token;
mod trace;
mod train;
mod verify;
mod writer;
