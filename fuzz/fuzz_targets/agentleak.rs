//! Any bytes as an `AgentLeak` file.

#![no_main]

use libfuzzer_sys::fuzz_target;
use topalign_fuzz::trace::Format;

fuzz_target!(|bytes: &[u8]| topalign_fuzz::sessions(bytes, Format::AgentLeak));
