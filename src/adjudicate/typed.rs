//! Values that are equal though written differently: `$1,200.00` and `1200`, `2023-10-05` and `October 5, 2023`,
//! `14:00` and `2 PM`. Only forms with one reading: `02-03-2016` and `1.234,50` have two, and equal nothing.
//!
//! In: text. Out: [`Value`]s with their byte ranges. Issue of scale, currency and unit is left to the reader of the text:
//! a number equals a number.

use std::ops::Range;
use std::sync::LazyLock;

use regex::{Captures, Regex};

/// A value behind its spelling.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    /// Whole part and fraction, without sign, grouping and trailing zeros: `1200` or `170.5`.
    Number(String),
    /// Year, month, day.
    Date(i16, u8, u8),
    /// Hour and minute of the day.
    Time(u8, u8),
}

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const MONTH: &str = r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?";

/// A pattern fixed at compile time; a test compiles each.
fn fixed(pattern: &str) -> Option<Regex> {
    Regex::new(pattern).ok()
}

static ISO_DATE: LazyLock<Option<Regex>> = LazyLock::new(|| fixed(r"(?P<year>\d{4})-(?P<month>\d{2})-(?P<day>\d{2})"));
static MONTH_FIRST: LazyLock<Option<Regex>> =
    LazyLock::new(|| fixed(&format!(r"(?i)\b{MONTH} (?P<day>\d{{1,2}})(?:st|nd|rd|th)?,? (?P<year>\d{{4}})\b")));
static DAY_FIRST: LazyLock<Option<Regex>> = LazyLock::new(|| {
    fixed(&format!(r"(?i)\b(?P<day>\d{{1,2}})(?:st|nd|rd|th)? (?:of )?{MONTH},? (?P<year>\d{{4}})\b"))
});
static CLOCK: LazyLock<Option<Regex>> = LazyLock::new(|| {
    fixed(r"(?i)(?P<hour>\d{1,2})(?::(?P<minute>\d{2})(?::(?P<second>\d{2}))?)?(?:\s?(?P<half>[ap])\.?m\b\.?)?Z?")
});
static NUMBER: LazyLock<Option<Regex>> =
    LazyLock::new(|| fixed(r"(?P<whole>\d{1,3}(?:,\d{3})+|\d+)(?:\.(?P<fraction>\d+))?"));

/// All values in a text.
pub(super) fn values(text: &str) -> Vec<(Value, Range<usize>)> {
    let mut found = Vec::new();
    for (pattern, read) in [
        (&ISO_DATE, date as fn(&Captures<'_>) -> Option<Value>),
        (&MONTH_FIRST, date),
        (&DAY_FIRST, date),
        (&CLOCK, time),
        (&NUMBER, number),
    ] {
        let Some(pattern) = LazyLock::force(pattern) else { continue };
        for captures in pattern.captures_iter(text) {
            let Some(whole) = captures.get(0) else { continue };
            if stands_alone(text, &whole.range()) {
                found.extend(read(&captures).map(|value| (value, whole.range())));
            }
        }
    }
    found
}

/// The value that a whole text spells; a currency sign, a sign and surrounding spaces may stand around a number.
pub(super) fn value(text: &str) -> Option<Value> {
    let text = text.trim().trim_start_matches(['-', '+', '\u{2212}']).trim_start_matches(['$', '€', '£', '¥']);
    values(text).into_iter().find(|(_, range)| *range == (0..text.len())).map(|(value, _)| value)
}

/// Neither inside a longer number nor glued to a letter on its left; units may follow (`30m`), `T` after a date as well.
fn stands_alone(text: &str, range: &Range<usize>) -> bool {
    let mut before = text[..range.start].chars().rev();
    let mut after = text[range.end..].chars();
    let continues = |neighbour: Option<char>, beyond: Option<char>| match neighbour {
        Some('.' | ',' | '/' | ':' | '-') => beyond.is_some_and(char::is_numeric),
        Some(neighbour) => neighbour.is_numeric(),
        None => false,
    };
    let left = before.next();
    let glued = left.is_some_and(|letter| letter.is_alphabetic() && letter != 'T');
    let right = after.next();
    !glued && !continues(left, before.next()) && !continues(right, after.next())
}

fn date(captures: &Captures<'_>) -> Option<Value> {
    let year: i16 = captures.name("year")?.as_str().parse().ok()?;
    let month = captures.name("month")?.as_str().to_ascii_lowercase();
    let month = match month.parse::<u8>() {
        Ok(month) => month,
        Err(_) => u8::try_from(MONTHS.iter().position(|name| month.starts_with(name))?).ok()? + 1,
    };
    let day: u8 = captures.name("day")?.as_str().parse().ok()?;
    ((1..=12).contains(&month) && (1..=31).contains(&day)).then_some(Value::Date(year, month, day))
}

/// `7` alone is no time: minutes or a half of the day must be given. Seconds other than 0 are another time.
fn time(captures: &Captures<'_>) -> Option<Value> {
    let number = |name: &str| captures.name(name).map(|digits| digits.as_str().parse::<u8>());
    let hour = number("hour")?.ok()?;
    let half = captures.name("half").map(|half| half.as_str().to_ascii_lowercase());
    let minute = match number("minute") {
        Some(minute) => minute.ok()?,
        None if half.is_some() => 0,
        None => return None,
    };
    if number("second").is_some_and(|second| second != Ok(0)) || minute > 59 {
        return None;
    }
    let hour = match half.as_deref() {
        None if hour < 24 => hour,
        Some("a") if (1..=12).contains(&hour) => hour % 12,
        Some("p") if (1..=12).contains(&hour) => hour % 12 + 12,
        _ => return None,
    };
    Some(Value::Time(hour, minute))
}

fn number(captures: &Captures<'_>) -> Option<Value> {
    let whole = captures.name("whole")?.as_str().replace(',', "");
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    let fraction = captures.name("fraction").map_or("", |digits| digits.as_str()).trim_end_matches('0');
    Some(Value::Number(if fraction.is_empty() { whole.to_owned() } else { format!("{whole}.{fraction}") }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fixed_pattern_compiles() {
        for pattern in [&ISO_DATE, &MONTH_FIRST, &DAY_FIRST, &CLOCK, &NUMBER] {
            assert!(pattern.is_some());
        }
    }
}
