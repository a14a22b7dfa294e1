//! Any bytes as a chat-completions log.

#![no_main]

use libfuzzer_sys::fuzz_target;
use topalign_fuzz::trace::Format;

fuzz_target!(|bytes: &[u8]| topalign_fuzz::sessions(bytes, Format::OpenAiChat));
