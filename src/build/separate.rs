//! What tells better from worse answers without reading them: a model that can go by length or by a few words learns these.
//!
//! In: pairs of answers. Out: [`Separability`]: accuracies of two naive models on traces that they were not fitted to, and how many
//! words chosen and rejected share.

use std::collections::BTreeMap;

use serde::Serialize;

/// A chosen and a rejected answer of one trace.
#[derive(Debug, Clone, Copy)]
pub struct Answers<'a> {
    /// The trace: its parity decides whether the pair fits or tests.
    pub trace_id: &'a str,
    /// The better answer.
    pub chosen: &'a str,
    /// The worse one.
    pub rejected: &'a str,
}

/// A word by which the sides are told apart.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Telling {
    /// The word.
    pub word: String,
    /// Share of the better answers that hold it.
    pub chosen: f64,
    /// Share of the worse ones.
    pub rejected: f64,
}

/// How well naive models separate, as fractions; 0.5 is chance.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Separability {
    /// Answers that were told apart or not.
    pub answers: usize,
    /// By one threshold of length in characters.
    pub length_only: f64,
    /// By naive Bayes over lower-case words, each counted once an answer.
    pub bag_of_words: f64,
    /// Mean share of the longer answer's words that both answers hold.
    pub overlap: f64,
    /// The words that tell most, the first ones first.
    pub telling: Vec<Telling>,
}

/// Words that are named.
const TELLING: usize = 8;

