//! Any bytes as a TOP-Bench v1 file.

#![no_main]

use libfuzzer_sys::fuzz_target;
use topalign_fuzz::trace::Format;

fuzz_target!(|bytes: &[u8]| topalign_fuzz::traces(bytes, Format::TopBenchV1));
