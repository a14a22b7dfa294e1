//! Whether a required value stands in an answer: completeness checks values, not words.
//!
//! In: an answer and a value as it stands in a tool's return. Out: where it stands, as written, normalised, or equal in value
//! (answers reformat numbers, money, dates and times).

use std::ops::Range;

use super::normalise::{self, Camel, Normalised};
use super::typed::{self, Value};
use super::{boundary, reading};

/// Bytes of `payload` where `value` stands; `None` if it does not, or if `value` is blank.
pub fn find_value(payload: &str, value: &str) -> Option<Range<usize>> {
    let find = |value: &str| {
        find_text(payload, value).or_else(|| find_equal(payload, value)).or_else(|| find_moment(payload, value))
    };
    find(value).or_else(|| find(without_remark(value)?))
}

/// `4B (private group)` is given by `4B`: what stands in brackets after a value is a remark on it.
fn without_remark(value: &str) -> Option<&str> {
    let (core, remark) = value.trim().split_once(" (")?;
    let is_value = core.chars().filter(|character| character.is_alphanumeric()).count() > 1;
    (is_value && remark.ends_with(')')).then_some(core)
}

fn find_text(payload: &str, value: &str) -> Option<Range<usize>> {
    // A sentence quoted inside another loses its full stop.
    let trimmed = value.trim().trim_end_matches('.');
    for reading in reading::own_readings(payload) {
        for text in Normalised::both(&reading.text) {
            for camel in [Camel::Keep, Camel::Split] {
                let pattern = normalise::pattern(trimmed, camel);
                if pattern.is_empty() {
                    continue;
                }
                let bounded = text
                    .text
                    .match_indices(&pattern)
                    .map(|(start, found)| start..start + found.len())
                    .find(|range| boundary::is_bounded(&text.text, range));
                if let Some(range) = bounded {
                    return Some(reading.origin(&text.origin(&range)));
                }
            }
        }
    }
    None
}

fn find_equal(payload: &str, value: &str) -> Option<Range<usize>> {
    let wanted = typed::value(value)?;
    find_typed(payload, &wanted)
}

fn find_typed(payload: &str, wanted: &Value) -> Option<Range<usize>> {
    typed::values(payload).into_iter().find(|(value, _)| value == wanted).map(|(_, range)| range)
}

/// A date with a time is there when both are: `2026-03-10 07:00` as "March 10, 2026 at 7 AM".
fn find_moment(payload: &str, value: &str) -> Option<Range<usize>> {
    let (date, time) = value.trim().split_once(['T', ' '])?;
    let (date, time) = (typed::value(date)?, typed::value(time)?);
    if !matches!((&date, &time), (Value::Date(..), Value::Time(..))) {
        return None;
    }
    let (date, time) = (find_typed(payload, &date)?, find_typed(payload, &time)?);
    Some(date.start.min(time.start)..date.end.max(time.end))
}
