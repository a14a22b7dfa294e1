//! What stands behind an encoding: percent and form encoding, HTML entities, string escapes, base64, hexadecimal.
//!
//! In: a [`Reading`]. Out: further readings, marked as encoded. An encoding within an encoding is followed once.

use std::ops::Range;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use regex::Regex;

use super::reading::{Reading, Rewriter};

/// How often what was decoded is decoded again.
const ROUNDS: usize = 2;

/// Characters of base64 or hexadecimal from which a run is looked at: eight bytes and more.
pub(super) const SHORTEST_BLOB: usize = 12;

/// Between the texts of two blobs; no pattern reaches over it.
const SEPARATOR: &str = "\n|\n";

/// A pattern fixed at compile time; a test compiles each.
fn fixed(pattern: &str) -> Option<Regex> {
    Regex::new(pattern).ok()
}

static PERCENT: LazyLock<Option<Regex>> = LazyLock::new(|| fixed(r"(?:%[0-9A-Fa-f]{2})+"));
static FORM: LazyLock<Option<Regex>> = LazyLock::new(|| fixed(r#"[?&]?\w=[^\s&+="]+(?:\+[^\s&+="]+)+"#));
static ENTITY: LazyLock<Option<Regex>> =
    LazyLock::new(|| fixed(r"&(?:#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});"));
static WRAPPED: LazyLock<Option<Regex>> =
    LazyLock::new(|| fixed(r"(?:[A-Za-z0-9+/]{60,76}\r?\n)+[A-Za-z0-9+/]{1,76}={0,2}"));

const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_padding_mode(DecodePaddingMode::Indifferent)
    .with_decode_allow_trailing_bits(true);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);

/// Adds everything that stands behind encodings in the given readings.
pub(super) fn add(readings: &mut Vec<Reading<'_>>) {
    let mut start = 0;
    for _ in 0..ROUNDS {
        let end = readings.len();
        let mut found = Vec::new();
        for reading in &readings[start..end] {
            let bytes = reading.text.as_bytes();
            // One look for the marks of all three: most texts have none of them.
            if memchr::memchr3(b'%', b'&', b'\\', bytes).is_some() || memchr::memchr(b'+', bytes).is_some() {
                found.extend([percent(reading), entities(reading), unescaped(reading, true)].into_iter().flatten());
            }
            found.extend(blobs(reading));
        }
        start = end;
        readings.extend(found);
    }
}

fn percent(reading: &Reading<'_>) -> Option<Reading<'static>> {
    let text = reading.text.as_ref();
    let mut parts: Vec<(Range<usize>, String)> = Vec::new();
    if text.contains('%') {
        for run in PERCENT.as_ref()?.find_iter(text) {
            if let Ok(decoded) = percent_encoding::percent_decode_str(run.as_str()).decode_utf8() {
                let mut at = run.start();
                parts.extend(decoded.chars().map(|character| {
                    let range = at..at + 3 * character.len_utf8();
                    at = range.end;
                    (range, character.to_string())
                }));
            }
        }
    }
    if text.contains('+') && text.contains('=') {
        for run in FORM.as_ref()?.find_iter(text) {
            let plus = run.as_str().match_indices('+').map(|(at, _)| run.start() + at);
            parts.extend(plus.map(|at| (at..at + 1, " ".to_owned())));
        }
    }
    parts.sort_by_key(|(range, _)| range.start);
    rewritten(reading, parts)
}

fn entities(reading: &Reading<'_>) -> Option<Reading<'static>> {
    let text = reading.text.as_ref();
    if !text.contains('&') {
        return None;
    }
    let decoded = ENTITY.as_ref()?.find_iter(text).filter_map(|entity| {
        let character = html_escape::decode_html_entities(entity.as_str());
        (character != entity.as_str()).then(|| (entity.range(), character.into_owned()))
    });
    rewritten(reading, decoded)
}

fn rewritten(
    reading: &Reading<'_>,
    parts: impl IntoIterator<Item = (Range<usize>, String)>,
) -> Option<Reading<'static>> {
    let mut rewriter = Rewriter::new(reading);
    for (range, with) in parts {
        rewriter.replace(range, &with);
    }
    rewriter.finish(true)
}

/// Undoes one level of string escapes. Outside strings JSON has no backslashes, so the whole text may be decoded.
pub(super) fn unescaped(reading: &Reading<'_>, encoded: bool) -> Option<Reading<'static>> {
    let text = reading.text.as_ref();
    let mut rewriter = Rewriter::new(reading);
    let mut from = 0;
    while let Some(at) = text[from..].find('\\').map(|offset| from + offset) {
        from = at + 1;
        if let Some((decoded, length)) = escape(&text[at..]) {
            rewriter.replace(at..at + length, decoded.encode_utf8(&mut [0; 4]));
            from = at + length;
        }
    }
    rewriter.finish(encoded)
}

/// The character behind the escape at the start of `text`, and the bytes it takes.
fn escape(text: &str) -> Option<(char, usize)> {
    Some(match text.as_bytes().get(1)? {
        b'n' => ('\n', 2),
        b't' => ('\t', 2),
        b'r' => ('\r', 2),
        b'b' => ('\u{8}', 2),
        b'f' => ('\u{C}', 2),
        b'u' => return unicode_escape(text),
        b'x' => return byte_escapes(text),
        other @ (b'"' | b'\\' | b'/') => (char::from(*other), 2),
        _ => return None,
    })
}

fn unicode_escape(text: &str) -> Option<(char, usize)> {
    let high = hexadecimal(text.get(2..6)?)?;
    if let Some(character) = char::from_u32(high) {
        return Some((character, 6));
    }
    let low = hexadecimal(text.get(6..)?.strip_prefix("\\u")?.get(..4)?)?;
    let pair = [u16::try_from(high).ok()?, u16::try_from(low).ok()?];
    Some((char::decode_utf16(pair).next()?.ok()?, 12))
}

/// `\x41`, and the two to four of a character outside ASCII.
fn byte_escapes(text: &str) -> Option<(char, usize)> {
    let mut bytes = Vec::new();
    while bytes.len() < 4 {
        let digits = text.get(4 * bytes.len()..)?.strip_prefix("\\x")?.get(..2)?;
        bytes.push(u8::try_from(hexadecimal(digits)?).ok()?);
        if let Some(character) = std::str::from_utf8(&bytes).ok().and_then(|text| text.chars().next()) {
            return Some((character, 4 * bytes.len()));
        }
    }
    None
}

fn hexadecimal(digits: &str) -> Option<u32> {
    digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then(|| u32::from_str_radix(digits, 16).ok())?
}

/// The texts behind all base64 and hexadecimal runs.
fn blobs(reading: &Reading<'_>) -> Option<Reading<'static>> {
    let text = reading.text.as_ref();
    let mut rewriter = Rewriter::new(reading);
    let mut any = false;
    for range in blob_ranges(text) {
        for (range, decoded) in decode(text, &range) {
            any = true;
            for (character, at) in decoded {
                rewriter.write(at, character.encode_utf8(&mut [0; 4]));
            }
            rewriter.write(range.end..range.end, SEPARATOR);
        }
    }
    any.then(|| rewriter.pieces(true))
}

/// Runs of base64's characters. A run of [`SHORTEST_BLOB`] holds every byte of some stretch that ends so far behind any byte that is
/// none of them: stretches are looked at from their ends, so that most of their bytes are never read.
fn blob_ranges(text: &str) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let mut ranges: Vec<Range<usize>> = Vec::new();
    let mut start = 0;
    while let Some(stretch) = bytes.get(start..start + SHORTEST_BLOB) {
        if let Some(other) = stretch.iter().rposition(|byte| !is_blob_byte(*byte)) {
            start += other + 1;
            continue;
        }
        let first = start - bytes[..start].iter().rev().take_while(|byte| is_blob_byte(**byte)).count();
        let length = bytes[start..].iter().take_while(|byte| is_blob_byte(**byte)).count();
        if looks_encoded(&bytes[first..start + length]) {
            ranges.push(first..start + length);
        }
        start += length;
    }
    if ranges.iter().any(|range| (60..=76).contains(&range.len()))
        && let Some(pattern) = WRAPPED.as_ref()
    {
        for found in pattern.find_iter(text) {
            ranges.retain(|range| range.end <= found.start() || range.start >= found.end());
            ranges.push(found.range());
        }
        ranges.sort_by_key(|range| range.start);
    }
    ranges
}

fn is_blob_byte(byte: u8) -> bool {
    BLOB_BYTES[usize::from(byte)]
}

static BLOB_BYTES: [bool; 256] = {
    let mut bytes = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        bytes[byte] = (byte as u8).is_ascii_alphanumeric() || matches!(byte as u8, b'+' | b'/' | b'-' | b'_');
        byte += 1;
    }
    bytes
};

/// Words are lower case after their first letter; encodings are not.
fn looks_encoded(run: &[u8]) -> bool {
    run[1..].iter().any(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
}

type Decoded = (Range<usize>, Vec<(char, Range<usize>)>);

/// What a run says as a whole, or else its parts between the signs that other notations use as separators.
fn decode(text: &str, range: &Range<usize>) -> Vec<Decoded> {
    if let Some(decoded) = decode_run(text, range) {
        return vec![(range.clone(), decoded)];
    }
    let mut start = range.start;
    let mut found = Vec::new();
    for part in text[range.clone()].split(['/', '-', '_', '+']) {
        let part = start..start + part.len();
        start = part.end + 1;
        if part.len() >= SHORTEST_BLOB && part != *range {
            found.extend(decode_run(text, &part).map(|decoded| (part, decoded)));
        }
    }
    found
}

/// The characters behind a run, each with the bytes of `text` that carry it.
fn decode_run(text: &str, range: &Range<usize>) -> Option<Vec<(char, Range<usize>)>> {
    let run: Vec<(usize, u8)> = text[range.clone()]
        .bytes()
        .enumerate()
        .filter(|(_, byte)| !byte.is_ascii_whitespace() && *byte != b'=')
        .collect();
    let digits =
        if run.get(..2).is_some_and(|start| start[0].1 == b'0' && start[1].1 == b'x') { &run[2..] } else { &run };
    let bytes: Vec<u8> = digits.iter().map(|(_, byte)| *byte).collect();
    let place = |index: usize| digits.get(index).map_or(range.end, |(at, _)| range.start + at);
    if let Ok(decoded) = hex::decode(&bytes) {
        return readable(decoded, |from, to| place(2 * from)..place(2 * to - 1) + 1);
    }
    let standard: Vec<u8> = bytes
        .iter()
        .map(|byte| match byte {
            b'-' => b'+',
            b'_' => b'/',
            other => *other,
        })
        .collect();
    let decoded = STANDARD.decode(&standard).ok()?;
    readable(decoded, |from, to| place(from * 8 / 6)..place((to * 8).div_ceil(6) - 1) + 1)
}

/// Decoded bytes that are text; anything else was no encoding.
fn readable(bytes: Vec<u8>, origin: impl Fn(usize, usize) -> Range<usize>) -> Option<Vec<(char, Range<usize>)>> {
    let text = String::from_utf8(bytes).ok()?;
    let is_text = text.chars().all(|character| !character.is_control() || character.is_whitespace());
    is_text.then(|| {
        text.char_indices().map(|(at, character)| (character, origin(at, at + character.len_utf8()))).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_run_that_is_long_enough_is_found() {
        for before in 0..30 {
            for length in 0..40 {
                let run = "Ab1+/-_".chars().cycle().take(length).collect::<String>();
                let text = format!("{}{run} and more", "x ".repeat(before));
                let expected: Vec<Range<usize>> = if length < SHORTEST_BLOB {
                    Vec::new()
                } else {
                    std::iter::once(2 * before..2 * before + length).collect()
                };
                assert_eq!(blob_ranges(&text), expected, "{text}");
            }
        }
    }

    #[test]
    fn every_fixed_pattern_compiles() {
        for pattern in [&PERCENT, &FORM, &ENTITY, &WRAPPED] {
            assert!(pattern.is_some());
        }
    }
}
