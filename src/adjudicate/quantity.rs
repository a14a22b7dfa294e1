//! Quantities: a number with its unit, which answers write apart, out, or before the number.
//!
//! In: a payload and a required value such as `386 km`. Out: where the number stands, if the unit stands in the same line.

use std::ops::Range;

use super::typed::{self, Value};

/// Letters of a unit.
const LONGEST_UNIT: usize = 12;

/// Words for one unit.
const UNITS: [&[&str]; 14] = [
    &["km", "kilometre", "kilometres", "kilometer", "kilometers"],
    &["m", "metre", "metres", "meter", "meters"],
    &["cm", "centimetre", "centimetres", "centimeter", "centimeters"],
    &["mm", "millimetre", "millimetres", "millimeter", "millimeters"],
    &["mi", "mile", "miles"],
    &["kg", "kilo", "kilos", "kilogram", "kilograms", "kilogramme", "kilogrammes"],
    &["g", "gram", "grams", "gramme", "grammes"],
    &["mg", "milligram", "milligrams"],
    &["lb", "lbs", "pound", "pounds"],
    &["l", "litre", "litres", "liter", "liters"],
    &["ml", "millilitre", "millilitres", "milliliter", "milliliters"],
    &["h", "hr", "hrs", "hour", "hours"],
    &["min", "mins", "minute", "minutes"],
    &["day", "days"],
];

/// Bytes of `payload` where the number of a quantity stands, in a line that names the unit.
pub(super) fn find(payload: &str, value: &str) -> Option<Range<usize>> {
    let value = value.trim();
    let unit_at = value.find(|letter: char| letter.is_ascii_alphabetic())?;
    let (number, unit) = (value[..unit_at].trim_end(), &value[unit_at..]);
    if unit.len() > LONGEST_UNIT || !unit.bytes().all(|byte| byte.is_ascii_alphabetic()) {
        return None;
    }
    let number = typed::whole(number).into_iter().find(|value| matches!(value, Value::Number(_)))?;
    let in_line = |range: &Range<usize>| {
        let start = payload[..range.start].rfind('\n').map_or(0, |at| at + 1);
        let end = payload[range.end..].find('\n').map_or(payload.len(), |at| range.end + at);
        words(&payload[start..end]).any(|word| is_same(word, unit))
    };
    typed::values(payload).into_iter().find(|(seen, range)| *seen == number && in_line(range)).map(|(_, range)| range)
}

/// Whether the text begins with a unit, so that the number before it is a quantity.
pub(super) fn is_measured(after: &str) -> bool {
    let after = after.strip_prefix([' ', '-']).unwrap_or(after);
    let word = &after[..after.find(|letter: char| !letter.is_alphanumeric()).unwrap_or(after.len())];
    UNITS.iter().any(|unit| unit.contains(&word.to_ascii_lowercase().as_str()))
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|letter: char| !letter.is_alphabetic()).filter(|word| !word.is_empty())
}

fn is_same(word: &str, unit: &str) -> bool {
    let (word, lower) = (word.to_ascii_lowercase(), unit.to_ascii_lowercase());
    // Units are written small; capitals make another one (`MB`) or a word.
    let forms = UNITS.iter().find(|forms| lower == unit && forms.contains(&unit));
    word == lower || forms.is_some_and(|forms| forms.contains(&word.as_str()))
}
