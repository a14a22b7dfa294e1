//! Any bytes as SFT rows or preference pairs: read as training data, and audited against a contract and its trace.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use topalign_fuzz::audit::file::{Options, audit_in};
use topalign_fuzz::contract::{Contract, derive};
use topalign_fuzz::dataset::{parse_preferences, parse_sft};
use topalign_fuzz::trace::{Format, Trace, each_in};
use topalign_fuzz::{PLACE, check_error, check_round_trip};

static SCENARIOS: &str = include_str!("../../data/scenarios.jsonl");

static GROUND: LazyLock<(Vec<Contract>, Vec<Trace>)> = LazyLock::new(|| {
    let first: String = SCENARIOS.lines().take(2).flat_map(|line| [line, "\n"]).collect();
    let mut traces = Vec::new();
    each_in(first.as_bytes(), PLACE, Format::Auto, &mut |trace| {
        traces.push(trace);
        Ok(())
    })
    .expect("the project's own scenarios");
    (traces.iter().map(|trace| derive(trace).contract.expect("a contract")).collect(), traces)
});

fuzz_target!(|bytes: &[u8]| {
    match parse_sft(bytes, PLACE) {
        Ok(rows) => rows.iter().for_each(check_round_trip),
        Err(error) => check_error(&error),
    }
    match parse_preferences(bytes, PLACE) {
        Ok(pairs) => pairs.iter().for_each(check_round_trip),
        Err(error) => check_error(&error),
    }
    match audit_in(bytes, PLACE, &GROUND.0, &GROUND.1, &Options::default()) {
        Ok(outcome) => {
            assert!(outcome.failed_rows <= outcome.rows && outcome.without_contract <= outcome.rows);
            outcome.records.iter().for_each(check_round_trip);
            assert!(!outcome.table().is_empty());
        }
        Err(error) => check_error(&error),
    }
});
