//! Any bytes as run results of TOP-Bench's runner.

#![no_main]

use libfuzzer_sys::fuzz_target;
use topalign_fuzz::error::Result;
use topalign_fuzz::observation::response::{Run, parse};
use topalign_fuzz::trace::{Rows, Variant};
use topalign_fuzz::{PLACE, check_error, check_round_trip};

fn responses(bytes: &[u8]) -> Result<()> {
    let mut rows = Rows::new(bytes, PLACE)?;
    while let Some(row) = rows.next_row()? {
        for variant in [Variant::Base, Variant::NegativeControl] {
            for response in parse(&row, &Run { model: "m", variant })? {
                assert!(response.content.is_some() || response.error.is_some(), "an absent answer says why");
                assert!(matches!(response.stage, 1 | 2));
                check_round_trip(&response);
            }
        }
    }
    Ok(())
}

fuzz_target!(|bytes: &[u8]| {
    if let Err(error) = responses(bytes) {
        check_error(&error);
    }
});
