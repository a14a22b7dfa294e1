//! Which numbers of a text could be a target's: told by a few digits, without reading the number.
//!
//! In: bytes and a run of digits in them. Out: whether anything that begins there, or is spelled around it, could be equal
//! to a declared value, an account number, or their last digits.

use super::equal::Values;
use super::keys::Keys;
use super::partial::{Parts, SUFFIX};
use super::pattern::Pattern;
use super::typed::Value;

/// Leading digits by which account and telephone numbers are told.
const LEADING: usize = 6;
/// The fewest that such a number has.
const FEWEST: usize = 4;
/// Digits of a country's code, with the zeros that may stand before it.
const CODE: usize = 5;
/// Bytes in which the leading digits stand.
const NEAR: usize = 64;

/// What digits are looked for.
#[derive(Debug, Clone, Default)]
pub(super) struct Digits {
    /// Digits of numbers without outer zeros.
    amounts: Keys,
    years: Keys,
    hours: Keys,
    durations: bool,
    /// Leading digits of accounts and telephone numbers, told by [`lead_key`].
    leading: Keys,
    /// Letters stand between the leading digits of an account.
    lettered: bool,
    phones: bool,
    /// Last digits of numbers that may be masked.
    suffixes: Keys,
}

/// What is gathered before it is put in order.
#[derive(Default)]
struct Gathered {
    amounts: Vec<u64>,
    years: Vec<u64>,
    hours: Vec<u64>,
    leading: Vec<u64>,
}

impl Digits {
    /// What a contract's numbers begin and end with.
    pub fn new(accounts: &[Pattern], values: &Values, parts: &Parts) -> Self {
        let mut digits = Self::default();
        let mut gathered = Gathered::default();
        for account in accounts {
            gathered.lead(&account.text.chars().filter(char::is_ascii_digit).collect::<String>());
            digits.lettered |= has_letters_within(&account.text);
        }
        for value in values.all() {
            digits.durations |= matches!(value, Value::Duration(_) | Value::Months(_));
            digits.phones |= matches!(value, Value::Phone(..));
            gathered.add(value);
        }
        digits.amounts = Keys::new(gathered.amounts);
        digits.years = Keys::new(gathered.years);
        digits.hours = Keys::new(gathered.hours);
        digits.leading = Keys::new(gathered.leading);
        digits.suffixes = Keys::new(parts.suffixes().into_iter().filter_map(|suffix| suffix.parse().ok()).collect());
        digits
    }

    /// Whether numbers are looked for at all.
    pub fn any(&self) -> bool {
        self.durations
            || [&self.amounts, &self.years, &self.hours, &self.suffixes, &self.leading]
                .iter()
                .any(|keys| !keys.is_empty())
    }

    /// Whether the run of digits from `start` to `end` could belong to a match.
    pub fn may_match(&self, bytes: &[u8], start: usize, end: usize) -> bool {
        (!self.amounts.is_empty() && self.may_be_amount(bytes, start))
            || (end - start == 4 && self.years.contains(number(&bytes[start..end])))
            || (end - start <= 2 && !self.hours.is_empty() && self.may_be_time(bytes, start, end))
            || (self.durations && is_before_unit(bytes, end))
            || (!self.leading.is_empty() && self.may_lead(bytes, start))
            || (!self.suffixes.is_empty() && self.may_be_last(bytes, start, end))
    }

    fn may_be_amount(&self, bytes: &[u8], start: usize) -> bool {
        let mut end = start;
        while end < bytes.len() {
            let continues = match bytes[end] {
                b'0'..=b'9' => true,
                b',' | b'.' => bytes.get(end + 1).is_some_and(u8::is_ascii_digit),
                // An apostrophe or another space may group digits or not.
                b'\'' | 128.. => return true,
                _ => false,
            };
            if !continues {
                break;
            }
            end += 1;
        }
        self.amounts.contains(significant(bytes[start..end].iter().copied().filter(u8::is_ascii_digit)))
    }

    fn may_be_time(&self, bytes: &[u8], start: usize, end: usize) -> bool {
        let after = bytes.get(end).copied().unwrap_or(b'\n');
        let after = if after.is_ascii_whitespace() { bytes.get(end + 1).copied().unwrap_or(b'\n') } else { after };
        matches!(after, b':' | b'a' | b'A' | b'p' | b'P' | 128..) && self.hours.contains(number(&bytes[start..end]))
    }

