//! Word boundaries: `SEC` is not in `seconds`, `12` not in `1200`, `AA` not in `AAA`.
//!
//! In: normalised text and a byte range in it. Out: whether the range stands as words or numbers of its own.

use std::ops::Range;

/// Digits from which a number is long enough to be itself even when glued to letters (`testdata630-596-1111`).
const LONG_NUMBER: usize = 7;

/// Whether `range` of `text` neither starts nor ends inside a longer word or number.
pub(super) fn is_bounded(text: &str, range: &Range<usize>) -> bool {
    let matched = &text[range.clone()];
    let long = matched.chars().filter(char::is_ascii_digit).count() >= LONG_NUMBER;
    let (Some(first), Some(last)) = (matched.chars().next(), matched.chars().next_back()) else { return false };
    let mut before = text[..range.start].chars().rev();
    let mut after = text[range.end..].chars();
    edge_is_free(first, before.next(), before.next(), long)
        && edge_is_free(last, after.next(), after.next(), long)
        && !goes_on(text, range)
}

/// Words that make a number another one.
const SCALES: [&str; 6] = ["thousand", "million", "billion", "trillion", "mn", "bn"];

/// Whether an address, a code or a number goes on past the edges that letters and digits have: `alice@example.com` in
/// `mary-alice@example.com.au`, `GO-5521` in `GO-5521-B`, `$30` in `$30 million`.
pub(super) fn goes_on(text: &str, range: &Range<usize>) -> bool {
    let (matched, before, after) = (&text[range.clone()], &text[..range.start], &text[range.end..]);
    let joins = |mut outwards: &mut dyn Iterator<Item = char>, joints: &[char]| {
        (&mut outwards).next().is_some_and(|joint| joints.contains(&joint))
            && outwards.next().is_some_and(char::is_alphanumeric)
    };
    let has_digit = matched.bytes().any(|byte| byte.is_ascii_digit());
    if matched.contains('@') {
        return joins(&mut before.chars().rev(), &['.', '-', '+']) || joins(&mut after.chars(), &['.', '-']);
    }
    if has_digit && matched.contains('-') && matched.bytes().any(|byte| byte.is_ascii_alphabetic()) {
        return joins(&mut after.chars(), &['-']);
    }
    let word = after.strip_prefix(' ').unwrap_or(after);
    let word = &word[..word.find(|letter: char| !letter.is_alphanumeric()).unwrap_or(word.len())];
    matched.ends_with(|digit: char| digit.is_ascii_digit()) && SCALES.contains(&word)
}

/// `edge` is the outermost matched character, `neighbour` the one beside it, `beyond` the next one out.
fn edge_is_free(edge: char, neighbour: Option<char>, beyond: Option<char>, long: bool) -> bool {
    let Some(neighbour) = neighbour else { return true };
    if !edge.is_alphanumeric() || is_unspaced(edge) || is_unspaced(neighbour) {
        return true;
    }
    if edge.is_numeric() {
        return number_is_free(neighbour, beyond, long);
    }
    !neighbour.is_alphanumeric()
}

fn number_is_free(neighbour: char, beyond: Option<char>, long: bool) -> bool {
    if neighbour.is_numeric() {
        return false;
    }
    if neighbour.is_alphabetic() {
        return long;
    }
    // `12` is no part of `12.5`, `1,200`, `12/10` or `2023-12-05`; a full stop that ends a sentence is no decimal point.
    let continues = match neighbour {
        '.' | ',' => true,
        '-' | '/' | ':' => !long,
        _ => false,
    };
    !(continues && beyond.is_some_and(char::is_numeric))
}

/// Scripts written without spaces between words: every neighbour is a boundary.
fn is_unspaced(character: char) -> bool {
    matches!(character,
        '\u{E00}'..='\u{EFF}' | '\u{1000}'..='\u{109F}' | '\u{1780}'..='\u{17FF}' | '\u{2E80}'..='\u{303F}' | '\u{3040}'..='\u{30FF}'
        | '\u{3100}'..='\u{9FFF}' | '\u{AC00}'..='\u{D7AF}' | '\u{F900}'..='\u{FAFF}' | '\u{FF66}'..='\u{FF9F}'
        | '\u{20000}'..='\u{3FFFF}')
}
