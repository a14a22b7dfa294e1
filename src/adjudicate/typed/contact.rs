//! Telephone numbers and spelled-out addresses.
//!
//! In: text. Out: [`Value::Phone`] and [`Value::Email`] with their ranges.

use std::sync::LazyLock;

use regex::Regex;

use super::{Seen, Value, digit_runs, fixed};

/// Digits of a telephone number.
const DIGITS: std::ops::RangeInclusive<usize> = 7..=15;

static PHONE: LazyLock<Option<Regex>> = LazyLock::new(|| fixed(r"^\d(?:[ ().\-/]{0,2}\d){6,14}"));
static EMAIL: LazyLock<Option<Regex>> = LazyLock::new(|| {
    fixed(
        r"(?i)[a-z0-9._%+-]{1,64} ?(?:@|\(at\)|\[at\]| at ) ?[a-z0-9-]{1,63}(?: ?(?:\.|\(dot\)|\[dot\]| dot ) ?[a-z0-9-]{1,63}){1,4}",
    )
});
static AT: LazyLock<Option<Regex>> = LazyLock::new(|| fixed(r"(?i) ?(?:\(at\)|\[at\]| at ) ?"));
static DOT: LazyLock<Option<Regex>> = LazyLock::new(|| fixed(r"(?i) ?(?:\(dot\)|\[dot\]| dot ) ?"));

/// All telephone numbers.
pub(super) fn phones(text: &str, found: &mut Vec<Seen>) {
    for at in digit_runs(text) {
        let Some(matched) = PHONE.as_ref().and_then(|pattern| pattern.find(&text[at..])) else { continue };
        let before = text[..at].trim_end_matches('(');
        let international = before.ends_with('+');
        let start = if international { before.len() - 1 } else { at };
        let range = start..at + matched.end();
        let digits: String = matched.as_str().chars().filter(char::is_ascii_digit).collect();
        if DIGITS.contains(&digits.len()) && is_free(text, range.start, range.end) {
            let long = digits.strip_prefix("00").filter(|_| !international).map(str::to_owned);
            found.push((Value::Phone(long.clone().unwrap_or(digits), international || long.is_some()), range));
        }
    }
}

/// No letter or digit beside it, nor behind a sign that joins (`a55d-453a-8046-1297901`).
fn is_free(text: &str, start: usize, end: usize) -> bool {
    let joined = |neighbour: Option<char>, beyond: Option<char>| match neighbour {
        Some('-' | '.' | '/' | '_') => beyond.is_some_and(char::is_alphanumeric),
        Some(neighbour) => neighbour.is_alphanumeric(),
        None => false,
    };
    let mut before = text[..start].chars().rev();
    let mut after = text[end..].chars();
    !joined(before.next(), before.next()) && !joined(after.next(), after.next().filter(|beyond| beyond.is_numeric()))
}

/// All addresses, also with `(at)` and `dot` in words.
pub(super) fn emails(text: &str, found: &mut Vec<Seen>) {
    if !text.contains(['@', '(', '[']) && !text.contains(" at ") && !text.contains(" AT ") {
        return;
    }
    let (Some(email), Some(at), Some(dot)) = (EMAIL.as_ref(), AT.as_ref(), DOT.as_ref()) else { return };
    for matched in email.find_iter(text) {
        let plain = dot.replace_all(&at.replace(matched.as_str(), "@"), ".").to_lowercase();
        found.push((Value::Email(plain), matched.range()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fixed_pattern_compiles() {
        for pattern in [&PHONE, &EMAIL, &AT, &DOT] {
            assert!(pattern.is_some());
        }
    }
}
