//! How a declared locale writes numbers and dates.
//!
//! In: a locale's name, e.g. `de_DE`. Out: [`Notation`]. Source: the C library's locale definitions.

use pure_rust_locales::{Locale, locale_match};
use regex::Regex;

use super::moment;
use super::number;

/// Order of day and month in dates of digits only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum DateOrder {
    /// 31.12.2000
    DayFirst,
    /// 12/31/2000
    MonthFirst,
}

/// The readings that a locale settles. Without one, numbers are written as in English and dates of digits stay ambiguous.
#[derive(Debug, Clone)]
pub(in super::super) struct Notation {
    /// Order of day and month; `None` leaves `02-03-2016` without a reading.
    pub order: Option<DateOrder>,
    /// Numbers with what stands around them, in the locale's separators.
    pub number: Option<Regex>,
    /// Names of months, lower case, with their number.
    pub months: Vec<(String, u8)>,
    /// Month before day, and day before month.
    pub named_dates: [Option<Regex>; 2],
}

impl Default for Notation {
    fn default() -> Self {
        Self {
            order: None,
            number: number::pattern('.'),
            months: moment::english_months(),
            named_dates: moment::named_dates(&moment::english_months()),
        }
    }
}

impl Notation {
    /// The notation of a locale; `None` if it is not known.
    pub fn of(name: &str) -> Option<Self> {
        let locale = Locale::try_from(name.replace('-', "_").as_str()).ok()?;
        let decimal = locale_match!(locale => LC_NUMERIC::DECIMAL_POINT).chars().next().unwrap_or('.');
        let format = locale_match!(locale => LC_TIME::D_FMT);
        let place = |letters: &[&str]| letters.iter().filter_map(|letter| format.find(letter)).min();
        let order = match (place(&["%d", "%e"]), place(&["%m"])) {
            (Some(day), Some(month)) if day < month => Some(DateOrder::DayFirst),
            (Some(_), Some(_)) => Some(DateOrder::MonthFirst),
            // `%D` is month, day, year.
            _ => format.contains("%D").then_some(DateOrder::MonthFirst),
        };
        let mut months = moment::english_months();
        for names in [locale_match!(locale => LC_TIME::MON), locale_match!(locale => LC_TIME::ABMON)] {
            months.extend(names.iter().zip(1..).map(|(name, number)| (name.to_lowercase(), number)));
        }
        let named_dates = moment::named_dates(&months);
        Some(Self { order, number: number::pattern(decimal), months, named_dates })
    }
}
