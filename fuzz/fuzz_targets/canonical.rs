//! Any bytes as the rows that this program writes: traces, contracts, observations and what belongs to them.

#![no_main]

use std::fmt::Debug;

use libfuzzer_sys::fuzz_target;
use serde::Serialize;
use serde::de::DeserializeOwned;
use topalign_fuzz::contract::Contract;
use topalign_fuzz::observation::response::Response;
use topalign_fuzz::observation::{Action, Candidates, Observation, validate};
use topalign_fuzz::run::jsonl;
use topalign_fuzz::trace::Format;
use topalign_fuzz::{PLACE, check_error, check_round_trip};

fn rows<T: Serialize + DeserializeOwned + PartialEq + Debug>(bytes: &[u8]) -> Vec<T> {
    match jsonl::parse(bytes, PLACE) {
        Ok(rows) => rows,
        Err(error) => {
            check_error(&error);
            Vec::new()
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    topalign_fuzz::traces(bytes, Format::Canonical);
    let contracts: Vec<Contract> = rows(bytes);
    for contract in &contracts {
        check_round_trip(contract);
        if let Err(error) = contract.clone().freeze() {
            check_error(&error);
        }
    }
    let observations: Vec<Observation> = rows(bytes);
    observations.iter().for_each(check_round_trip);
    if let Err(error) = validate(&contracts, observations, PLACE) {
        check_error(&error);
    }
    rows::<Candidates>(bytes).iter().for_each(check_round_trip);
    rows::<Action>(bytes).iter().for_each(check_round_trip);
    rows::<Response>(bytes).iter().for_each(check_round_trip);
});
