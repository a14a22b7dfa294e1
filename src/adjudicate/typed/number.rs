//! Numbers, amounts of money and percentages.
//!
//! In: text. Out: canonical decimal numbers, with currency or as a percentage where the text says so.

use regex::Regex;

use super::locale::Notation;
use super::{Seen, Value, fixed, stands_alone};

/// Signs and codes of currencies, and words for them.
const CURRENCIES: &[(&str, &str)] = &[
    ("us$", "USD"),
    ("$", "USD"),
    ("€", "EUR"),
    ("£", "GBP"),
    ("¥", "JPY"),
    ("₹", "INR"),
    ("dollar", "USD"),
    ("euro", "EUR"),
    ("pound", "GBP"),
    ("yen", "JPY"),
    ("rupee", "INR"),
    ("usd", "USD"),
    ("eur", "EUR"),
    ("gbp", "GBP"),
    ("jpy", "JPY"),
    ("inr", "INR"),
    ("chf", "CHF"),
    ("cad", "CAD"),
    ("aud", "AUD"),
    ("cny", "CNY"),
    ("sek", "SEK"),
    ("nok", "NOK"),
    ("dkk", "DKK"),
    ("pln", "PLN"),
];

const CODES: &str = "USD|EUR|GBP|JPY|INR|CHF|CAD|AUD|CNY|SEK|NOK|DKK|PLN";

/// Bytes before the digits that can hold a currency.
const LEAD: usize = 6;

/// A number, anchored at its first digit, with scale, unit and currency after it.
pub(super) fn pattern(decimal: char) -> Option<Regex> {
    let (point, group) = if decimal == ',' { (",", r"\.") } else { (r"\.", ",") };
    let space = "[\u{A0}\u{202F}\u{2009}'\u{2019}]";
    fixed(&format!(
        r"^(?P<whole>\d{{1,3}}(?:{group}\d{{3}})+|\d{{1,2}}(?:{group}\d{{2}})+{group}\d{{3}}|\d{{1,3}}(?:{space}\d{{3}})+|\d+)(?:{point}(?P<fraction>\d+))?(?:[ -]?(?P<scale>(?i:thousand|million|billion|bn|mn)\b|[kKmMbB]\b))?[ \u{{A0}}]?(?P<after>%|(?i:per ?cent|dollars?|euros?|pounds?|yen|rupees?)\b|(?:{CODES})\b|[€£¥₹$])?"
    ))
}

/// All numbers: each as itself, as an amount, and as a percentage where it is one.
pub(super) fn numbers(text: &str, notation: &Notation, found: &mut Vec<Seen>) {
    let Some(pattern) = &notation.number else { return };
    for at in super::digit_runs(text) {
        let rest = &text[at..];
        if let Some(length) = bare(rest) {
            read(text, at, &Parts { whole: &rest[..length], ..Parts::default() }, found);
        } else if let Some(captures) = pattern.captures(rest) {
            let Some(whole) = captures.name("whole") else { continue };
            let part = |name| captures.name(name).map(|part| (part.as_str(), part.end()));
            let (fraction, scale, after) = (part("fraction"), part("scale"), part("after"));
            read(text, at, &Parts { whole: whole.as_str(), fraction, scale, after }, found);
        }
    }
}

