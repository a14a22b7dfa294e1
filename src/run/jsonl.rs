//! JSONL in and out: one JSON value per `\n`; U+2028 and its kin stay inside a row; a byte-order mark, CRLF and a
//! missing last newline are accepted.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;

use rayon::prelude::*;
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;
use serde_json::error::Category;
use serde_json::value::RawValue;

use crate::error::{Error, Fault, Result};
use crate::run::atomic;
use crate::run::json::describe;

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
            Err(error) if faults.len() < 10 => faults.push(fault::<T>(place, index + 1, line, &error)),
            Err(_) => {}
        }
    }
    if faults.is_empty() { Ok(rows) } else { Err(Error::Invalid(faults)) }
}

/// Bytes of a file that are parsed at once.
const BATCH_BYTES: usize = 8 << 20;

/// Reads a file of any size, some rows at a time and each batch in parallel: `[rows]`, with the number of the line.
///
/// # Errors
/// As [`read`], or whatever `take` returns; rows before a fault have been taken by then.
pub fn read_batches<T: DeserializeOwned + Send>(
    path: &Path,
    mut take: impl FnMut(Vec<(usize, T)>) -> Result<()>,
) -> Result<()> {
    let file = std::fs::File::open(path).map_err(|source| Error::read(path, source))?;
    let mut reader = BufReader::with_capacity(1 << 20, file);
    let place = path.display().to_string();
    let mut line_number = 0;
    loop {
        let mut lines: Vec<(usize, Vec<u8>)> = Vec::new();
        let mut size = 0;
        while size < BATCH_BYTES {
            let mut line = Vec::new();
            let read = reader.read_until(b'\n', &mut line).map_err(|source| Error::read(path, source))?;
            if read == 0 {
                break;
            }
            line_number += 1;
            size += read;
            lines.push((line_number, line));
        }
        if lines.is_empty() {
            return Ok(());
        }
        take(parse_lines(lines, &place)?)?;
    }
}

/// Parses one line of a file; `None` if it is blank. `place` names the file in errors.
///
/// # Errors
/// A [`Fault`] naming file, line and column.
pub fn parse_line<T: DeserializeOwned>(line: &[u8], number: usize, place: &str) -> Result<Option<T>, Fault> {
    let line = if number == 1 { line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line) } else { line };
    let line = line.trim_ascii();
    if line.is_empty() {
        return Ok(None);
    }
    serde_json::from_slice(line).map(Some).map_err(|error| fault::<T>(place, number, line, &error))
}

fn parse_lines<T: DeserializeOwned + Send>(lines: Vec<(usize, Vec<u8>)>, place: &str) -> Result<Vec<(usize, T)>> {
    let parse = |(number, line): (usize, Vec<u8>)| {
        parse_line(&line, number, place).map(|row| row.map(|row| (number, row))).transpose()
    };
    let parsed: Vec<Result<(usize, T), Fault>> = lines.into_par_iter().filter_map(parse).collect();
    let mut rows = Vec::with_capacity(parsed.len());
    let mut faults = Vec::new();
    for row in parsed {
        match row {
            Ok(row) => rows.push(row),
            Err(fault) if faults.len() < 10 => faults.push(fault),
            Err(_) => {}
        }
    }
    if faults.is_empty() { Ok(rows) } else { Err(Error::Invalid(faults)) }
}

/// Why a line is no row. One that is JSON was not cut.
fn fault<T: DeserializeOwned>(place: &str, number: usize, line: &[u8], error: &serde_json::Error) -> Fault {
    let place = format!("{place}:{number}:{}", error.column());
    let is_json = || serde_json::from_slice::<IgnoredAny>(line).is_ok();
    if error.classify() == Category::Data || is_json() {
        return fault_of_form::<T>(line, error).at(place);
    }
    Fault::new(format!("not valid JSON: {}", describe(error))).at(place).hint(
        "each line must hold one whole JSON object; a cut last line means that the file was not written to its end",
    )
}

const FORM: &str = "the row does not have the expected form";

/// What `serde_json` says of anything but a text where one of some names must stand.
const NO_NAME: &str = "expected value";

fn fault_of_form<T: DeserializeOwned>(line: &[u8], error: &serde_json::Error) -> Fault {
    let told = describe(error);
    let Some((field, value)) = member_at(line, error.column()) else { return Fault::new(format!("{FORM}: {told}")) };
    let Some(kind) = scalar_kind(value).filter(|_| told == NO_NAME) else {
        return Fault::new(format!("{FORM}: `{field}`: {told}"));
    };
    let fault = Fault::new(format!("{FORM}: `{field}` is {kind}"));
    match expected_names::<T>(line, &field) {
        Some(names) => fault.expected(names),
        None => fault,
    }
}

/// The member of the row's object that a column is in, and its value as it is written.
fn member_at(line: &[u8], column: usize) -> Option<(String, &str)> {
    let text = std::str::from_utf8(line).ok()?;
    let members: BTreeMap<String, &RawValue> = serde_json::from_str(text).ok()?;
    members.into_iter().find_map(|(name, value)| {
        let value = value.get();
        let start = value.as_ptr().addr() - text.as_ptr().addr();
        (start..=start + value.len()).contains(&column).then_some((name, value))
    })
}

fn scalar_kind(value: &str) -> Option<&'static str> {
    match value.as_bytes().first()? {
        b'n' => Some("null"),
        b't' | b'f' => Some("true or false"),
        b'-' | b'0'..=b'9' => Some("a number"),
        _ => None,
    }
}

/// The names that a field may have: they are told of a text that is none of them.
fn expected_names<T: DeserializeOwned>(line: &[u8], field: &str) -> Option<String> {
    let mut row: serde_json::Map<String, Value> = serde_json::from_slice(line).ok()?;
    row.insert(field.to_owned(), Value::from("\0"));
    let told = describe(&serde_json::from_value::<T>(Value::Object(row)).err()?);
    told.rsplit_once(", expected ").map(|(_, names)| names.to_owned())
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
