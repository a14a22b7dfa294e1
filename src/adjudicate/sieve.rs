//! Which parts of a text could hold a match at all. Reading closely costs twenty times as much as a look at each byte.
//!
//! In: text. Out: windows; everything outside of them holds no match. Each form has an anchor: a run of letters or digits
//! that any spelling of it holds in one piece. Anchors are searched in the bytes as they stand, whatever their case, and
//! again in the normalised form of words that hold more than plain letters. Numbers are told by a few of their digits.

use std::collections::BTreeMap;
use std::ops::Range;

use aho_corasick::{AhoCorasick, AhoCorasickKind};

use super::digits::Digits;
use super::equal::Values;
use super::negation;
use super::normalise::Normalised;
use super::partial::Parts;
use super::pattern::{Pattern, Spelling};
use super::typed::Value;
use super::wording::Wordings;
use crate::error::{Error, Result};

/// Letters and digits around an anchor, beside the form's own length: what negation, small words and neighbours look at.
const CONTEXT: usize = negation::CONTEXT + 60;
/// Letters and digits around a number.
const NUMBER_REACH: usize = 120 + CONTEXT;
/// Letters of a duration in years and months.
const LONGEST_MONTHS: usize = 80;
/// Bytes that are looked at together.
const STRIDE: usize = 32;
/// Bytes of anchors up to which a faster, larger automaton is built.
const LARGEST_TABLE: usize = 100_000;

/// What an anchor tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Anchor {
    /// Letters and digits around it that matter.
    reach: usize,
    /// It is a word, not the beginning of one.
    whole: bool,
}

/// Finds windows.
#[derive(Debug, Clone)]
pub(super) struct Sieve {
    automaton: AhoCorasick,
    anchors: Vec<Anchor>,
    digits: Digits,
    /// The farthest reach of any anchor.
    farthest: usize,
    masked_addresses: bool,
}

/// Bytes that need a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Plain,
    Digit,
    Emphasis,
    At,
    Other,
}

/// The class of every byte.
static CLASSES: [Class; 256] = classes();

const fn classes() -> [Class; 256] {
    let mut classes = [Class::Plain; 256];
    let mut byte = 0;
    while byte < 256 {
        classes[byte] = match byte as u8 {
            b'0'..=b'9' => Class::Digit,
            b'*' | b'`' => Class::Emphasis,
            b'@' => Class::At,
            128.. => Class::Other,
            _ => Class::Plain,
        };
        byte += 1;
    }
    classes
}

impl Sieve {
    /// Prepares the sieve of a contract.
    ///
    /// # Errors
    /// Anchors too many to compile.
    pub fn new(
        patterns: &[Pattern],
        accounts: &[Pattern],
        wordings: &Wordings,
        values: &Values,
        parts: &Parts,
    ) -> Result<Self> {
        let mut anchors: BTreeMap<String, Anchor> = BTreeMap::new();
        let mut add = |text: &str, length: usize, whole: bool| {
            let anchor = anchors.entry(text.to_owned()).or_insert(Anchor { reach: 0, whole });
            *anchor = Anchor { reach: anchor.reach.max(length + CONTEXT), whole: anchor.whole && whole };
        };
        for pattern in patterns {
            // Of `h.i.v` every run is too short to be looked for.
            let is_literal = matches!(pattern.spelling, Spelling::Literal(_));
            let anchor = if is_literal { &pattern.text } else { anchor_of(&pattern.text) };
            add(anchor, pattern.text.len(), true);
        }
        for (text, length) in wordings.anchors() {
            add(text, length, false);
        }
        for (text, length) in parts.anchors() {
            add(anchor_of(text), length, true);
        }
        for value in values.all() {
            match value {
                Value::Email(address) => add(anchor_of(address), 3 * address.len(), true),
                // Numbers may stand in words.
                Value::Months(_) => {
                    add("year", LONGEST_MONTHS, false);
                    add("yr", LONGEST_MONTHS, false);
                    add("month", LONGEST_MONTHS, false);
                }
                Value::Time(12, 0) => add("noon", 0, true),
                Value::Time(0, 0) => add("midnight", 0, true),
                _ => {}
            }
        }
        let size: usize = anchors.keys().map(String::len).sum();
        let automaton = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .kind((size <= LARGEST_TABLE).then_some(AhoCorasickKind::DFA))
            .build(anchors.keys())
            .map_err(|error| Error::Failed(format!("the targets cannot be compiled: {error}")))?;
        let anchors: Vec<Anchor> = anchors.into_values().collect();
        let farthest = anchors.iter().map(|anchor| anchor.reach).max().unwrap_or(0).max(NUMBER_REACH);
        let digits = Digits::new(accounts, values, parts);
        Ok(Self { automaton, anchors, digits, farthest, masked_addresses: parts.has_addresses() })
    }