/// A number as it stands: parts after the first with the byte, from the number's first digit, at which they end.
#[derive(Default)]
struct Parts<'t> {
    whole: &'t str,
    fraction: Option<(&'t str, usize)>,
    scale: Option<(&'t str, usize)>,
    after: Option<(&'t str, usize)>,
}

/// Digits of a number that nothing belongs to: no group, fraction, scale, unit or currency can follow. `None` where the pattern
/// has to tell.
fn bare(rest: &str) -> Option<usize> {
    let length = rest.bytes().take_while(u8::is_ascii_digit).count();
    let mut after = rest[length..].bytes();
    // Letters that a scale, a currency's code or its name begins with.
    let begins = |byte: u8| b"tmbkpderyugjicasn%$".contains(&byte.to_ascii_lowercase());
    let is_bare = match after.next() {
        None => true,
        Some(b'.' | b',') => after.next().is_none_or(|next| next.is_ascii() && !next.is_ascii_digit()),
        Some(b' ' | b'-') => after.next().is_none_or(|next| next.is_ascii() && !begins(next)),
        Some(b'\'') => false,
        Some(next) => next.is_ascii() && !begins(next),
    };
    is_bare.then_some(length)
}

fn read(text: &str, at: usize, parts: &Parts<'_>, found: &mut Vec<Seen>) {
    let Parts { whole, fraction, scale, after } = *parts;
    let digits = at..at + fraction.map_or(whole.len(), |(_, end)| end);
    let (start, before) = currency_before(text, at);
    if !stands_alone(text, &(start..digits.end))
        || (start < at && !stands_alone(text, &(at..digits.end)) && before.is_none())
    {
        return;
    }
    let currency = before.or_else(|| after.and_then(|(after, _)| currency(after)));
    let is_percentage = after.is_some_and(|(after, _)| after == "%" || after.to_lowercase().starts_with("per"));
    let power = scale.and_then(|(scale, _)| zeros(scale, currency.is_some()));
    let amount = canonical(whole, fraction.map_or("", |(fraction, _)| fraction), power.unwrap_or(0));
    let end = scale.filter(|_| power.is_some()).map_or(digits.end, |(_, end)| at + end);
    let all = start..after.filter(|_| currency.is_some() || is_percentage).map_or(end, |(_, end)| at + end);
    if is_percentage {
        found.push((Value::Percentage(amount.clone()), all.clone()));
    } else {
        found.push((Value::Money(amount.clone(), currency), all));
    }
    found.push((Value::Number(amount), digits.start..end));
}

/// The currency right before a number and where it starts; the number's own start where there is none.
fn currency_before(text: &str, at: usize) -> (usize, Option<&'static str>) {
    let before = text[..at].trim_end_matches([' ', '-', '\u{2212}', '+']);
    let mut from = before.len().saturating_sub(LEAD);
    while !before.is_char_boundary(from) {
        from += 1;
    }
    if at - before.len() > 3 {
        return (at, None);
    }
    let lead = before[from..].to_lowercase();
    // Lower-casing may change lengths outside ASCII; signs of currencies keep theirs.
    let found = CURRENCIES.iter().find(|(sign, _)| {
        lead.ends_with(sign)
            && before.len() >= sign.len()
            && before.is_char_boundary(before.len() - sign.len())
            && (!sign.starts_with(char::is_alphabetic)
                || !before[..before.len() - sign.len()].ends_with(char::is_alphanumeric))
    });
    found.map_or((at, None), |(sign, code)| (before.len() - sign.len(), Some(*code)))
}

fn currency(after: &str) -> Option<&'static str> {
    let after = after.to_lowercase();
    CURRENCIES.iter().find(|(sign, _)| after.starts_with(sign)).map(|(_, code)| *code)
}

/// Powers of ten; `m` is a million only of money.
fn zeros(scale: &str, is_money: bool) -> Option<usize> {
    match scale.to_lowercase().as_str() {
        "k" | "thousand" => Some(3),
        "million" | "mn" => Some(6),
        "billion" | "bn" => Some(9),
        "m" if is_money || scale == "M" => Some(6),
        "b" if is_money => Some(9),
        _ => None,
    }
}

/// Whole part and fraction without grouping, sign, and zeros that say nothing.
fn canonical(whole: &str, fraction: &str, zeros: usize) -> String {
    let mut whole: String = whole.chars().filter(char::is_ascii_digit).collect();
    let moved = fraction.len().min(zeros);
    whole.push_str(&fraction[..moved]);
    whole.extend(std::iter::repeat_n('0', zeros - moved));
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    let fraction = fraction[moved..].trim_end_matches('0');
    if fraction.is_empty() { whole.to_owned() } else { format!("{whole}.{fraction}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_notations_compile() {
        assert!(pattern('.').is_some() && pattern(',').is_some());
    }

    #[test]
    fn a_bare_number_is_what_the_pattern_finds_too() {
        let pattern = pattern('.').unwrap();
        let follow = [
            "",
            ".",
            ",",
            ". x",
            ",5",
            ".5",
            " ",
            " x",
            " k",
            " USD",
            "-",
            "-k",
            "-3",
            " 3",
            "%",
            "$",
            "k",
            "x",
            "h",
            "\"",
            "'000",
            "\u{a0}000",
            "|",
            "\n",
            ")",
            "per",
            "/",
            ":30",
            "th",
            "zz",
            "٣",
            " dollars",
            "€",
            ",000",
            " million",
            "q",
            "_",
            "-bn",
        ];
        for digits in ["7", "42", "123", "2026", "1234567"] {
            for follow in follow {
                let text = format!("{digits}{follow}");
                let captures = pattern.captures(&text).unwrap();
                if let Some(length) = bare(&text) {
                    assert_eq!(&captures["whole"], &text[..length], "{text}");
                    let others = ["fraction", "scale", "after"].map(|name| captures.name(name).is_some());
                    assert_eq!(others, [false; 3], "{text}");
                }
            }
        }
        assert_eq!((bare("42 items"), bare("42."), bare("42"), bare("42h")), (None, Some(2), Some(2), Some(2)));
    }

    #[test]
    fn scale_moves_the_point() {
        assert_eq!(canonical("1", "25", 3), "1250");
        assert_eq!(canonical("1", "2345", 3), "1234.5");
        assert_eq!(canonical("007", "50", 0), "7.5");
    }
}