/// Fits on one half of the traces and tests on the other; `None` if either half is empty.
pub fn separability(pairs: &[Answers<'_>]) -> Option<Separability> {
    let (fitted, tested): (Vec<_>, Vec<_>) = pairs.iter().partition(|pair| is_even(pair.trace_id));
    if fitted.is_empty() || tested.is_empty() {
        return None;
    }
    let threshold = Threshold::fit(&fitted);
    let bayes = Bayes::fit(&fitted);
    let accuracy = |is_chosen: &dyn Fn(&str) -> bool| {
        let right: usize = tested
            .iter()
            .map(|pair| usize::from(is_chosen(pair.chosen)) + usize::from(!is_chosen(pair.rejected)))
            .sum();
        right as f64 / (2 * tested.len()) as f64
    };
    Some(Separability {
        answers: 2 * tested.len(),
        length_only: accuracy(&|answer| threshold.is_chosen(answer)),
        bag_of_words: accuracy(&|answer| bayes.is_chosen(answer)),
        overlap: pairs.iter().map(|pair| overlap(pair.chosen, pair.rejected)).sum::<f64>() / pairs.len() as f64,
        telling: bayes.telling(fitted.len()),
    })
}

fn is_even(text: &str) -> bool {
    text.bytes()
        .fold(7_u32, |hash, byte| hash.wrapping_mul(31).wrapping_add(u32::from(byte)))
        .count_ones()
        .is_multiple_of(2)
}

/// Longer or shorter than a limit.
struct Threshold {
    limit: usize,
    chosen_is_longer: bool,
}

impl Threshold {
    /// The limit and side with most right answers.
    fn fit(pairs: &[&Answers<'_>]) -> Self {
        let mut lengths: Vec<(usize, bool)> = Vec::new();
        for pair in pairs {
            lengths.push((pair.chosen.chars().count(), true));
            lengths.push((pair.rejected.chars().count(), false));
        }
        lengths.sort_unstable();
        let all_chosen = pairs.len();
        let (mut chosen_below, mut best) = (0, (all_chosen, Self { limit: 0, chosen_is_longer: true }));
        for (index, (length, is_chosen)) in lengths.iter().enumerate() {
            chosen_below += usize::from(*is_chosen);
            if lengths.get(index + 1).is_some_and(|(next, _)| next == length) {
                continue;
            }
            let rejected_below = index + 1 - chosen_below;
            let longer = rejected_below + all_chosen - chosen_below;
            for (right, chosen_is_longer) in [(longer, true), (2 * all_chosen - longer, false)] {
                if right > best.0 {
                    best = (right, Self { limit: *length, chosen_is_longer });
                }
            }
        }
        best.1
    }

    fn is_chosen(&self, answer: &str) -> bool {
        (answer.chars().count() > self.limit) == self.chosen_is_longer
    }
}

/// How many answers of each side hold each word, by half an answer more.
struct Bayes {
    counts: BTreeMap<String, [f64; 2]>,
}

impl Bayes {
    fn fit(pairs: &[&Answers<'_>]) -> Self {
        let mut counts: BTreeMap<String, [f64; 2]> = BTreeMap::new();
        for pair in pairs {
            for (side, answer) in [pair.chosen, pair.rejected].into_iter().enumerate() {
                for word in distinct_words(answer) {
                    counts.entry(word).or_insert([0.5; 2])[side] += 1.0;
                }
            }
        }
        Self { counts }
    }

    fn is_chosen(&self, answer: &str) -> bool {
        distinct_words(answer).iter().filter_map(|word| self.counts.get(word)).map(odds).sum::<f64>() > 0.0
    }

    /// The words whose odds weigh most, by how many more answers of one side hold them.
    fn telling(&self, pairs: usize) -> Vec<Telling> {
        let weight = |counts: &[f64; 2]| odds(counts).abs() * (counts[0] - counts[1]).abs();
        let mut words: Vec<(&String, &[f64; 2])> = self.counts.iter().collect();
        words.sort_by(|(_, one), (_, other)| weight(other).total_cmp(&weight(one)));
        let share = |count: f64| (count - 0.5) / pairs as f64;
        let telling = |(word, counts): (&String, &[f64; 2])| {
            let [chosen, rejected] = counts.map(share);
            Telling { word: word.clone(), chosen, rejected }
        };
        words.into_iter().take(TELLING).map(telling).collect()
    }
}

/// Log-odds of chosen over rejected.
fn odds([chosen, rejected]: &[f64; 2]) -> f64 {
    (chosen / rejected).ln()
}

fn words(answer: &str) -> Vec<String> {
    answer
        .to_lowercase()
        .split(|letter: char| !letter.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

fn distinct_words(answer: &str) -> Vec<String> {
    let mut words = words(answer);
    words.sort_unstable();
    words.dedup();
    words
}

fn overlap(one: &str, other: &str) -> f64 {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let (one, other) = (words(one), words(other));
    let longer = one.len().max(other.len());
    for word in one {
        *counts.entry(word).or_default() += 1;
    }
    let shared = other
        .into_iter()
        .filter(|word| match counts.get_mut(word) {
            Some(left) if *left > 0 => {
                *left -= 1;
                true
            }
            _ => false,
        })
        .count();
    if longer == 0 { 1.0 } else { shared as f64 / longer as f64 }
}

#[cfg(test)]
mod tests {
    use super::{Answers, separability};

    fn measured(chosen: impl Fn(usize) -> String, rejected: impl Fn(usize) -> String) -> super::Separability {
        let texts: Vec<(String, String, String)> =
            (0..400).map(|index| (format!("trace/{index}"), chosen(index), rejected(index))).collect();
        let pairs: Vec<Answers<'_>> =
            texts.iter().map(|(id, chosen, rejected)| Answers { trace_id: id, chosen, rejected }).collect();
        separability(&pairs).unwrap()
    }

    #[test]
    fn a_marked_word_and_a_longer_answer_are_found_out() {
        let marked = measured(|index| format!("value {index} fine"), |index| format!("value {index} leak"));
        assert!(marked.bag_of_words > 0.99 && marked.length_only < 0.6, "{marked:?}");
        let told: Vec<(&str, f64, f64)> =
            marked.telling.iter().take(2).map(|told| (told.word.as_str(), told.chosen, told.rejected)).collect();
        assert_eq!(told, [("fine", 1.0, 0.0), ("leak", 0.0, 1.0)]);
        let longer = measured(|_| "a b".to_owned(), |_| "a b c d".to_owned());
        assert!(longer.length_only > 0.99, "{longer:?}");
        assert!((longer.overlap - 0.5).abs() < 1e-12);
    }

    #[test]
    fn answers_that_differ_by_chance_are_not_told_apart() {
        let same = measured(
            |index| format!("word{} {}", index % 7, "x".repeat(index % 11)),
            |index| format!("word{} {}", index % 5, "x".repeat(index % 11)),
        );
        assert!(same.length_only < 0.6, "{same:?}");
    }
}
