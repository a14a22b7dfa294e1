//! Private values of all traces, looked for in answers to others: 8 bytes of each are held.
//!
//! In: contracts, then answers. Out: places. A value is a run of whole words, whatever their case; of one longer than eight words the
//! first eight are looked for.

use std::ops::Range;

use super::set::is_telling;
use super::shingle::fold;
use super::sketch::{follow, word_hash, words};
use crate::contract::{Contract, TargetKind};

/// Words by which a value is known at most.
const MOST_WORDS: usize = 8;
/// Bits that tell which words begin a value at all.
const FILTER_BITS: u64 = 1 << 20;

/// The values, sorted by their hash.
#[derive(Debug, Default)]
pub struct Secrets {
    hashes: Vec<u64>,
    first_words: Vec<u64>,
}

/// Private values of one contract that nobody writes by chance.
fn private(contract: &Contract) -> impl Iterator<Item = &str> {
    let clues = contract.targets.iter().filter(|target| target.kind != TargetKind::Label && !target.weak);
    clues.map(|target| target.value.as_str()).filter(|value| is_telling(value))
}

/// The hash of the first words, and that of the very first.
fn hashes(value: &str) -> Option<(u64, u64)> {
    let words = words(value);
    let first = *words.first()?;
    Some((words.iter().take(MOST_WORDS).fold(0, |run, word| follow(run, *word)), first))
}

impl Secrets {
    /// What is held of a contract's values: the hash of each, and that of its first word.
    pub fn of(contract: &Contract) -> Vec<(u64, u64)> {
        contract.trace_id.as_ref().map_or_else(Vec::new, |_| private(contract).filter_map(hashes).collect())
    }

    /// Sorts what [`Secrets::of`] gave for all contracts.
    pub fn new(found: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let mut first_words = vec![0; (FILTER_BITS / 64) as usize];
        let mut hashes = Vec::new();
        for (hash, first) in found {
            let bit = first % FILTER_BITS;
            first_words[(bit / 64) as usize] |= 1 << (bit % 64);
            hashes.push(hash);
        }
        hashes.sort_unstable();
        hashes.dedup();
        hashes.shrink_to_fit();
        Self { hashes, first_words }
    }

    /// Places in an answer of values that are neither the own contract's nor in the prompt.
    pub fn foreign(&self, answer: &str, own: Option<&Contract>, prompt: &str) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        let words = places(answer);
        for (at, (first, place)) in words.iter().enumerate() {
            let bit = first % FILTER_BITS;
            if self.first_words.get((bit / 64) as usize).is_none_or(|bits| bits >> (bit % 64) & 1 == 0) {
                continue;
            }
            let mut run = 0;
            for (word, end) in words[at..].iter().take(MOST_WORDS) {
                run = follow(run, *word);
                if self.hashes.binary_search(&run).is_ok() {
                    found.push(place.start..end.end);
                }
            }
        }
        if found.is_empty() {
            return found;
        }
        let known: Vec<String> = own
            .into_iter()
            .flat_map(private)
            .map(|value| fold(value).into_owned())
            .chain([fold(prompt).into_owned()])
            .collect();
        found.retain(|place| {
            let value = fold(&answer[place.clone()]);
            !known.iter().any(|text| text.contains(value.as_ref()))
        });
        found
    }
}

/// The words of a text with their bytes.
fn places(text: &str) -> Vec<(u64, Range<usize>)> {
    let mut places: Vec<(u64, Range<usize>)> = Vec::new();
    let mut start = None;
    for (at, letter) in text.char_indices().chain([(text.len(), ' ')]) {
        match (letter.is_alphanumeric(), start) {
            (true, None) => start = Some(at),
            (false, Some(from)) => {
                places.push((word_hash(fold(&text[from..at]).bytes()), from..at));
                start = None;
            }
            _ => {}
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::Secrets;
    use crate::contract::Contract;

    fn contract(id: &str, values: &[&str]) -> Contract {
        let targets: Vec<_> = values
            .iter()
            .enumerate()
            .map(|(index, value)| serde_json::json!({"target_id": format!("e{index}"), "value": value, "type": "clue"}))
            .collect();
        let json = serde_json::json!({"contract_id": id, "trace_id": id, "channels": [], "targets": targets});
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn a_value_of_another_trace_is_found_as_whole_words_unless_own_or_in_the_prompt() {
        let long = "one two three four five six seven eight nine";
        let own = contract("b", &["parcel of grey wool"]);
        let others = [contract("a", &["TX-48213K", "visa interview", "pin", long]), own.clone()];
        let secrets = Secrets::new(others.iter().flat_map(Secrets::of));
        let places = |answer: &str, prompt: &str| -> Vec<String> {
            secrets.foreign(answer, Some(&own), prompt).into_iter().map(|place| answer[place].to_owned()).collect()
        };
        assert_eq!(places("The ticket is TX-48213K, the Visa Interview at 9.", ""), ["TX-48213K", "Visa Interview"]);
        assert_eq!(places("The ticket is TX-48213K.", "Ticket: tx-48213k"), [""; 0]);
        assert_eq!(places("A parcel of grey wool, a pin, TX-48213KX.", ""), [""; 0]);
        assert_eq!(places(&format!("{long} ten"), ""), ["one two three four five six seven eight"]);
        assert!(Secrets::default().foreign("TX-48213K", None, "").is_empty());
    }
}
