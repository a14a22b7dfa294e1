//! Length matching: preference training must not learn that the better answer is the longer one, so every answer of a trace is
//! filled up to one length with sentences from a pool.
//!
//! In: a length to reach, a pool of sentences and a generator. Out: sentences whose joined length comes as near as it can.
//! Draws are taken in random order and the first one near enough on either side wins, so that no side is favoured.

use rand::RngExt as _;
use rand::seq::SliceRandom as _;
use rand_chacha::ChaCha8Rng;

/// Shuffles of the pool that are tried, and how many sentences each may take: an answer that ends in many short sentences reads as
/// filled up, so more of them are taken only where fewer do not reach the length.
const DRAWS: [(usize, usize); 2] = [(60, 2), (60, usize::MAX)];

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
    let lengths: Vec<usize> = pool.iter().map(|sentence| length(sentence)).collect();
    let mut order: Vec<usize> = (0..pool.len()).collect();
    let mut best: Option<(usize, Vec<usize>)> = None;
    let start = length(head);
    // A head that is long enough as it is gets no better by more draws.
    let is_done = least == 0 && start >= target;
    let draws = DRAWS.iter().flat_map(|(draws, most)| std::iter::repeat_n((*most).max(least), *draws));
    for most in draws.take(if is_done { 1 } else { usize::MAX }) {
        let (count, off_by) = draw(&mut order, &lengths, (start, target), (least, most), rng);
        if best.as_ref().is_none_or(|(best, _)| off_by < *best) {
            best = Some((off_by, order[..count].to_vec()));
        }
        if off_by <= near_enough(target) {
            break;
        }
    }
    let mut text = head.to_owned();
    for index in best.map(|(_, sentences)| sentences).unwrap_or_default() {
        if !text.is_empty() && !text.ends_with(['\n', ' ']) {
            text.push(' ');
        }
        text.push_str(pool[index]);
    }
    Fitted { off_by: length(&text).abs_diff(target), text }
}

/// Draws sentences until the target is passed or there are enough; how many leading ones come nearest to it, and by how much they miss it. Of the
/// pool only what is drawn is shuffled to the front.
fn draw(
    order: &mut [usize],
    lengths: &[usize],
    (start, target): (usize, usize),
    (least, most): (usize, usize),
    rng: &mut ChaCha8Rng,
) -> (usize, usize) {
    let mut reached = start;
    let mut best = (0, if least == 0 { start.abs_diff(target) } else { usize::MAX });
    for index in 0..order.len().min(most) {
        if reached > target && index >= least {
            break;
        }
        order.swap(index, rng.random_range(index..order.len()));
        reached += 1 + lengths[order[index]];
        let count = index + 1;
        if count >= least && reached.abs_diff(target) < best.1 {
            best = (count, reached.abs_diff(target));
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
    fn no_more_sentences_are_taken_than_reach_the_length() {
        let one = length("Body. This one is the longest of all the sentences in here.");
        for seed in 0..20 {
            let fitted = fill("Body.", &POOL, 1, one, &mut Seed(seed).stream("fit"));
            assert!(fitted.text.matches('.').count() <= 3, "{}", fitted.text);
        }
    }

    #[test]
    fn the_least_number_of_sentences_is_kept() {
        let fitted = fill("Body.", &POOL, 1, 5, &mut Seed(7).stream("fit"));
        assert!(length(&fitted.text) > 5);
    }
}
