//! Payloads as text, searched whole or, where they are huge, window by window.
//!
//! In: a payload's text. Out: matches with byte spans of it.

use crate::adjudicate::{Match, Matcher};

/// Bytes that are searched at once: the search needs many times the memory of its text.
const WINDOW: usize = 1 << 20;

/// Bytes that neighbouring windows share, so that a target across a seam is found. A cut word can look like a target, so what
/// starts in the first or the last half of it is taken from the neighbour, which sees the surroundings.
const OVERLAP: usize = 1 << 14;

/// Whether a payload is searched in windows, where escapes of JSON are not decoded.
pub(super) fn is_huge(text: &str) -> bool {
    text.len() > 2 * WINDOW
}

/// Every match in a payload's text.
pub(super) fn find(matcher: &Matcher, text: &str) -> Vec<Match> {
    if !is_huge(text) {
        return matcher.find(text);
    }
    let mut found: Vec<Match> = Vec::new();
    let mut start = 0;
    loop {
        let end = text.ceil_char_boundary((start + WINDOW).min(text.len()));
        let next = text.floor_char_boundary(end - OVERLAP);
        let first = if start == 0 { 0 } else { start + OVERLAP / 2 };
        let last = if end == text.len() { end } else { next + OVERLAP / 2 };
        let shift = |mut one: Match| {
            one.span = one.span.start + start..one.span.end + start;
            one
        };
        let shifted = matcher.find(&text[start..end]).into_iter().map(shift);
        found.extend(shifted.filter(|one| (first..last).contains(&one.span.start)));
        if end == text.len() {
            break;
        }
        start = next;
    }
    found.sort_by(|a, b| (a.span.start, a.span.end, &a.target_id).cmp(&(b.span.start, b.span.end, &b.target_id)));
    found.dedup();
    found
}
