//! Durations in months and years: `18 months` is `a year and a half`.
//!
//! In: text. Out: [`Value::Months`] with their ranges. A month has no fixed number of days, so that months equal years and nothing
//! shorter. `A year` alone is often a rate (`twice a year`) and has no reading; neither has one end of a range (`12 to 18 months`),
//! nor a duration with days (`1 year and 3 days`).

use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::{Seen, Value, fixed, stands_alone};

/// Numbers in words, from one on.
const WORDS: [&str; 20] = [
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
    "twenty",
];

const YEARS: &str = "(?:years?|yrs?)";

/// Longest forms first: the first that fits is taken.
static MONTHS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let number = format!(r"(?:\d+(?:\.\d+)?|{})", WORDS.join("|"));
    fixed(&format!(
        r"(?ix) \b (?:
            (?P<half_year> half\ a\ year )
          | (?P<year_half> a | {number} ) [\ -] {YEARS} \ and\ a\ half
          | (?P<half> {number} ) \ and\ a\ half [\ -] {YEARS}
          | (?P<years> {number} ) [\ -]? {YEARS} (?: (?: ,?\ and\ | ,\ | \ ) (?P<rest> {number} ) [\ -]? months? )?
          | (?P<months> {number} ) [\ -]? months?
          | P (?P<iso_years> \d+ Y )? (?P<iso_months> \d+ M )?
        ) \b"
    ))
});
/// Where a duration goes on with a shorter unit.
static SHORTER: LazyLock<Option<Regex>> = LazyLock::new(|| {
    fixed(r"(?i)^(?:,? and |, | )[\w.]+[ -]?(?:weeks?|wks?|days?|hours?|hrs?|minutes?|mins?|months?)\b")
});
/// The first end of a range, before its second.
static RANGE: LazyLock<Option<Regex>> =
    LazyLock::new(|| fixed(&format!(r"(?i)(?:\d|\b(?:{}))(?: to | or | ?[-\u{{2013}}] ?)$", WORDS.join("|"))));
static ENDS: LazyLock<Option<Regex>> = LazyLock::new(|| fixed(r"(?i)\b(?:years?|yrs?|months?)(?:,? and |, | )$"));
/// Bytes before a duration that are looked at.
const BEFORE: usize = 24;

/// All durations in months and years.
pub(super) fn months(text: &str, found: &mut Vec<Seen>) {
    let (Some(pattern), Some(shorter), Some(range_start)) = (MONTHS.as_ref(), SHORTER.as_ref(), RANGE.as_ref()) else {
        return;
    };
    for captures in pattern.captures_iter(text) {
        let Some(whole) = captures.get(0) else { continue };
        let range = whole.range();
        let is_part = shorter.is_match(&text[range.end..]) || range_start.is_match(before(text, range.start));
        if !is_part && stands_alone(text, &range) {
            found.extend(read(&captures).map(|months| (Value::Months(months), range)));
        }
    }
}

/// Whether text ends in years or months that go on.
pub(super) fn ends(text: &str) -> bool {
    ENDS.as_ref().is_some_and(|pattern| pattern.is_match(before(text, text.len())))
}

fn before(text: &str, end: usize) -> &str {
    let mut start = end.saturating_sub(BEFORE);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..end]
}

fn read(captures: &Captures<'_>) -> Option<u32> {
    let group = |name: &str| captures.name(name).map(|part| part.as_str().to_lowercase());
    let years = |text: &str| in_months(text, 12);
    let months = |text: &str| in_months(text, 1);
    if group("half_year").is_some() {
        return Some(6);
    }
    if let Some(count) = group("year_half").or_else(|| group("half")) {
        let whole = if count == "a" { 12 } else { years(&count)? };
        return whole.checked_add(6).filter(|_| !count.contains('.'));
    }
    if let Some(count) = group("years") {
        let rest = group("rest").map_or(Some(0), |rest| months(&rest))?;
        return years(&count)?.checked_add(rest).filter(|months| *months > 0);
    }
    if let Some(count) = group("months") {
        return months(&count).filter(|months| *months > 0);
    }
    let iso = |name: &str| group(name).map_or(Some(0), |part| part[..part.len() - 1].parse().ok());
    let (iso_years, iso_months): (u32, u32) = (iso("iso_years")?, iso("iso_months")?);
    iso_years.checked_mul(12)?.checked_add(iso_months).filter(|months| *months > 0)
}

/// A number of units in months, if it is a whole one: `1.5` years, not `1.3`.
fn in_months(number: &str, unit: u32) -> Option<u32> {
    if let Some(at) = WORDS.iter().position(|word| *word == number) {
        return Some((at as u32 + 1) * unit);
    }
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let whole = whole.parse::<u32>().ok()?.checked_mul(unit)?;
    let fraction = fraction.trim_end_matches('0');
    let parts = 10_u32.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let part = if fraction.is_empty() { 0 } else { fraction.parse::<u32>().ok()?.checked_mul(unit)? };
    (part % parts == 0).then(|| whole.checked_add(part / parts))?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<(Value, &str)> {
        let mut found = Vec::new();
        months(text, &mut found);
        found.into_iter().map(|(value, range)| (value, &text[range])).collect()
    }

    #[test]
    fn every_fixed_pattern_compiles() {
        for pattern in [&MONTHS, &SHORTER, &RANGE, &ENDS] {
            assert!(pattern.is_some());
        }
    }

    #[test]
    fn a_year_has_twelve_months_however_it_is_spelled() {
        for (text, months) in [
            ("18 months", 18),
            ("a year and a half", 18),
            ("One Year and a Half", 18),
            ("one and a half years", 18),
            ("1.5 years", 18),
            ("1 year, 6 months", 18),
            ("1 year and six months", 18),
            ("an 18-month lease", 18),
            ("eighteen months", 18),
            ("for 18 months", 18),
            ("P1Y6M", 18),
            ("P18M", 18),
            ("half a year", 6),
            ("2 yrs", 24),
            ("2.25 years", 27),
        ] {
            let found = all(text);
            assert_eq!(found.first().map(|(value, _)| value), Some(&Value::Months(months)), "{text}");
            assert_eq!(found.len(), 1, "{text}");
        }
    }

    #[test]
    fn rates_ranges_fractions_and_days_have_no_reading() {
        for text in [
            "twice a year",
            "once a month",
            "12 to 18 months",
            "12-18 months",
            "twelve or eighteen months",
            "1.3 years",
            "1 year and 3 days",
            "1 year 2 weeks",
            "1 and a half months",
            "1.5.2 years",
            "0 months",
            "99999999999 years",
            "PT18M",
            "P",
            "many months",
        ] {
            assert_eq!(all(text), [], "{text}");
        }
    }
}
