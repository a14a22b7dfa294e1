//! Rows of a JSON array, of JSON lines, or of one object, each kept as raw text so that numbers stay as written.
//!
//! In: a file's bytes. Out: [`Row`]s with their line. A byte-order mark and CRLF are accepted.

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::error::{Error, Fault, Result};

/// One row as it stands in the file.
pub(super) struct Row<'a> {
    /// Counted from 0.
    pub index: usize,
    /// Line on which it starts, counted from 1.
    pub line: usize,
    /// The row's JSON text.
    pub text: &'a str,
}

impl Row<'_> {
    /// Reads the row as a value of type `T`; the fault says what is missing or wrong, never the value itself.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, Fault> {
        serde_json::from_str(self.text)
            .map_err(|error| Fault::new(format!("the row does not have the expected form: {}", describe(&error))))
    }
}

/// The file as text, without its byte-order mark.
pub(super) fn text<'a>(bytes: &'a [u8], place: &str) -> Result<&'a str> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    std::str::from_utf8(bytes).map_err(|error| {
        let line = line_breaks(&bytes[..error.valid_up_to()]) + 1;
        Fault::new("not UTF-8 text").at(format!("{place}:{line}")).into()
    })
}

/// The rows of the file: the items of an array, or one object a line.
pub(super) fn split<'a>(text: &'a str, place: &str) -> Result<Vec<Row<'a>>> {
    if text.trim_start().starts_with('[') { array(text, place) } else { lines(text, place) }
}

fn array<'a>(text: &'a str, place: &str) -> Result<Vec<Row<'a>>> {
    let items: Vec<&'a RawValue> = serde_json::from_str(text).map_err(|error| {
        Fault::new(format!("not a valid JSON array: {}", describe(&error)))
            .at(format!("{place}:{}:{}", error.line(), error.column()))
            .hint("a cut end means that the file was not written to its end")
    })?;
    let mut rows = Vec::with_capacity(items.len());
    let (mut line, mut position) = (1, 0);
    for (index, item) in items.into_iter().enumerate() {
        let start = item.get().as_ptr() as usize - text.as_ptr() as usize;
        line += line_breaks(&text.as_bytes()[position..start]);
        position = start;
        rows.push(Row { index, line, text: item.get() });
    }
    Ok(rows)
}

fn lines<'a>(text: &'a str, place: &str) -> Result<Vec<Row<'a>>> {
    let mut rows = Vec::new();
    let mut faults = Vec::new();
    for (number, line) in text.split('\n').enumerate() {
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        match serde_json::from_str::<&RawValue>(line) {
            Ok(item) => rows.push(Row { index: rows.len(), line: number + 1, text: item.get() }),
            Err(error) if faults.len() < 10 => faults.push(
                Fault::new(format!("not valid JSON: {}", describe(&error)))
                    .at(format!("{place}:{}:{}", number + 1, error.column()))
                    .expected("one JSON object a line, or one JSON array")
                    .hint("a cut last line means that the file was not written to its end"),
            ),
            Err(_) => {}
        }
    }
    // One object over several lines reads as many bad lines; as a whole it may be a single row.
    if !faults.is_empty()
        && let Ok(item) = serde_json::from_str::<&'a RawValue>(text)
    {
        return Ok(vec![Row { index: 0, line: 1, text: item.get() }]);
    }
    if faults.is_empty() { Ok(rows) } else { Err(Error::Invalid(faults)) }
}

fn line_breaks(bytes: &[u8]) -> usize {
    bytes.split(|&byte| byte == b'\n').count().saturating_sub(1)
}

/// The text of a `serde_json` error without its position (it counts from the row) and without the offending string (it may be sensitive).
pub(crate) fn describe(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let text = text.split(" at line ").next().unwrap_or(&text);
    match (text.find("string \""), text.rfind("\", expected")) {
        (Some(start), Some(end)) if start < end => format!("{}a string{}", &text[..start], &text[end + 1..]),
        _ => text.to_owned(),
    }
}
