//! Quotation marks and brackets in prose.
//!
//! In: prose. Out: what stands between marks, with its place.

use std::ops::Range;

/// Marks that open a term, with those that close it.
const MARKS: [(char, &[char]); 5] = [
    ('[', &[']']),
    ('\'', &['\'', '\u{2019}']),
    ('\u{2018}', &['\'', '\u{2019}']),
    ('"', &['"']),
    ('\u{201C}', &['\u{201D}']),
];

/// Marks and content of each term: `'...'`, `"..."`, `[...]`. An apostrophe inside a word is no mark.
pub(super) fn spans(prose: &str) -> Vec<(Range<usize>, &str)> {
    let mut spans = Vec::new();
    // Where nothing closes a mark, nothing closes a later one of its kind.
    let mut is_closable = [true; MARKS.len()];
    let mut at = 0;
    while let Some((kind, start)) = next_mark(prose, at) {
        let (open, closers) = MARKS[kind];
        let first = start + open.len_utf8();
        at = first;
        if !is_closable[kind] || open != '[' && !opens(prose, start, first) {
            continue;
        }
        let Some((end, length)) = closing(prose, first, open, closers) else {
            is_closable[kind] = false;
            continue;
        };
        at = end + length;
        let inner = prose[first..end].trim();
        if !inner.is_empty() {
            spans.push((start..at, inner));
        }
    }
    spans
}

/// The next mark that may open a term: its place in [`MARKS`] and in the prose.
fn next_mark(prose: &str, mut from: usize) -> Option<(usize, usize)> {
    loop {
        let rest = &prose.as_bytes()[from..];
        // The curly ones begin with this byte, among others.
        let at = from + rest.iter().position(|byte| matches!(byte, b'[' | b'\'' | b'"' | 0xE2))?;
        let kind = MARKS
            .iter()
            .position(|(open, _)| prose.as_bytes()[at..].starts_with(open.encode_utf8(&mut [0; 4]).as_bytes()));
        if let Some(kind) = kind {
            return Some((kind, at));
        }
        from = at + 1;
    }
}

fn opens(prose: &str, start: usize, first: usize) -> bool {
    let before = prose[..start].chars().next_back().unwrap_or(' ');
    let after = prose[first..].chars().next().unwrap_or(' ');
    !before.is_alphanumeric() && !after.is_whitespace()
}

/// Where the first closing mark stands, and its length. A quotation mark before a letter closes nothing.
fn closing(prose: &str, from: usize, open: char, closers: &[char]) -> Option<(usize, usize)> {
    prose[from..].match_indices(closers).find_map(|(offset, mark)| {
        let after = from + offset + mark.len();
        let closes = open == '[' || !prose[after..].chars().next().unwrap_or(' ').is_alphanumeric();
        closes.then_some((from + offset, mark.len()))
    })
}

#[cfg(test)]
mod tests {
    use super::spans;

    #[test]
    fn marks_close_what_they_open_and_apostrophes_nothing() {
        let prose = "It\u{2019}s 'one', the user's \u{201C}two\u{201D} and [three] but not ' four ' or [five, \u{2018}six' \"seven\".";
        let inner: Vec<&str> = spans(prose).into_iter().map(|(_, inner)| inner).collect();
        assert_eq!(inner, ["one", "two", "three", "six", "seven"]);
    }

    /// Each mark looks for its end; without one, that must not take time with the square of their number.
    #[test]
    fn marks_that_nothing_closes_are_looked_at_once() {
        for mark in ["[", " '", " \"", " \u{2018}a", " \u{201C}a"] {
            assert!(spans(&format!("{}x", format!("{mark}y").repeat(200_000))).is_empty());
        }
    }
}
