//! Items of tool results on their own: a key, what a request calls it, and a value drawn for it.
//!
//! In: a part and a generator. Out: [`Item`]s with keys that differ. Keys are those of the tool library, or invented words, so
//! that a reader of them cannot know by heart which keys there are.

use rand::RngExt as _;
use rand::seq::{IndexedRandom as _, SliceRandom as _};
use rand_chacha::ChaCha8Rng;

use super::library::{Field, Library};
use super::value::Values;
use crate::error::Result;
use crate::trace::Part;

/// Share of entries whose key is an invented word.
const INVENTED: f64 = 0.4;

/// One item of a tool's result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// The key in the result.
    pub key: String,
    /// What a request calls it.
    pub ask: String,
    /// Its value.
    pub value: String,
}

/// A source of entries.
#[derive(Debug)]
pub struct Items {
    fields: Vec<Field>,
    values: Values,
}

impl Items {
    /// Prepares the library and the values of a part.
    ///
    /// # Errors
    /// A library that does not parse or breaks its own rules.
    pub fn new(part: Option<Part>) -> Result<Self> {
        let library = Library::embedded(part)?;
        let fields = library.schemas.into_iter().flat_map(|schema| schema.fields).collect();
        Ok(Self { fields, values: Values::new(part) })
    }

    /// `count` entries, or as many as there are fields.
    pub fn draw(&self, count: usize, rng: &mut ChaCha8Rng) -> Vec<Item> {
        let mut fields: Vec<&Field> = self.fields.sample(rng, count).collect();
        fields.shuffle(rng);
        let mut entries: Vec<Item> = Vec::new();
        for field in fields {
            let value = self.values.draw(&field.value, rng);
            let (key, ask) = if rng.random_bool(INVENTED) {
                let word = invented(rng);
                (word.clone(), word)
            } else {
                (field.key.clone(), field.ask.clone())
            };
            if entries.iter().all(|known| known.key != key) {
                entries.push(Item { key, ask, value });
            }
        }
        entries
    }
}

/// Two or three syllables.
fn invented(rng: &mut ChaCha8Rng) -> String {
    const STARTS: [&str; 18] =
        ["b", "br", "c", "d", "f", "g", "h", "k", "l", "m", "n", "p", "r", "s", "st", "t", "v", "w"];
    const VOWELS: [&str; 6] = ["a", "e", "i", "o", "u", "ea"];
    const ENDS: [&str; 6] = ["", "", "n", "r", "l", "t"];
    let mut pick = |from: &[&'static str]| from.choose(rng).copied().unwrap_or_default();
    let mut word = String::new();
    for _ in 0..2 {
        word.push_str(pick(&STARTS));
        word.push_str(pick(&VOWELS));
        word.push_str(pick(&ENDS));
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::seed::Seed;

    #[test]
    fn entries_have_keys_of_their_own_and_values_of_their_part() {
        let entries = Items::new(Some(Part::Train)).unwrap();
        for index in 0..50 {
            let drawn = entries.draw(6, &mut Seed(index).stream("entries"));
            let keys: std::collections::BTreeSet<&str> = drawn.iter().map(|entry| entry.key.as_str()).collect();
            assert_eq!(keys.len(), drawn.len());
            assert!(drawn.len() > 3, "{drawn:?}");
            assert!(drawn.iter().all(|entry| !entry.value.is_empty() && !entry.ask.is_empty()));
        }
    }
}