    /// Whether the digits from here, whatever stands between them, begin like a number that is looked for.
    fn may_lead(&self, bytes: &[u8], start: usize) -> bool {
        let most = if self.phones { LEADING + CODE } else { LEADING };
        let mut digits = [0_u8; LEADING + CODE];
        let mut count = 0;
        let mut used = 0;
        for byte in &bytes[start..] {
            if byte.is_ascii_digit() {
                digits[count] = *byte;
                count += 1;
            } else if !byte.is_ascii() {
                return true;
            } else if byte.is_ascii_alphabetic() && !self.lettered {
                break;
            }
            used += usize::from(!byte.is_ascii_whitespace());
            if count == most || used == NEAR {
                break;
            }
        }
        let offsets = if self.phones { CODE } else { 0 };
        (0..=offsets).any(|from| {
            let Some(first) = digits[..count].get(from..from + FEWEST) else { return false };
            let mut lead = number(first);
            let mut length = FEWEST;
            loop {
                if self.leading.contains(lead_key(length, lead)) {
                    return true;
                }
                if length == LEADING || from + length == count {
                    return false;
                }
                lead = lead * 10 + u64::from(digits[from + length] - b'0');
                length += 1;
            }
        })
    }

    /// Whether these are the last digits of a number, behind a mask or the words for one.
    fn may_be_last(&self, bytes: &[u8], start: usize, end: usize) -> bool {
        if !(SUFFIX..=6).contains(&(end - start)) || !self.suffixes.contains(number(&bytes[end - SUFFIX..end])) {
            return false;
        }
        let hides = |byte: &u8| matches!(byte, b'*' | b'x' | b'X' | b'#') || !byte.is_ascii();
        let near = &bytes[start.saturating_sub(2)..start];
        let words = &bytes[start.saturating_sub(32)..start];
        let says = |word: &[u8]| words.windows(word.len()).any(|window| window.eq_ignore_ascii_case(word));
        near.iter().any(hides) || says(b"end") || says(b"last")
    }
}

impl Gathered {
    fn add(&mut self, value: &Value) {
        match value {
            Value::Number(number) | Value::Money(number, _) | Value::Percentage(number) => {
                self.amounts.push(significant(number.bytes().filter(u8::is_ascii_digit)));
            }
            Value::Date(year, ..) => {
                self.years.extend(u64::try_from(*year).ok());
            }
            Value::Time(hour, _) => {
                let hour = u64::from(*hour);
                self.hours.extend([hour, hour % 12, hour % 12 + 12]);
                self.hours.extend((hour % 12 == 0).then_some(12));
            }
            Value::Phone(phone, _) => {
                for dropped in 0..=3.min(phone.len()) {
                    let rest = &phone[dropped..];
                    self.lead(rest);
                    self.lead(&format!("0{rest}"));
                    self.lead(rest.trim_start_matches('0'));
                }
            }
            Value::Duration(_) | Value::Months(_) | Value::Email(_) => {}
        }
    }

    fn lead(&mut self, digits: &str) {
        let lead = &digits[..digits.len().min(LEADING)];
        if lead.len() >= FEWEST {
            self.leading.extend(lead.parse().ok().map(|value: u64| lead_key(lead.len(), value)));
        }
    }
}

/// Length and value of leading digits as one number.
fn lead_key(length: usize, value: u64) -> u64 {
    value << 4 | length as u64
}

/// Whether letters stand between the leading digits of an account's compact form.
fn has_letters_within(account: &str) -> bool {
    let mut digits = 0;
    let mut lettered = false;
    for character in account.trim_start_matches(|character: char| !character.is_ascii_digit()).chars() {
        if digits == LEADING {
            break;
        }
        if character.is_ascii_digit() {
            digits += 1;
        } else {
            // What only follows the last digit that is looked at does not count, but does no harm.
            lettered |= character.is_alphabetic();
        }
    }
    lettered
}

fn is_before_unit(bytes: &[u8], end: usize) -> bool {
    let after = match bytes.get(end) {
        Some(b' ' | b'-') => bytes.get(end + 1),
        // The fraction of a number: its unit stands behind the next run.
        Some(b'.') => return bytes.get(end + 1).is_some_and(u8::is_ascii_digit),
        after => after,
    };
    after.is_some_and(|after| matches!(after.to_ascii_lowercase(), b'y' | b'w' | b'd' | b'h' | b'm' | b's'))
}

/// The value of digits; only equality matters, so it may wrap.
fn number(digits: &[u8]) -> u64 {
    digits.iter().fold(0_u64, |value, digit| value.wrapping_mul(10).wrapping_add(u64::from(digit - b'0')))
}

/// The value of digits without the zeros at either end.
fn significant(digits: impl Iterator<Item = u8>) -> u64 {
    let (mut value, mut zeros) = (0_u64, 0_u32);
    for digit in digits {
        if digit == b'0' {
            zeros += 1;
        } else {
            value = value.wrapping_mul(10_u64.wrapping_pow(zeros + 1)).wrapping_add(u64::from(digit - b'0'));
            zeros = 0;
        }
    }
    value
}
