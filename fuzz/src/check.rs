//! What every reader must hold, whatever it is given: no panic, an error of the input's class, and rows that read back as
//! they were written.
//!
//! In: bytes from the fuzzer. The targets under `fuzz_targets` name a reader each; `scripts/fuzz` runs them.

use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};
use crate::observation::{Context, SessionLog, each, validate};
use crate::trace::{Format, Rows, Trace, each_in};

/// Stands for the file in errors and ids.
pub const PLACE: &str = "input";

/// What readers of sessions are told beside the rows.
pub const CONTEXT: Context<'static> = Context { contract_id: "by-hand", file: PLACE, model: None };

/// Bad input ends a command with status 2, never with that of failed work.
pub fn check_error(error: &Error) {
    assert_eq!(error.exit_status(), 2, "{error}");
    assert!(!error.to_string().is_empty());
}

/// What is written reads back equal.
pub fn check_round_trip<T: Serialize + DeserializeOwned + PartialEq + Debug>(row: &T) {
    let text = serde_json::to_string(row).expect("a row has a JSON form");
    let again: T = serde_json::from_str(&text).expect("a written row can be read");
    assert_eq!(*row, again);
}

/// Traces of a format: each is written as the canonical form says, and read back equal.
pub fn traces(bytes: &[u8], format: Format) {
    let mut read = Vec::new();
    let outcome = each_in(bytes, PLACE, format, &mut |trace| {
        read.push(trace);
        Ok(())
    });
    match outcome {
        Ok(extent) => assert_eq!(extent.rows, read.len()),
        Err(error) => check_error(&error),
    }
    read.iter().for_each(check_trace);
}

fn check_trace(trace: &Trace) {
    let text = serde_json::to_string(trace).expect("a trace has a JSON form");
    let mut again = Vec::new();
    each_in(text.as_bytes(), PLACE, Format::Canonical, &mut |trace| {
        again.push(trace);
        Ok(())
    })
    .expect("a written trace can be read");
    assert_eq!(std::slice::from_ref(trace), again);
}

/// Sessions of a format.
pub fn sessions(bytes: &[u8], format: Format) {
    let outcome = Rows::new(bytes, PLACE).and_then(|mut rows| each(&mut rows, format, &CONTEXT, &mut check_session));
    if let Err(error) = outcome {
        check_error(&error);
    }
}

fn check_session(log: SessionLog, place: &str) -> Result<()> {
    assert!(place.starts_with(PLACE));
    check_log(log)
}

/// Contracts are frozen, observations read back equal, and a log that brings its contracts is judged by them.
pub fn check_log(log: SessionLog) -> Result<()> {
    for contract in &log.contracts {
        contract.verify().expect("a contract of a log is frozen");
        check_round_trip(contract);
    }
    log.observations.iter().for_each(check_round_trip);
    log.labels.iter().for_each(check_round_trip);
    log.refusals.iter().for_each(check_round_trip);
    if !log.contracts.is_empty()
        && let Err(error) = validate(&log.contracts, log.observations, PLACE)
    {
        check_error(&error);
    }
    Ok(())
}
