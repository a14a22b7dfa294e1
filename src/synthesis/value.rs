//! Invented values out of spaces too large to be learnt by heart, so that an answer can only copy them.
//!
//! In: a [`Pattern`], a part and a generator. Out: text. Person and street names are composed of the name lists of the `fake`
//! crate; nobody is meant. What falls to which part is decided by a hash of the text: it is the same in every run.

use fake::locales::{Data as _, EN};
use rand::RngExt as _;
use rand::seq::IndexedRandom as _;
use rand_chacha::ChaCha8Rng;
use serde::Deserialize;

use crate::error::Fault;
use crate::trace::Part;

/// One in so many values is held out.
const HELD_OUT_PART: u64 = 5;

/// Shorter names are words or parts of words as well.
const SHORTEST_NAME: usize = 4;

/// How a value looks.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) enum Pattern {
    /// `#` a digit, `^` a digit but 0, `@` a capital letter, all else as it stands.
    Signs(String),
    /// Whole dollars from and to; cents are drawn.
    Money(u32, u32),
    Date,
    Moment,
    /// A weekday, a time and a place: what comes back every week.
    Weekly,
    Person,
    Email,
    Address,
}

impl TryFrom<String> for Pattern {
    type Error = Fault;

    fn try_from(text: String) -> Result<Self, Fault> {
        if let Some(range) = text.strip_prefix('$') {
            let bounds = range.split_once('-').and_then(|(low, high)| Some((low.parse().ok()?, high.parse().ok()?)));
            let Some((low, high)) = bounds.filter(|(low, high)| low < high) else {
                return Err(Fault::new("not a range of money").got(text).expected("for instance `$9-180`"));
            };
            return Ok(Self::Money(low, high));
        }
        Ok(match text.as_str() {
            "date" => Self::Date,
            "moment" => Self::Moment,
            "weekly" => Self::Weekly,
            "person" => Self::Person,
            "email" => Self::Email,
            "address" => Self::Address,
            _ if text.contains(['#', '^']) => Self::Signs(text),
            _ => {
                return Err(Fault::new("no such value")
                    .got(text)
                    .expected("a pattern with `#` or `^`, or a known kind"));
            }
        })
    }
}

/// The names of one part, and the part itself.
#[derive(Debug)]
pub(crate) struct Values {
    part: Option<Part>,
    first: Vec<&'static str>,
    last: Vec<&'static str>,
}

impl Values {
    pub fn new(part: Option<Part>) -> Self {
        let usable = |names: &[&'static str]| -> Vec<&'static str> {
            let is_name = |name: &&&str| {
                name.len() >= SHORTEST_NAME && name.chars().all(char::is_alphabetic) && belongs(name, part)
            };
            let mut names: Vec<&'static str> = names.iter().filter(is_name).copied().collect();
            names.dedup();
            names
        };
        Self { part, first: usable(EN::NAME_FIRST_NAME), last: usable(EN::NAME_LAST_NAME) }
    }

    /// A value of the part.
    pub fn draw(&self, pattern: &Pattern, rng: &mut ChaCha8Rng) -> String {
        loop {
            let value = self.make(pattern, rng);
            // A composed name is of the part because its words are.
            let is_composed = matches!(pattern, Pattern::Person | Pattern::Email | Pattern::Address);
            if is_composed || belongs(&value, self.part) {
                return value;
            }
        }
    }

    /// `Torphy and Zieme Textiles`.
    pub fn firm(&self, rng: &mut ChaCha8Rng) -> String {
        const TRADES: [&str; 12] = [
            "Foods",
            "Marine",
            "Textiles",
            "Optics",
            "Motors",
            "Pharma",
            "Tools",
            "Paper",
            "Logistics",
            "Ceramics",
            "Instruments",
            "Toys",
        ];
        let trade = TRADES.choose(rng).copied().unwrap_or_default();
        format!("{} and {} {trade}", self.last(rng), self.last(rng))
    }

    fn first(&self, rng: &mut ChaCha8Rng) -> &'static str {
        self.first.choose(rng).copied().unwrap_or_default()
    }

