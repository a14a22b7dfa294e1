//! Length matching: preference training must not learn that the better answer is the longer one, so every answer of a trace is
//! filled up to one length with sentences from a pool.
//!
//! In: a length to reach, a pool of sentences and a generator. Out: sentences whose joined length comes as near as it can.
//! Draws are taken in random order and the first one near enough on either side wins, so that no side is favoured.

use rand::seq::SliceRandom as _;
use rand_chacha::ChaCha8Rng;

/// Shuffles of the pool that are tried.
const DRAWS: usize = 60;

/// A text brought near to a length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fitted {
    /// The text.
    pub text: String,
    /// Characters that it is off by.
    pub off_by: usize,
}

/// Characters, the unit of every length here.
pub(super) fn length(text: &str) -> usize {
    text.chars().count()
}

/// Off by at most this, a draw is taken: 1.5% of the length, 2 characters at least.
fn near_enough(target: usize) -> usize {
    (target * 3 / 200).max(2)
}

/// Follows `head` with sentences from `pool` (each with a space before it) until it is `target` long; with `least` 0 it may stay
/// as it is.
pub(super) fn fill(head: &str, pool: &[&str], least: usize, target: usize, rng: &mut ChaCha8Rng) -> Fitted {
    let mut order: Vec<&str> = pool.to_vec();
    let mut best: Option<(usize, Vec<&str>)> = None;
    let start = length(head);
    for _ in 0..DRAWS {
        order.shuffle(rng);
        let (count, off_by) = best_prefix(&order, start, least, target);
        if best.as_ref().is_none_or(|(best, _)| off_by < *best) {
            best = Some((off_by, order[..count].to_vec()));
        }
        if off_by <= near_enough(target) {
            break;
        }
    }
    let sentences = best.map(|(_, sentences)| sentences).unwrap_or_default();
    let text = sentences.iter().fold(head.to_owned(), |text, sentence| {
        let joint = if text.is_empty() || text.ends_with(['\n', ' ']) { "" } else { " " };
        format!("{text}{joint}{sentence}")
    });
    Fitted { off_by: length(&text).abs_diff(target), text }
}

/// How many leading sentences come nearest to the target, and by how much they miss it.
fn best_prefix(order: &[&str], start: usize, least: usize, target: usize) -> (usize, usize) {
    let mut reached = start;
    let mut best = (0, if least == 0 { start.abs_diff(target) } else { usize::MAX });
    for (index, sentence) in order.iter().enumerate() {
        reached += 1 + length(sentence);
        let count = index + 1;
        if count >= least && reached.abs_diff(target) < best.1 {
            best = (count, reached.abs_diff(target));
        }
        if reached > target {
            break;
        }
    }
    if best.1 == usize::MAX { (least.min(order.len()), target) } else { best }
}

/// The best of several heads, each filled; the first near enough in random order is taken.
pub(super) fn fit(
    heads: &[String],
    pool: &[&str],
    least: usize,
    target: usize,
    rng: &mut ChaCha8Rng,
) -> Option<Fitted> {
    let mut order: Vec<&String> = heads.iter().collect();
    order.shuffle(rng);
    let mut best: Option<Fitted> = None;
    for head in order {
        let fitted = fill(head, pool, least, target, rng);
        let off_by = fitted.off_by;
        if best.as_ref().is_none_or(|best| off_by < best.off_by) {
            best = Some(fitted);
        }
        if off_by <= near_enough(target) {
            break;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::{fill, length};
    use crate::run::seed::Seed;

    const POOL: [&str; 8] = [
        "One.",
        "Two words.",
        "Now there are four.",
        "And here is a longer one still.",
        "Short.",
        "Done now.",
        "A sentence of middling length.",
        "This one is the longest of all the sentences in here.",
    ];

    #[test]
    fn filled_texts_come_near_to_the_target_and_favour_neither_side() {
        let targets = 60..150_usize;
        let mut signed = 0_i64;
        for target in targets.clone() {
            let fitted = fill("This is the body of it.", &POOL, 1, target, &mut Seed(7).stream("fit"));
            let reached = length(&fitted.text);
            assert!(reached.abs_diff(target) <= 3, "{target} {reached}");
            signed += reached as i64 - target as i64;
        }
        assert!(signed.unsigned_abs() < targets.len() as u64, "{signed}");
    }

    #[test]
    fn the_least_number_of_sentences_is_kept() {
        let fitted = fill("Body.", &POOL, 1, 5, &mut Seed(7).stream("fit"));
        assert!(length(&fitted.text) > 5);
    }
}
