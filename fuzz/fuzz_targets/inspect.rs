//! Any bytes as an Inspect log, and any entries in an `.eval` archive.

#![no_main]

use std::io::{Cursor, Write as _};

use libfuzzer_sys::fuzz_target;
use topalign_fuzz::observation::inspect;
use topalign_fuzz::trace::Format;
use topalign_fuzz::{CONTEXT, PLACE, check_error, check_log, sessions};
use zip::write::SimpleFileOptions;

fn archive(bytes: &[u8]) {
    if let Err(error) = inspect::each(Cursor::new(bytes), &CONTEXT, PLACE, &mut check_log) {
        check_error(&error);
    }
}

/// The bytes as header and samples, so that the reader of samples is reached without a whole archive being guessed.
fn packed(bytes: &[u8]) -> zip::result::ZipResult<Vec<u8>> {
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let stored = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    for (index, part) in bytes.split(|&byte| byte == 0).take(4).enumerate() {
        let name = if index == 1 { "header.json".to_owned() } else { format!("samples/{index}.json") };
        writer.start_file(name, stored)?;
        writer.write_all(part)?;
    }
    Ok(writer.finish()?.into_inner())
}

fuzz_target!(|bytes: &[u8]| {
    if bytes.starts_with(b"PK") {
        return archive(bytes);
    }
    sessions(bytes, Format::Inspect);
    archive(&packed(bytes).expect("an archive in memory"));
});
