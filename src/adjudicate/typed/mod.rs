//! Values that are equal though written differently: `$30k` and `$30,000`, `2023-10-05` and `October 5, 2023`, `14:00` and
//! `2 PM`. Only forms with one reading: `02-03-2016` and `1.234,50` have two unless the contract declares a locale, and
//! equal nothing.
//!
//! In: text. Out: [`Value`]s with their byte ranges. Leaks and required values are read by the same functions; for a
//! required value a number equals a number, whatever its currency or unit.

use std::ops::Range;
use std::sync::{Arc, LazyLock};

use regex::Regex;

mod calendar;
mod contact;
mod locale;
mod moment;
mod months;
mod number;

pub use calendar::MONTHS;
pub(super) use locale::Notation;

/// A value behind its spelling.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    /// Whole part and fraction, without sign, grouping and trailing zeros: `1200` or `170.5`.
    Number(String),
    /// A number with its currency's code; without one, a number that may be an amount.
    Money(String, Option<&'static str>),
    /// A number of hundredths.
    Percentage(String),
    /// Year, month, day.
    Date(i16, u8, u8),
    /// Hour and minute of the day.
    Time(u8, u8),
    /// Seconds.
    Duration(i64),
    /// Months: a year has twelve, and how many days is not told.
    Months(u32),
    /// Digits, and whether the country's code leads them.
    Phone(String, bool),
    /// Lower case.
    Email(String),
}

/// Digits from which a bare number equals an amount of money.
const TELLING_DIGITS: usize = 4;
/// Digits of a national number, without its leading zero.
const SHORTEST_NATIONAL: usize = 8;
/// Digits of a country's code.
const LONGEST_CODE: usize = 3;

/// The notation of a declared locale, or that of English.
pub(super) fn notation(locale: Option<&str>) -> Arc<Notation> {
    locale.and_then(Notation::of).map_or_else(|| ENGLISH.clone(), Arc::new)
}

impl Value {
    /// Whether `seen` in a text is this declared value.
    pub fn equals(&self, seen: &Self) -> bool {
        match (self, seen) {
            (Self::Number(wanted), Self::Money(amount, _)) => wanted == amount,
            (Self::Money(wanted, currency), Self::Money(amount, other)) => {
                wanted == amount
                    && match (currency, other) {
                        (Some(currency), Some(other)) => currency == other,
                        (Some(_), None) => amount.bytes().filter(u8::is_ascii_digit).count() >= TELLING_DIGITS,
                        (None, _) => true,
                    }
            }
            (Self::Phone(a, a_international), Self::Phone(b, b_international)) => {
                a == b || is_national_of(a, *a_international, b) || is_national_of(b, *b_international, a)
            }
            _ => self == seen,
        }
    }

    /// Equal for all values that may be equal.
    pub fn key(&self) -> String {
        match self {
            Self::Number(number) | Self::Money(number, _) => format!("n{number}"),
            Self::Percentage(number) => format!("%{number}"),
            Self::Date(year, month, day) => format!("d{year}-{month}-{day}"),
            Self::Time(hour, minute) => format!("t{hour}:{minute}"),
            Self::Duration(seconds) => format!("s{seconds}"),
            Self::Months(months) => format!("m{months}"),
            Self::Phone(digits, _) => format!("p{}", &digits[digits.len().saturating_sub(SHORTEST_NATIONAL - 1)..]),
            Self::Email(address) => format!("e{address}"),
        }
    }
}

/// `+1 630 596 1111` and `(630) 596-1111`, `+44 20 ...` and `020 ...`.
fn is_national_of(long: &str, international: bool, short: &str) -> bool {
    let national = short.trim_start_matches('0');
    international
        && national.len() >= SHORTEST_NATIONAL
        && long.strip_suffix(national).is_some_and(|code| (1..=LONGEST_CODE).contains(&code.len()))
}

/// The notation without a declared locale. It is shared, never cloned: a cloned pattern begins with empty caches.
static ENGLISH: LazyLock<Arc<Notation>> = LazyLock::new(Arc::default);

/// What to look for in a text: any set of kinds.
#[expect(clippy::struct_excessive_bools)]
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Wanted {
    /// Numbers, amounts, percentages.
    pub numbers: bool,
    /// Dates and times.
    pub moments: bool,
    /// Durations.
    pub durations: bool,
    /// Telephone numbers.
    pub phones: bool,
    /// Spelled-out addresses.
    pub emails: bool,
}

/// A value and the bytes that spell it.
pub(super) type Seen = (Value, Range<usize>);

/// All dates, times, durations, telephone numbers and numbers of a text, in the notation of English.
pub(super) fn values(text: &str) -> Vec<Seen> {
    let wanted = Wanted { numbers: true, moments: true, durations: true, phones: true, emails: false };
    seen(text, wanted, &ENGLISH).into_iter().filter(|(value, _)| !matches!(value, Value::Money(..))).collect()
}

/// All values of the wanted kinds.
pub(super) fn seen(text: &str, wanted: Wanted, notation: &Notation) -> Vec<Seen> {
    let mut found = Vec::new();
    if wanted.moments {
        moment::dates(text, notation, &mut found);
        moment::times(text, &mut found);
    }
    if wanted.durations {
        moment::durations(text, &mut found);
        months::months(text, &mut found);
    }
    if wanted.phones {
        contact::phones(text, &mut found);
    }
    if wanted.emails {
        contact::emails(text, &mut found);
    }
    if wanted.numbers {
        number::numbers(text, notation, &mut found);
    }
    found
}

/// Signs of currencies.
pub(super) const CURRENCIES: [char; 4] = ['$', '€', '£', '¥'];

/// Every value that a whole text may spell; a currency sign, a sign and surrounding spaces may stand around a number.
pub(super) fn whole(text: &str) -> Vec<Value> {
    let text = text.trim();
    let bare = text.trim_start_matches(['-', '+', '\u{2212}']).trim_start_matches(CURRENCIES);
    let spelled_by = |text: &str| {
        let is_whole = |seen: &Seen| seen.1 == (0..text.len());
        values(text).into_iter().filter(is_whole).map(|(value, _)| value).collect::<Vec<_>>()
    };
    let mut all = spelled_by(bare);
    if text.starts_with('+') {
        all.extend(spelled_by(text));
    }
    all
}

/// Where a new number begins: the first byte of each run of digits.
fn digit_runs(text: &str) -> impl Iterator<Item = usize> + '_ {
    let bytes = text.as_bytes();
    (0..bytes.len()).filter(|&at| bytes[at].is_ascii_digit() && (at == 0 || !bytes[at - 1].is_ascii_digit()))
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

/// A pattern fixed at compile time; a test compiles each.
fn fixed(pattern: &str) -> Option<Regex> {
    Regex::new(pattern).ok()
}
