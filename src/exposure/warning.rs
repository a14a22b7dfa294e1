//! Oddities of the input that do not make a figure wrong: counted, with a few places, never silent.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// Places that a warning names.
const SHOWN: usize = 5;

/// One kind of oddity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// What is odd and what was done about it.
    pub what: String,
    /// How often.
    pub count: u64,
    /// The first few places, by name.
    pub places: Vec<String>,
}

/// Counts warnings; the result does not depend on the order in which they came.
#[derive(Debug, Clone, Default)]
pub(super) struct Warnings(BTreeMap<&'static str, (u64, BTreeSet<String>)>);

impl Warnings {
    /// Counts one.
    pub fn add(&mut self, what: &'static str, place: &str) {
        let (count, places) = self.0.entry(what).or_default();
        *count += 1;
        places.insert(place.to_owned());
        if places.len() > SHOWN {
            places.pop_last();
        }
    }

    /// All of them, by text.
    pub fn finish(self) -> Vec<Warning> {
        let warning = |(what, (count, places)): (&str, (u64, BTreeSet<String>))| Warning {
            what: what.to_owned(),
            count,
            places: places.into_iter().collect(),
        };
        self.0.into_iter().map(warning).collect()
    }
}
