//! A text in which many values are looked for: most look-ups are decided by a glance, the rest by the adjudicator.
//!
//! In: a text, then values. Out: where each stands, as [`find_value`] says. A glance only decides what it cannot get wrong: a
//! value that stands there letter by letter between spaces, or one of whose words or numbers is nowhere in the text.

use std::borrow::Cow;
use std::ops::Range;

use crate::adjudicate::{MONTHS, find_value};

/// A text, prepared.
#[derive(Debug, Clone)]
pub(crate) struct Text<'a> {
    original: Cow<'a, str>,
    /// Its letters and digits alone, in lower case: numbers stand as one run, however they are grouped.
    bare: String,
    /// Nothing in it is escaped, emphasised or outside ASCII, so that its words stand in it as they are read.
    is_plain: bool,
}

impl<'a> Text<'a> {
    /// Prepares a text.
    pub fn new(text: impl Into<Cow<'a, str>>) -> Self {
        let text = text.into();
        let is_plain = text.is_ascii() && !text.contains(['\\', '*', '`']);
        let bare = text.chars().filter(char::is_ascii_alphanumeric).map(|sign| sign.to_ascii_lowercase()).collect();
        Self { original: text, bare, is_plain }
    }

    /// The text itself.
    pub fn as_str(&self) -> &str {
        &self.original
    }

    /// Bytes where the value stands.
    pub fn find(&self, value: &str) -> Option<Range<usize>> {
        if let Some(range) = self.verbatim(value) {
            return Some(range);
        }
        if self.lacks(value) { None } else { find_value(&self.original, value) }
    }

    /// Whether the value stands in the text.
    pub fn holds(&self, value: &str) -> bool {
        self.find(value).is_some()
    }

    fn verbatim(&self, value: &str) -> Option<Range<usize>> {
        let is_worded = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
        if !is_worded(value.chars().next()) || !is_worded(value.chars().next_back()) {
            return None;
        }
        let is_free = |neighbour: Option<char>| neighbour.is_none_or(|letter| " \n\"|;()".contains(letter));
        self.original.match_indices(value).map(|(start, found)| start..start + found.len()).find(|range| {
            let mut after = self.original[range.end..].chars();
            let is_ended = match after.next() {
                Some('.' | ',') => after.next().is_none_or(char::is_whitespace),
                next => is_free(next),
            };
            is_ended && is_free(self.original[..range.start].chars().next_back())
        })
    }

    /// Whether the value cannot stand in the text in any form.
    fn lacks(&self, value: &str) -> bool {
        if !self.is_plain || !value.is_ascii() || value.contains(['(', '\\', '*', '`', '_']) {
            return false;
        }
        if let Some(whole) = whole_number(value) {
            return !self.bare.contains(&whole);
        }
        !may_be_respelt(value) && words(value).iter().any(|word| !self.bare.contains(word.as_str()))
    }
}

/// Digits before the point of a plain number or amount, as they stand in text without commas.
fn whole_number(value: &str) -> Option<String> {
    let number = value.trim().trim_start_matches(['$', '-', '+']);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let is_digits = |text: &str, also: &str| text.chars().all(|sign| sign.is_ascii_digit() || also.contains(sign));
    let whole_digits = whole.replace(',', "").trim_start_matches('0').to_owned();
    (!whole_digits.is_empty() && is_digits(whole, ",") && is_digits(fraction, "")).then_some(whole_digits)
}

/// Dates, times, durations and quantities have other spellings; a code, which begins with a letter and has a capital that none of
/// them has, has not.
fn may_be_respelt(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    let is_of_code = |sign: char| sign.is_ascii_uppercase() && !"APMTZ".contains(sign);
    let has_digit = value.contains(|sign: char| sign.is_ascii_digit());
    // Quantities and most durations begin with their number, in whatever letters their unit is (`2 HOURS`); others with `P`.
    let begins_as_one =
        lower.starts_with('p') || !lower.trim_start().starts_with(|sign: char| sign.is_ascii_alphabetic());
    has_digit
        && (begins_as_one || !value.contains(is_of_code) || MONTHS.iter().any(|month| lower.contains(&month[..3])))
}

/// Runs of letters and digits in lower case, cut where a capital begins a new word.
fn words(value: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    for sign in value.chars() {
        let begins = sign.is_ascii_uppercase() && before.is_ascii_alphabetic();
        if !sign.is_ascii_alphanumeric() || begins {
            words.push(String::new());
        }
        if sign.is_ascii_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.push(sign.to_ascii_lowercase());
        }
        before = sign;
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Text;
    use crate::adjudicate::find_value;

    #[test]
    fn a_glance_decides_as_the_adjudicator_does() {
        let text = "Paid $1,284.60 on March 3, 2026 at 2 PM; lastLogin by \"Anne Lee\", ticket TX-48213K, after \
                    120 minutes or 48 hours; BPM: 180, kg: 7, seat 12.";
        for value in [
            "1284.6",
            "$1,284.60",
            "2026-03-03",
            "14:00",
            "2026-03-03 14:00",
            "last login",
            "lastLogin",
            "Anne Lee",
            "TX-48213K",
            "TX-48213",
            "TX 48213K",
            "12",
            "1",
            "2",
            "anne",
            "Ann",
            "12.5",
            "284",
            "seat 12.",
            "$1,285.60",
            "2 HOURS",
            "180BPM",
            "180 bpm",
            "7KG",
            "7 kilos",
            "P2D",
            "TX 48213 K",
        ] {
            assert_eq!(Text::new(text).holds(value), find_value(text, value).is_some(), "{value}");
        }
    }

    proptest! {
        #[test]
        fn a_glance_never_disagrees(
            text in "[A-Za-z0-9$ .,:;\"'|-]{0,60}",
            value in "[A-Za-z0-9$ .,:-]{1,12}",
            start in 0_usize..60,
        ) {
            let part: String = text.chars().skip(start).take(9).collect();
            for value in [&value, &part, &part.to_uppercase(), &part.replace(' ', "-")] {
                prop_assert_eq!(Text::new(&*text).holds(value), find_value(&text, value).is_some());
            }
        }
    }
}
