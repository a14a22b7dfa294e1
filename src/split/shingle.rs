//! Word shingles and their Jaccard similarity.
//!
//! In: texts. Out: a number in [0, 1].

use std::collections::BTreeSet;

/// Words in a shingle.
const WORDS: usize = 5;

/// The distinct runs of [`WORDS`] words of a text; a shorter text is one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shingles(BTreeSet<u64>);

impl Shingles {
    /// Of one or more texts; no run crosses from one to the next.
    pub fn of<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut shingles = BTreeSet::new();
        for text in texts {
            let words = words(text);
            if words.len() < WORDS {
                shingles.extend((!words.is_empty()).then(|| hash(&words)));
            }
            shingles.extend(words.windows(WORDS).map(hash));
        }
        Self(shingles)
    }

    /// Shared over all; two empty sets have nothing in common.
    pub fn similarity(&self, other: &Self) -> f64 {
        let shared = self.0.intersection(&other.0).count();
        let all = self.0.len() + other.0.len() - shared;
        if all == 0 { 0.0 } else { shared as f64 / all as f64 }
    }
}

/// Lower-case words of letters and digits.
pub(super) fn words(text: &str) -> Vec<String> {
    text.to_lowercase()
        .split(|character: char| !character.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

/// FNV-1a with a mark after each word: the same on every machine, unlike the standard library's hasher.
fn hash(words: &[String]) -> u64 {
    let bytes = words.iter().flat_map(|word| word.bytes().chain(std::iter::once(0)));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similarity_counts_shared_runs_of_five_words() {
        let one = Shingles::of(["a b c d e f"]);
        let two = Shingles::of(["A, b; c d e x"]);
        assert!((one.similarity(&two) - 1.0 / 3.0).abs() < 1e-12);
        assert!((one.similarity(&one) - 1.0).abs() < 1e-12);
        assert!(Shingles::of([""]).similarity(&Shingles::of([""])).abs() < 1e-12);
    }
}
