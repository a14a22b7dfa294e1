//! Negated mentions: "does not have diabetes" names diabetes and denies it.
//!
//! In: text, normalised or not, and the range of a mention. Out: whether a negation governs it. A mark for readers; a
//! negated label still tells the requester which conclusion was drawn.

use std::ops::Range;

/// Words of the clause before a mention that are searched.
const REACH: usize = 6;

/// Bytes before a mention that are looked at.
pub(super) const CONTEXT: usize = 80;

const NEGATIONS: &[&str] = &[
    "not", "no", "never", "without", "neither", "nor", "cannot", "denies", "denied", "excludes", "excluded", "none",
    "non",
];

/// Whether a negation stands in the same clause, at most [`REACH`] words before the mention.
pub(super) fn is_negated(text: &str, range: &Range<usize>) -> bool {
    let mut start = range.start.saturating_sub(CONTEXT);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    if start > 0 {
        // A word that is cut could read as another.
        start += text[start..range.start].find(|character: char| !character.is_alphanumeric()).unwrap_or(0);
    }
    let before = &text[start..range.start];
    let clause = before.rsplit(['.', '!', '?', ';', ':', '\n']).next().unwrap_or(before);
    let clause = [", but ", " but ", " however ", " although "]
        .iter()
        .filter_map(|turn| clause.rfind(turn).map(|at| at + turn.len()))
        .max()
        .map_or(clause, |start| &clause[start..]);
    clause
        .split(|character: char| !(character.is_alphanumeric() || matches!(character, '\'' | '\u{2019}')))
        .filter(|word| !word.is_empty())
        .rev()
        .take(REACH)
        .any(|word| {
            let word = word.to_lowercase();
            NEGATIONS.contains(&word.as_str()) || word.ends_with("n't") || word.ends_with("n\u{2019}t")
        })
}
