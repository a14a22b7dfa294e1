//! Likeness of many texts without comparing each with each: `MinHash` signatures in bands.
//!
//! In: texts. Out: for each, an earlier text whose word 5-grams overlap by at least a Jaccard similarity; exact keys for equality.
//! Source: Broder, On the resemblance and containment of documents (1997).

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// Words in a shingle.
const WORDS: usize = 5;
/// Bands, and rows in a band: two texts of similarity s meet in a band with probability 1 - (1 - s^4)^16, 0.9998 at 0.8.
const BANDS: usize = 16;
const ROWS: usize = 4;

/// A text in one case and one width.
pub(super) fn fold(text: &str) -> Cow<'_, str> {
    use unicode_normalization::UnicodeNormalization as _;
    if !text.is_ascii() {
        return Cow::Owned(text.nfkc().collect::<String>().to_lowercase());
    }
    if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Cow::Owned(text.to_ascii_lowercase());
    }
    Cow::Borrowed(text)
}

/// Case-folded words joined by single spaces: what counts as the same text.
pub(super) fn key(text: &str) -> String {
    let folded = fold(text);
    let words: Vec<&str> =
        folded.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    words.join(" ")
}

/// Texts seen so far, by number.
#[derive(Debug, Default)]
pub(super) struct Seen {
    sets: Vec<BTreeSet<u64>>,
    bands: BTreeMap<(usize, u64), Vec<usize>>,
}

impl Seen {
    /// Takes a text in; its number is the count of texts before it.
    pub fn add(&mut self, text: &str) {
        let set = shingles(text);
        for band in bands(&set) {
            self.bands.entry(band).or_default().push(self.sets.len());
        }
        self.sets.push(set);
    }

    /// The first earlier text that is at least this similar and that `counts` accepts.
    pub fn like(&self, text: &str, similarity: f64, counts: impl Fn(usize) -> bool) -> Option<usize> {
        let set = shingles(text);
        let mut candidates: BTreeSet<usize> = BTreeSet::new();
        for band in bands(&set) {
            candidates.extend(self.bands.get(&band).into_iter().flatten());
        }
        candidates.into_iter().find(|&index| counts(index) && jaccard(&self.sets[index], &set) >= similarity)
    }
}

fn shingles(text: &str) -> BTreeSet<u64> {
    let key = key(text);
    let words: Vec<&str> = key.split(' ').collect();
    if words.len() < WORDS {
        return BTreeSet::from([hash(&words, 0)]);
    }
    words.windows(WORDS).map(|window| hash(window, 0)).collect()
}

fn jaccard(one: &BTreeSet<u64>, other: &BTreeSet<u64>) -> f64 {
    let shared = one.intersection(other).count();
    shared as f64 / (one.len() + other.len() - shared).max(1) as f64
}

/// The least hash under each of many functions, a few to a band.
fn bands(set: &BTreeSet<u64>) -> Vec<(usize, u64)> {
    (0..BANDS)
        .map(|band| {
            let rows = (0..ROWS).map(|row| {
                let salt = (band * ROWS + row + 1) as u64;
                set.iter().map(|shingle| mixed(shingle ^ salt.wrapping_mul(0x9e37_79b9_7f4a_7c15))).min().unwrap_or(0)
            });
            (band, rows.fold(0, |all, least| mixed(all ^ least)))
        })
        .collect()
}

/// FNV-1a with a mark after each word: the same on every machine.
fn hash(words: &[&str], seed: u64) -> u64 {
    let bytes = words.iter().flat_map(|word| word.bytes().chain(std::iter::once(0)));
    bytes.fold(0xcbf2_9ce4_8422_2325 ^ seed, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

pub(super) fn mixed(value: u64) -> u64 {
    let value = (value ^ (value >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let value = (value ^ (value >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    value ^ (value >> 33)
}

#[cfg(test)]
mod tests {
    use super::{Seen, key};

    #[test]
    fn a_text_with_one_word_changed_is_like_and_another_is_not() {
        let words: Vec<String> = (0..60).map(|index| format!("word{index}")).collect();
        let text = words.join(" ");
        let mut seen = Seen::default();
        seen.add("Something else entirely, about a garden hose and a lost umbrella.");
        seen.add(&text);
        assert_eq!(seen.like(&text.replace("word59", "other"), 0.8, |_| true), Some(1));
        assert_eq!(seen.like(&text.replace("word59", "other"), 0.8, |index| index != 1), None);
        assert_eq!(seen.like(&words[..30].join(" "), 0.8, |_| true), None);
    }

    #[test]
    fn case_spaces_and_width_make_no_other_text() {
        assert_eq!(key("Ｔhe  Fee: $3.50!"), key("the fee 3 50"));
    }
}
