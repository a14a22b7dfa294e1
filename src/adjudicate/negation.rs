//! Negated mentions: "does not have diabetes" names diabetes and denies it.
//!
//! In: normalised text and the range of a mention. Out: whether a negation governs it. A mark for readers; a negated label
//! still tells the requester which conclusion was drawn.

use std::ops::Range;

/// Words of the clause before a mention that are searched.
const REACH: usize = 6;

const NEGATIONS: &[&str] = &[
    "not", "no", "never", "without", "neither", "nor", "cannot", "denies", "denied", "excludes", "excluded", "none",
    "non",
];

/// Whether a negation stands in the same clause, at most [`REACH`] words before the mention.
pub(super) fn is_negated(text: &str, range: &Range<usize>) -> bool {
    let before = &text[..range.start];
    let clause = before.rsplit(['.', '!', '?', ';', ':', '\n']).next().unwrap_or(before);
    let clause = [", but ", " but ", " however ", " although "]
        .iter()
        .filter_map(|turn| clause.rfind(turn).map(|at| at + turn.len()))
        .max()
        .map_or(clause, |start| &clause[start..]);
    clause
        .split(|character: char| !(character.is_alphanumeric() || character == '\''))
        .filter(|word| !word.is_empty())
        .rev()
        .take(REACH)
        .any(|word| NEGATIONS.contains(&word) || word.ends_with("n't"))
}
