//! What a payload says once read: plain text as it stands, JSON with its string escapes decoded, also inside strings
//! that are JSON themselves.
//!
//! In: payload text. Out: one list of [`Unit`]s a reading, each with the bytes of the payload behind it.

use super::normalise::{Unit, units};

/// JSON within JSON within JSON: nobody writes more by accident.
const DEEPEST: usize = 3;

/// Every reading of the payload: one for plain text; for JSON, one a level of escaping.
pub(super) fn readings(payload: &str) -> Vec<Vec<Unit>> {
    let plain = units(payload);
    let Some(value) = parse(payload) else { return vec![plain] };
    let mut readings = vec![decode(&plain)];
    let mut levels = levels_of_json(&value, DEEPEST);
    while levels > 1 {
        let Some(last) = readings.last() else { break };
        readings.push(decode(last));
        levels -= 1;
    }
    readings
}

/// Objects, arrays and strings; a bare number or word is text as well.
fn parse(text: &str) -> Option<serde_json::Value> {
    let text = text.trim();
    if !text.starts_with(['{', '[', '"']) {
        return None;
    }
    serde_json::from_str(text).ok()
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

/// Undoes one level of string escapes. Outside strings JSON has no backslashes, so the whole text may be decoded.
fn decode(units: &[Unit]) -> Vec<Unit> {
    let mut decoded = Vec::with_capacity(units.len());
    let mut index = 0;
    while index < units.len() {
        let (character, used) = match units[index].character {
            '\\' => escape(&units[index..]).unwrap_or(('\\', 1)),
            other => (other, 1),
        };
        decoded.push(Unit { character, start: units[index].start, end: units[index + used - 1].end });
        index += used;
    }
    decoded
}

/// The character behind an escape and the number of units it takes.
fn escape(units: &[Unit]) -> Option<(char, usize)> {
    Some(match units.get(1)?.character {
        'n' => ('\n', 2),
        't' => ('\t', 2),
        'r' => ('\r', 2),
        'b' => ('\u{8}', 2),
        'f' => ('\u{C}', 2),
        'u' => return unicode_escape(units),
        other @ ('"' | '\\' | '/') => (other, 2),
        _ => return None,
    })
}

fn unicode_escape(units: &[Unit]) -> Option<(char, usize)> {
    let high = code_unit(units)?;
    if let Some(character) = char::from_u32(high) {
        return Some((character, 6));
    }
    let low = code_unit(units.get(6..)?)?;
    let pair = [u16::try_from(high).ok()?, u16::try_from(low).ok()?];
    Some((char::decode_utf16(pair).next()?.ok()?, 12))
}

fn code_unit(units: &[Unit]) -> Option<u32> {
    let is_escape = units.first()?.character == '\\' && units.get(1)?.character == 'u';
    let digits: String = units.get(2..6)?.iter().map(|unit| unit.character).collect();
    is_escape.then(|| u32::from_str_radix(&digits, 16).ok())?
}
