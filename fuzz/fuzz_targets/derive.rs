//! Any trace of any format: its contract, if it gives one, is frozen and can be searched for.

#![no_main]

use libfuzzer_sys::fuzz_target;
use topalign_fuzz::adjudicate::{Matcher, decide, disclosures};
use topalign_fuzz::contract::derive;
use topalign_fuzz::trace::{Format, each_in};
use topalign_fuzz::{PLACE, check_error, check_round_trip};

fuzz_target!(|bytes: &[u8]| {
    let outcome = each_in(bytes, PLACE, Format::Auto, &mut |trace| {
        let derived = derive(&trace);
        assert_eq!(derived.trace_id, trace.trace_id);
        let Ok(contract) = derived.contract else { return Ok(()) };
        contract.verify().expect("a derived contract is frozen");
        check_round_trip(&contract);
        let matcher = Matcher::new(&contract).expect("a derived contract can be searched for");
        decide(&disclosures(&contract, &matcher, "response", &trace.sensitive_conclusion));
        Ok(())
    });
    if let Err(error) = outcome {
        check_error(&error);
    }
});
