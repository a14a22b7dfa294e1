//! JSONL in and out: one JSON value per `\n`; U+2028 and its kin stay inside a row; a byte-order mark, CRLF and a
//! missing last newline are accepted.

use std::io::Write as _;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Fault, Result};
use crate::run::atomic;

/// Reads every row of a file.
///
/// # Errors
/// [`Error::Read`], or a [`Fault`] naming file, line and column of each of the first ten rows that are not valid.
pub fn read<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>> {
    let bytes = std::fs::read(path).map_err(|source| Error::read(path, source))?;
    parse(&bytes, &path.display().to_string())
}

/// Parses rows out of bytes; `place` names them in errors.
///
/// # Errors
/// As [`read`].
pub fn parse<T: DeserializeOwned>(bytes: &[u8], place: &str) -> Result<Vec<T>> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let mut rows = Vec::new();
    let mut faults = Vec::new();
    for (index, line) in bytes.split(|&byte| byte == b'\n').enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        match serde_json::from_slice(line) {
            Ok(row) => rows.push(row),
            Err(error) if faults.len() < 10 => faults.push(fault(place, index + 1, &error)),
            Err(_) => {}
        }
    }
    if faults.is_empty() { Ok(rows) } else { Err(Error::Invalid(faults)) }
}

fn fault(place: &str, line: usize, error: &serde_json::Error) -> Fault {
    let place = format!("{place}:{line}:{}", error.column());
    match error.classify() {
        serde_json::error::Category::Data => {
            Fault::new(format!("the row does not have the expected form: {}", describe(error))).at(place)
        }
        _ => Fault::new(format!("not valid JSON: {}", describe(error))).at(place).hint(
            "each line must hold one whole JSON object; a cut last line means that the file was not written to its end",
        ),
    }
}

/// `serde_json`'s text without its own ` at line 1 column N`, which counts from the row and would mislead.
fn describe(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or(&text).to_owned()
}

/// Writes rows atomically.
///
/// # Errors
/// [`Error::Write`].
pub fn write<T: Serialize>(path: &Path, rows: impl IntoIterator<Item = T>) -> Result<()> {
    atomic::write_with(path, |file| {
        for row in rows {
            serde_json::to_writer(&mut *file, &row)?;
            file.write_all(b"\n")?;
        }
        Ok(())
    })
}
