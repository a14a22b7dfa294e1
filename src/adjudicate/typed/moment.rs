//! Dates, times of day and durations.
//!
//! In: text. Out: [`Value::Date`], [`Value::Time`], [`Value::Duration`] with their ranges. A date needs a year of four
//! digits; a date of digits only needs a declared order unless one of its numbers cannot be a month.

use std::sync::LazyLock;

use jiff::{Span, SpanRelativeTo, Unit, civil};
use regex::{Captures, Regex};

use super::calendar::MONTHS;
use super::locale::{DateOrder, Notation};
use super::{Seen, Value, digit_runs, fixed, months, stands_alone};

static YEAR_FIRST: LazyLock<Option<Regex>> = LazyLock::new(|| {
    fixed(
        r"^(?P<year>\d{4})(?:-(?P<month>\d{2})-(?P<day>\d{2})|/(?P<m2>\d{1,2})/(?P<d2>\d{1,2})|\.(?P<m3>\d{2})\.(?P<d3>\d{2}))",
    )
});
static YEAR_LAST: LazyLock<Option<Regex>> =
    LazyLock::new(|| fixed(r"^(?P<first>\d{1,2})[-/.](?P<second>\d{1,2})[-/.](?P<year>\d{4})"));
static CLOCK: LazyLock<Option<Regex>> = LazyLock::new(|| {
    fixed(r"(?i)^(?P<hour>\d{1,2})(?::(?P<minute>\d{2})(?::(?P<second>\d{2}))?)?(?:\s?(?P<half>[ap])\.?m\b\.?)?Z?")
});
static NOON: LazyLock<Option<Regex>> = LazyLock::new(|| fixed(r"(?i)\b(?P<noon>noon|midnight)\b"));
const UNITS: &str = "weeks?|wks?|w|days?|d|hours?|hrs?|hr|h|minutes?|mins?|m|seconds?|secs?|s";
static DURATION: LazyLock<Option<Regex>> =
    LazyLock::new(|| fixed(&format!(r"(?i)^(?:\d+(?:\.\d+)?[ -]?(?:{UNITS})(?:\s?(?:,|and)\s?|\s)?){{1,4}}")));
static ISO_DURATION: LazyLock<Option<Regex>> =
    LazyLock::new(|| fixed(r"\bP(?:\d+W|(?:\d+D)?(?:T(?:\d+H)?(?:\d+M)?(?:\d+S)?)?)\b"));

/// Names and abbreviations.
pub(super) fn english_months() -> Vec<(String, u8)> {
    let named = MONTHS
        .iter()
        .zip(1..)
        .flat_map(|(name, number)| [((*name).to_owned(), number), (name[..3].to_owned(), number)]);
    named.chain([("sept".to_owned(), 9)]).collect()
}

/// `October 5, 2023` and `5 October 2023`.
pub(super) fn named_dates(months: &[(String, u8)]) -> [Option<Regex>; 2] {
    let mut names: Vec<String> = months.iter().map(|(name, _)| regex::escape(name.trim_end_matches('.'))).collect();
    names.retain(|name| !name.is_empty());
    names.sort_by_key(|name| std::cmp::Reverse(name.len()));
    let month = format!(r"(?P<month>{})\.?", names.join("|"));
    [
        fixed(&format!(r"(?i)\b{month} (?P<day>\d{{1,2}})(?:st|nd|rd|th)?,? (?P<year>\d{{4}})\b")),
        fixed(&format!(
            r"(?i)\b(?P<day>\d{{1,2}})(?:st|nd|rd|th|\.)? (?:of |de )?{month},? (?:de )?(?P<year>\d{{4}})\b"
        )),
    ]
}

/// Digits that a text begins with.
fn digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

fn is_followed(rest: &str, signs: &str) -> bool {
    rest.chars().next().is_some_and(|sign| signs.contains(sign))
}

/// Whether a time of day can begin here: minutes or a half of the day follow one digit or two.
fn may_be_clock(rest: &str) -> bool {
    let after = &rest[digits(rest).min(2)..];
    after.starts_with(':') || is_followed(after.strip_prefix(char::is_whitespace).unwrap_or(after), "aApP")
}

/// All dates.
pub(super) fn dates(text: &str, notation: &Notation, found: &mut Vec<Seen>) {
    for at in digit_runs(text) {
        let rest = &text[at..];
        let read = |pattern: &LazyLock<Option<Regex>>, read: &dyn Fn(&Captures<'_>) -> Option<Value>| {
            let captures = LazyLock::force(pattern).as_ref()?.captures(rest)?;
            let range = at..at + captures.get(0)?.end();
            stands_alone(text, &range).then(|| read(&captures).map(|value| (value, range)))?
        };
        // Most numbers are no date, which a glance can tell: a separator stands after the year, or after one digit or two.
        match digits(rest) {
            4 if is_followed(&rest[4..], "-/.") => found.extend(read(&YEAR_FIRST, &|captures| year_first(captures))),
            count @ 1..=2 if is_followed(&rest[count..], "-/.") => {
                found.extend(read(&YEAR_LAST, &|captures| year_last(captures, notation.order)));
            }
            _ => {}
        }
    }
    for pattern in notation.named_dates.iter().flatten() {
        for captures in pattern.captures_iter(text) {
            let Some(whole) = captures.get(0) else { continue };
            if stands_alone(text, &whole.range()) {
                found.extend(named(&captures, &notation.months).map(|value| (value, whole.range())));
            }
        }
    }
}

