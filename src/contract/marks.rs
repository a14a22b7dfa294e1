//! Quotation marks and brackets in prose.
//!
//! In: prose. Out: what stands between marks, with its place.

use std::ops::Range;

/// Marks and content of each term: `'...'`, `"..."`, `[...]`. An apostrophe inside a word is no mark.
pub(super) fn spans(prose: &str) -> Vec<(Range<usize>, &str)> {
    let characters: Vec<(usize, char)> = prose.char_indices().collect();
    let mut spans = Vec::new();
    let mut index = 0;
    while index < characters.len() {
        let (start, open) = characters[index];
        let close = match open {
            '[' => Some(characters[index + 1..].iter().position(|(_, character)| *character == ']')),
            '\'' | '\u{2018}' | '"' | '\u{201C}' if opens(&characters, index) => {
                Some(closing(&characters, index, open))
            }
            _ => None,
        };
        if let Some(Some(offset)) = close {
            let (end, mark) = characters[index + 1 + offset];
            let inner = prose[start + open.len_utf8()..end].trim();
            if !inner.is_empty() {
                spans.push((start..end + mark.len_utf8(), inner));
            }
            index += offset + 2;
        } else {
            index += 1;
        }
    }
    spans
}

fn opens(characters: &[(usize, char)], index: usize) -> bool {
    let before =
        index.checked_sub(1).and_then(|before| characters.get(before)).map_or(' ', |(_, character)| *character);
    let after = characters.get(index + 1).map_or(' ', |(_, character)| *character);
    !before.is_alphanumeric() && !after.is_whitespace()
}

fn closing(characters: &[(usize, char)], index: usize, open: char) -> Option<usize> {
    let marks: &[char] = match open {
        '"' => &['"'],
        '\u{201C}' => &['\u{201D}'],
        _ => &['\'', '\u{2019}'],
    };
    characters[index + 1..].iter().enumerate().position(|(offset, (_, character))| {
        let next = characters.get(index + 2 + offset).map_or(' ', |(_, next)| *next);
        marks.contains(character) && !next.is_alphanumeric()
    })
}
