//! One integration binary; one module per noun.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::float_cmp)] // a test that cannot go on fails

mod adjudicate;
mod architecture;
mod audit;
mod build;
mod checkpoint;
mod command;
mod contract;
mod dataset;
mod evaluate;
mod generate;
mod kernel;
mod loss;
mod model;
mod observation;
mod prompt;
mod recipe;
mod report;
mod scenarios;
mod split;
mod statistic;
mod token;
mod trace;
mod train;