fn year_first(captures: &Captures<'_>) -> Option<Value> {
    let number = |names: [&str; 3]| names.iter().find_map(|name| captures.name(name))?.as_str().parse::<u8>().ok();
    date(captures["year"].parse().ok()?, number(["month", "m2", "m3"])?, number(["day", "d2", "d3"])?)
}

/// Has a reading if only one of both orders is a date, if both are the same, or if the order is declared.
fn year_last(captures: &Captures<'_>, order: Option<DateOrder>) -> Option<Value> {
    let year = captures["year"].parse().ok()?;
    let (first, second): (u8, u8) = (captures["first"].parse().ok()?, captures["second"].parse().ok()?);
    match (date(year, second, first), date(year, first, second), order) {
        (day_first, None, _) => day_first,
        (None, month_first, _) => month_first,
        (day_first, _, _) if first == second => day_first,
        (day_first, _, Some(DateOrder::DayFirst)) => day_first,
        (_, month_first, Some(DateOrder::MonthFirst)) => month_first,
        (_, _, None) => None,
    }
}

fn named(captures: &Captures<'_>, months: &[(String, u8)]) -> Option<Value> {
    let name = captures.name("month")?.as_str().to_lowercase();
    let month = months.iter().find(|(known, _)| known.trim_end_matches('.') == name).map(|(_, number)| *number)?;
    date(captures["year"].parse().ok()?, month, captures["day"].parse().ok()?)
}

fn date(year: i16, month: u8, day: u8) -> Option<Value> {
    civil::Date::new(year, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok()?;
    Some(Value::Date(year, month, day))
}

/// All times of day.
pub(super) fn times(text: &str, found: &mut Vec<Seen>) {
    for at in digit_runs(text).filter(|&at| may_be_clock(&text[at..])) {
        let Some(captures) = CLOCK.as_ref().and_then(|pattern| pattern.captures(&text[at..])) else { continue };
        let range = at..at + captures.get(0).map_or(0, |whole| whole.end());
        if stands_alone(text, &range) {
            found.extend(time(&captures).map(|value| (value, range)));
        }
    }
    for word in NOON.iter().flat_map(|pattern| pattern.find_iter(text)) {
        let hour = if word.as_str().len() == "noon".len() { 12 } else { 0 };
        found.push((Value::Time(hour, 0), word.range()));
    }
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

/// All durations. A single `m`, `d`, `w` or `s` may be another unit and has no reading alone.
pub(super) fn durations(text: &str, found: &mut Vec<Seen>) {
    for at in digit_runs(text) {
        let Some(matched) = DURATION.as_ref().and_then(|pattern| pattern.find(&text[at..])) else { continue };
        let spelled = matched.as_str().trim_end().trim_end_matches(',').trim_end();
        let spelled = spelled.strip_suffix("and").unwrap_or(spelled).trim_end();
        let range = at..at + spelled.len();
        let is_cut = text[range.end..].starts_with(char::is_alphanumeric);
        // What follows years or months is a part of a longer duration.
        if !is_cut && stands_alone(text, &range) && !is_short(spelled) && !months::ends(&text[..at]) {
            let plain = spelled.to_lowercase().replace("and", " ").replace('-', " ");
            found.extend(seconds(&plain).map(|seconds| (Value::Duration(seconds), range)));
        }
    }
    for matched in ISO_DURATION.iter().flat_map(|pattern| pattern.find_iter(text)) {
        found.extend(seconds(matched.as_str()).map(|seconds| (Value::Duration(seconds), matched.range())));
    }
}

fn is_short(spelled: &str) -> bool {
    let letters: String = spelled.chars().filter(|character| character.is_alphabetic()).collect();
    matches!(letters.to_lowercase().as_str(), "m" | "d" | "w" | "s")
}

fn seconds(spelled: &str) -> Option<i64> {
    let span: Span = spelled.trim().parse().ok()?;
    let seconds = span.total((Unit::Second, SpanRelativeTo::days_are_24_hours())).ok()?;
    (seconds > 0.0).then_some(seconds as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fixed_pattern_compiles() {
        for pattern in [&YEAR_FIRST, &YEAR_LAST, &CLOCK, &NOON, &DURATION, &ISO_DURATION] {
            assert!(pattern.is_some());
        }
        assert!(named_dates(&english_months()).iter().all(Option::is_some));
    }
}