    /// The parts of `text` that need to be read closely, in order, apart from each other.
    pub fn windows(&self, text: &str) -> Vec<Range<usize>> {
        let bytes = text.as_bytes();
        let mut windows: Vec<Range<usize>> = Vec::new();
        let mut add = |place: &Range<usize>, reach: usize| {
            // Most anchors stand in a window that is there already.
            let known = windows.last().is_some_and(|last| last.end == bytes.len() && last.start <= place.start);
            if !known {
                windows.push(left(bytes, place.start, reach)..right(bytes, place.end, reach));
            }
        };
        for hit in self.automaton.find_overlapping_iter(text) {
            let anchor = self.anchors[hit.pattern().as_usize()];
            if could_stand(bytes, &hit.range(), anchor.whole) {
                add(&hit.range(), anchor.reach);
            }
        }
        self.look(text, &mut add);
        merged(windows)
    }

    /// Looks at digits, emphasis and what is no ASCII.
    fn look(&self, text: &str, add: &mut impl FnMut(&Range<usize>, usize)) {
        let bytes = text.as_bytes();
        let mut at = 0;
        while let Some(start) = next_special(bytes, at) {
            at = match CLASSES[usize::from(bytes[start])] {
                Class::Plain => start + 1,
                Class::Digit => {
                    let end = end_of(bytes, start, |byte| byte.is_ascii_digit());
                    if self.digits.may_match(bytes, start, end) {
                        add(&(start..end), NUMBER_REACH);
                    }
                    end
                }
                Class::Emphasis => {
                    let end = end_of(bytes, start, |byte| matches!(byte, b'*' | b'`'));
                    let is_within = start.checked_sub(1).is_some_and(|before| is_wordy(bytes[before]))
                        && bytes.get(end).is_some_and(|after| is_wordy(*after));
                    if is_within { self.look_closer(text, start, add) } else { end }
                }
                Class::At => {
                    let hides = |byte: &u8| *byte == b'*' || !byte.is_ascii();
                    if self.masked_addresses && bytes[start.saturating_sub(2)..start].iter().any(hides) {
                        add(&(start..start + 1), NUMBER_REACH);
                    }
                    start + 1
                }
                Class::Other => self.look_closer(text, start, add),
            };
        }
    }

    /// Normalises the word around a byte and looks for anchors and digits in it; gives where it ends.
    fn look_closer(&self, text: &str, at: usize, add: &mut impl FnMut(&Range<usize>, usize)) -> usize {
        let bytes = text.as_bytes();
        let start = bytes[..at].iter().rposition(u8::is_ascii_whitespace).map_or(0, |space| space + 1);
        let end = end_of(bytes, at, |byte| !byte.is_ascii_whitespace());
        let word = &text[start..end];
        // What comes next is looked for behind this word, so its masked address has to be seen here.
        let has_address = self.masked_addresses && word.contains('@');
        for normalised in Normalised::both(word) {
            let has_digits = normalised.text.chars().any(char::is_numeric) && self.digits.any();
            if has_address || has_digits || self.automaton.is_match(&normalised.text) {
                add(&(start..end), self.farthest);
                break;
            }
        }
        end
    }
}