    fn last(&self, rng: &mut ChaCha8Rng) -> &'static str {
        self.last.choose(rng).copied().unwrap_or_default()
    }

    fn make(&self, pattern: &Pattern, rng: &mut ChaCha8Rng) -> String {
        match pattern {
            Pattern::Signs(signs) => signs.chars().map(|sign| drawn(sign, rng)).collect(),
            Pattern::Money(low, high) => money(rng.random_range(*low..*high), rng.random_range(0..100)),
            Pattern::Date => date(rng),
            Pattern::Moment => format!("{} {:02}:{:02}", date(rng), rng.random_range(6..22), rng.random_range(0..60)),
            Pattern::Weekly => {
                const DAYS: [&str; 7] =
                    ["Mondays", "Tuesdays", "Wednesdays", "Thursdays", "Fridays", "Saturdays", "Sundays"];
                let day = DAYS.choose(rng).copied().unwrap_or_default();
                let (hour, minute, bay) =
                    (rng.random_range(6..23), rng.random_range(0..60), rng.random_range(100..1000));
                format!("{day} {hour:02}:{minute:02}, bay {bay}")
            }
            Pattern::Person => format!("{} {}", self.first(rng), self.last(rng)),
            Pattern::Email => {
                let (first, last) = (self.first(rng).to_lowercase(), self.last(rng).to_lowercase());
                format!("{first}.{last}@{}.example", self.last(rng).to_lowercase())
            }
            Pattern::Address => {
                const WAYS: [&str; 6] = ["Lane", "Street", "Row", "Yard", "Quay", "Square"];
                let way = WAYS.choose(rng).copied().unwrap_or_default();
                format!("{} {} {way}", rng.random_range(1..999), self.last(rng))
            }
        }
    }
}

fn drawn(sign: char, rng: &mut ChaCha8Rng) -> char {
    // I and O read as digits.
    const LETTERS: &[u8] = b"ABCDEFGHJKLMNPQRSTUVWXYZ";
    match sign {
        '#' => char::from(rng.random_range(b'0'..=b'9')),
        '^' => char::from(rng.random_range(b'1'..=b'9')),
        '@' => char::from(*LETTERS.choose(rng).unwrap_or(&b'A')),
        other => other,
    }
}

fn money(dollars: u32, cents: u32) -> String {
    let grouped =
        if dollars >= 1000 { format!("{},{:03}", dollars / 1000, dollars % 1000) } else { dollars.to_string() };
    format!("${grouped}.{cents:02}")
}

fn date(rng: &mut ChaCha8Rng) -> String {
    format!("{}-{:02}-{:02}", rng.random_range(2021..2036), rng.random_range(1..=12), rng.random_range(1..=28))
}

/// Whether a text is one of the part's; every text is one of the whole.
pub(super) fn belongs(text: &str, part: Option<Part>) -> bool {
    match part {
        None => true,
        Some(part) => (part == Part::HeldOut) == mixed(text).is_multiple_of(HELD_OUT_PART),
    }
}

/// A part's share of a few wordings: each part gets at least one where there are two.
pub(super) fn dealt(texts: &[String], part: Option<Part>) -> Vec<String> {
    let mut order: Vec<&String> = texts.iter().collect();
    order.sort_by_key(|text| mixed(text));
    let held_out = texts.len().div_ceil(HELD_OUT_PART as usize);
    let chosen = match part {
        None => &order[..],
        Some(Part::HeldOut) => &order[..held_out],
        Some(Part::Train) => &order[held_out..],
    };
    texts.iter().filter(|text| chosen.contains(text)).cloned().collect()
}

/// FNV-1a with a last mix, since few bits of the plain hash of short texts are good.
fn mixed(text: &str) -> u64 {
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::seed::Seed;

    #[test]
    fn a_value_belongs_to_one_part_only() {
        let pattern = Pattern::Signs("TX-#####@".to_owned());
        let values = Values::new(Some(Part::HeldOut));
        let mut rng = Seed(1).stream("value");
        for _ in 0..200 {
            let value = values.draw(&pattern, &mut rng);
            assert!(belongs(&value, Some(Part::HeldOut)) && !belongs(&value, Some(Part::Train)), "{value}");
        }
        let train = Values::new(Some(Part::Train));
        assert!(train.last.len() > 3 * values.last.len() && values.last.len() > 40);
        assert!(values.first.iter().all(|name| !train.first.contains(name)));
    }

    #[test]
    fn patterns_that_mean_nothing_are_refused() {
        assert!(Pattern::try_from("$9-180".to_owned()).is_ok());
        for text in ["$180-9", "colour", "$x-y"] {
            assert!(Pattern::try_from(text.to_owned()).is_err(), "{text}");
        }
    }
}
