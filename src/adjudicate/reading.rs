//! What a payload says once read: plain text as it stands, JSON with its string escapes decoded, also inside strings that
//! are JSON themselves, and what stands behind an encoding.
//!
//! In: payload text. Out: [`Reading`]s, each with a map from its bytes back to those of the payload.

use std::borrow::Cow;
use std::ops::Range;

use super::encoding;

/// JSON within JSON within JSON: nobody writes more by accident.
const DEEPEST: usize = 3;

/// Text to search, and where each of its bytes stands in the payload.
#[derive(Debug, Clone)]
pub(super) struct Reading<'a> {
    /// The text.
    pub text: Cow<'a, str>,
    /// Places where the text is not the payload's own, in order.
    edits: Vec<Edit>,
    /// Read through an encoding that is no part of the payload's own format.
    pub encoded: bool,
}

/// `at` in the text stands for `origin` in the payload; between edits both run in step.
#[derive(Debug, Clone)]
struct Edit {
    at: Range<usize>,
    origin: Range<usize>,
}

impl<'a> Reading<'a> {
    /// The payload as it stands.
    pub fn plain(payload: &'a str) -> Self {
        Self { text: Cow::Borrowed(payload), edits: Vec::new(), encoded: false }
    }

    /// The bytes of the payload behind a byte range of the text.
    pub fn origin(&self, range: &Range<usize>) -> Range<usize> {
        let start = self.place(range.start).start;
        let end =
            range.end.checked_sub(1).filter(|last| *last >= range.start).map_or(start, |last| self.place(last).end);
        start..end.max(start)
    }

    fn place(&self, position: usize) -> Range<usize> {
        let after = self.edits.partition_point(|edit| edit.at.start <= position);
        match after.checked_sub(1).map(|index| &self.edits[index]) {
            None => position..position + 1,
            Some(edit) if position < edit.at.end => edit.origin.clone(),
            Some(edit) => {
                let place = edit.origin.end + (position - edit.at.end);
                place..place + 1
            }
        }
    }
}

/// Makes a reading from another by replacing parts of it, in order.
pub(super) struct Rewriter<'r> {
    reading: &'r Reading<'r>,
    text: String,
    edits: Vec<Edit>,
    done: usize,
    changed: bool,
}

impl<'r> Rewriter<'r> {
    /// Starts at the beginning of `reading`.
    pub fn new(reading: &'r Reading<'r>) -> Self {
        let text = String::with_capacity(reading.text.len());
        Self { reading, text, edits: Vec::new(), done: 0, changed: false }
    }

    /// Keeps what stands before `range` and writes `with` in its place; ranges that overlap an earlier one are left out.
    pub fn replace(&mut self, range: Range<usize>, with: &str) {
        if range.start < self.done {
            return;
        }
        self.keep(range.start);
        self.write(range, with);
    }

    /// Writes `with` for `range` and drops what stands between it and the range before.
    pub fn write(&mut self, range: Range<usize>, with: &str) {
        let start = self.text.len();
        self.text.push_str(with);
        self.edits.push(Edit { at: start..self.text.len(), origin: self.reading.origin(&range) });
        self.done = range.end;
        self.changed = true;
    }

    fn keep(&mut self, until: usize) {
        let (done, base) = (self.done, self.text.len());
        let first = self.reading.edits.partition_point(|edit| edit.at.end < done);
        for edit in self.reading.edits[first..].iter().take_while(|edit| edit.at.start < until) {
            let at = edit.at.start.max(done)..edit.at.end.min(until);
            self.edits.push(Edit {
                at: base + at.start - done..base + at.end.max(at.start) - done,
                origin: edit.origin.clone(),
            });
        }
        self.text.push_str(&self.reading.text[done..until]);
        self.done = until;
    }

    /// The new reading; `None` if nothing was replaced.
    pub fn finish(mut self, encoded: bool) -> Option<Reading<'static>> {
        if !self.changed {
            return None;
        }
        self.keep(self.reading.text.len());
        Some(self.pieces(encoded))
    }

    /// The new reading of only what was written.
    pub fn pieces(self, encoded: bool) -> Reading<'static> {
        Reading { text: Cow::Owned(self.text), edits: self.edits, encoded }
    }
}

/// Every reading of the payload: one for plain text, for JSON one a level of escaping, and those behind encodings.
pub(super) fn readings(payload: &str) -> Vec<Reading<'_>> {
    let mut readings = own_readings(payload);
    encoding::add(&mut readings);
    readings
}

/// The readings that need no encoding beyond JSON's own.
pub(super) fn own_readings(payload: &str) -> Vec<Reading<'_>> {
    let plain = Reading::plain(payload);
    let mut readings: Vec<Reading<'_>> = Vec::new();
    for _ in 0..levels(payload) {
        let Some(next) = encoding::unescaped(readings.last().unwrap_or(&plain), false) else { break };
        readings.push(next);
    }
    if readings.is_empty() {
        readings.push(plain);
    }
    readings
}

/// Levels of string escapes that the payload's JSON has; 0 for text and for JSON without a backslash.
fn levels(payload: &str) -> usize {
    if !payload.contains('\\') || !is_json_like(payload) {
        return 0;
    }
    // Only an escaped quote can hold JSON within JSON.
    if !payload.contains("\\\"") && !payload.contains("\\\\") {
        return usize::from(serde_json::from_str::<serde::de::IgnoredAny>(payload.trim()).is_ok());
    }
    parse(payload).map_or(0, |value| levels_of_json(&value, DEEPEST))
}

/// Objects, arrays and strings; a bare number or word is text as well.
fn is_json_like(text: &str) -> bool {
    text.trim_start().starts_with(['{', '[', '"'])
}

fn parse(text: &str) -> Option<serde_json::Value> {
    if !is_json_like(text) {
        return None;
    }
    serde_json::from_str(text.trim()).ok()
}

fn levels_of_json(value: &serde_json::Value, left: usize) -> usize {
    if left == 0 {
        return 0;
    }
    match value {
        serde_json::Value::String(text) => 1 + parse(text).map_or(0, |inner| levels_of_json(&inner, left - 1)),
        serde_json::Value::Array(items) => items.iter().map(|item| levels_of_json(item, left)).max().unwrap_or(1),
        serde_json::Value::Object(map) => map.values().map(|item| levels_of_json(item, left)).max().unwrap_or(1),
        _ => 1,
    }
}