/// The next byte from `at` on that is not plain.
#[expect(clippy::needless_bitwise_bool, reason = "without a way out of the loop many bytes are compared at once")]
fn next_special(bytes: &[u8], mut at: usize) -> Option<usize> {
    let is_plain = |bytes: &[u8]| {
        !bytes.iter().fold(false, |found, &byte| {
            found | byte.is_ascii_digit() | !byte.is_ascii() | (byte == b'*') | (byte == b'`') | (byte == b'@')
        })
    };
    while bytes.get(at..at + STRIDE).is_some_and(is_plain) {
        at += STRIDE;
    }
    let offset = bytes[at..].iter().position(|byte| CLASSES[usize::from(*byte)] != Class::Plain)?;
    Some(at + offset)
}

/// The run of letters and digits by which a form is looked for: the longest, of an address's own part if it has one.
fn anchor_of(text: &str) -> &str {
    let longest = |text| longest_run(text).filter(|run| run.len() > 2);
    text.split_once('@').and_then(|(local, _)| longest(local)).or_else(|| longest_run(text)).unwrap_or(text)
}

fn longest_run(text: &str) -> Option<&str> {
    text.split(|character: char| !character.is_alphanumeric())
        .filter(|run| !run.is_empty())
        .rev()
        .max_by_key(|run| run.len())
}

/// Whether a word may begin and end at these bytes. A small letter next to a letter continues its word, in every reading.
fn could_stand(bytes: &[u8], range: &Range<usize>, whole: bool) -> bool {
    let before = range.start.checked_sub(1).map(|before| bytes[before]);
    let continues =
        bytes[range.start].is_ascii_lowercase() && before.is_some_and(|before| before.is_ascii_alphanumeric());
    let after = bytes.get(range.end).copied();
    let is_continued = whole
        && bytes[range.end - 1].is_ascii_alphabetic()
        && after.is_some_and(|after| after.is_ascii_lowercase() || after.is_ascii_digit());
    !continues && !is_continued
}

fn is_wordy(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || !byte.is_ascii()
}

fn end_of(bytes: &[u8], start: usize, belongs: impl Fn(u8) -> bool) -> usize {
    bytes[start..].iter().position(|byte| !belongs(*byte)).map_or(bytes.len(), |offset| start + offset)
}

/// Where a window that reaches `reach` letters and digits to the left begins.
fn left(bytes: &[u8], from: usize, reach: usize) -> usize {
    let mut count = 0;
    for at in (0..from).rev() {
        count += usize::from(bytes[at].is_ascii_alphanumeric());
        if count >= reach && is_cut(bytes, at) {
            return at;
        }
    }
    0
}

/// Where it ends.
fn right(bytes: &[u8], from: usize, reach: usize) -> usize {
    let mut count = 0;
    for at in from..bytes.len() {
        count += usize::from(bytes[at].is_ascii_alphanumeric());
        if count >= reach && is_cut(bytes, at) {
            return at;
        }
    }
    bytes.len()
}

/// Whether text may be cut at a byte: a space between two words, or a comma between two JSON strings. No number, date or
/// encoding goes on past it, and no mark joins it.
fn is_cut(bytes: &[u8], at: usize) -> bool {
    let before = at.checked_sub(1).map_or(b' ', |before| bytes[before]);
    let after = bytes.get(at + 1).copied().unwrap_or(b' ');
    match bytes[at] {
        b' ' | b'\n' => before.is_ascii_alphabetic() && after.is_ascii_alphabetic(),
        b',' => before == b'"' && after == b'"',
        _ => false,
    }
}

fn merged(mut windows: Vec<Range<usize>>) -> Vec<Range<usize>> {
    windows.sort_by_key(|window| window.start);
    let mut merged: Vec<Range<usize>> = Vec::new();
    for window in windows {
        match merged.last_mut() {
            Some(last) if window.start <= last.end => last.end = last.end.max(window.end),
            _ => merged.push(window),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_is_special_among_many_if_it_is_alone() {
        for byte in 0..=255 {
            let mut bytes = vec![b'a'; 3 * STRIDE];
            bytes[STRIDE + 5] = byte;
            let expected = (CLASSES[usize::from(byte)] != Class::Plain).then_some(STRIDE + 5);
            assert_eq!(next_special(&bytes, 0), expected, "{byte}");
        }
    }
}
