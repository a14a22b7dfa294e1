//! Whether a required value stands in an answer: completeness checks values, not words.
//!
//! In: an answer and a value as it stands in a tool's return. Out: where it stands, as written, normalised, or equal in value
//! (answers reformat numbers, money, dates, times, durations, quantities, telephone numbers and references).

use std::ops::Range;

use super::normalise::{self, Camel, Normalised};
use super::typed::{self, CURRENCIES, Value};
use super::{boundary, quantity, reading};

/// Digits that make a text a reference.
const SHORTEST_REFERENCE: usize = 3;

/// Bytes of `payload` where `value` stands; `None` if it does not, or if `value` is blank.
pub fn find_value(payload: &str, value: &str) -> Option<Range<usize>> {
    let find = |value: &str| {
        find_text(payload, value)
            .or_else(|| find_equal(payload, value))
            .or_else(|| find_moment(payload, value))
            .or_else(|| quantity::find(payload, value))
            .or_else(|| find_reference(payload, value))
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
    // A sentence quoted inside another loses its full stop, and `...5097` is told as `ending in 5097`.
    let trimmed = value.trim().trim_end_matches('.');
    let trimmed = trimmed.strip_prefix("...").filter(|rest| is_number(rest)).unwrap_or(trimmed);
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

fn is_number(text: &str) -> bool {
    text.len() > 2 && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn find_equal(payload: &str, value: &str) -> Option<Range<usize>> {
    let currency = value.chars().find(|sign| CURRENCIES.contains(sign));
    let wanted = typed::whole(value);
    find_typed(payload, |seen, range| {
        // An amount is no other currency's, and no number of minutes.
        let is_other = |currency| {
            let before = payload[..range.start].chars().next_back();
            before.is_some_and(|sign| CURRENCIES.contains(&sign) && sign != currency)
                || quantity::is_measured(&payload[range.end..])
        };
        wanted.iter().any(|wanted| match (wanted, seen) {
            (Value::Phone(..), Value::Phone(..)) => wanted.equals(seen),
            _ => wanted == seen,
        }) && !currency.is_some_and(is_other)
    })
}

fn find_typed(payload: &str, is_wanted: impl Fn(&Value, &Range<usize>) -> bool) -> Option<Range<usize>> {
    typed::values(payload).into_iter().find(|(value, range)| is_wanted(value, range)).map(|(_, range)| range)
}

/// A date with a time is there when both are: `2026-03-10 07:00` as "March 10, 2026 at 7 AM".
fn find_moment(payload: &str, value: &str) -> Option<Range<usize>> {
    let (date, time) = value.trim().split_once(['T', ' '])?;
    let date = typed::whole(date).into_iter().find(|value| matches!(value, Value::Date(..)))?;
    let time = typed::whole(time).into_iter().find(|value| matches!(value, Value::Time(..)))?;
    let date = find_typed(payload, |seen, _| *seen == date)?;
    let time = find_typed(payload, |seen, _| *seen == time)?;
    Some(date.start.min(time.start)..date.end.max(time.end))
}

/// A reference whose groups are joined in another way: `VX 318` as `VX318`, `5228 8371` as `5228-8371`. Between two groups of
/// digits something must stand, or they are another number.
fn find_reference(payload: &str, value: &str) -> Option<Range<usize>> {
    let lower = value.trim().to_ascii_lowercase();
    let groups: Vec<&str> = lower.split([' ', '-']).collect();
    let is_reference = groups.len() > 1
        && groups.iter().all(|group| !group.is_empty() && group.bytes().all(|byte| byte.is_ascii_alphanumeric()))
        && lower.bytes().filter(u8::is_ascii_digit).count() >= SHORTEST_REFERENCE;
    if !is_reference {
        return None;
    }
    let text = Normalised::of(payload, Camel::Keep);
    let joined = |start: usize| {
        groups[1..].iter().try_fold(start + groups[0].len(), |end, group| {
            let rest = &text.text[end..];
            let spaced = rest.strip_prefix([' ', '-']).unwrap_or(rest);
            let digits_meet = text.text[..end].ends_with(|sign: char| sign.is_ascii_digit())
                && group.starts_with(|sign: char| sign.is_ascii_digit());
            let is_joint = spaced.len() < rest.len() || !digits_meet;
            (is_joint && spaced.starts_with(group)).then(|| text.text.len() - spaced.len() + group.len())
        })
    };
    let mut starts = text.text.match_indices(groups[0]).map(|(start, _)| start);
    let range = starts.find_map(|start| {
        let range = start..joined(start)?;
        boundary::is_bounded(&text.text, &range).then_some(range)
    })?;
    Some(text.origin(&range))
}
