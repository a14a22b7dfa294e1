//! Any bytes with the format told by the content: what is told is what the reader of that format takes or refuses.

#![no_main]

use libfuzzer_sys::fuzz_target;
use topalign_fuzz::trace::{Family, Format, Rows};
use topalign_fuzz::{PLACE, check_error, sessions, traces};

fuzz_target!(|bytes: &[u8]| {
    traces(bytes, Format::Auto);
    match Rows::new(bytes, PLACE).and_then(|mut rows| Format::of_rows(&mut rows)) {
        Ok(format) => {
            assert_ne!(format, Format::Auto);
            if format.family() == Some(Family::Sessions) {
                sessions(bytes, format);
            }
        }
        Err(error) => check_error(&error),
    }
});
