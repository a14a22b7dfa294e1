//! Copying exercises: short requests for a few entries of small results, answered with those entries and nothing else.
//!
//! In: how many, and a seed. Out: SFT rows. A model from nothing learns on them to repeat what the results hold, at a fraction
//! of the tokens that whole scenarios take; they hold no conclusion and no person's affairs.

use rand::RngExt as _;
use rand::seq::{IndexedRandom as _, SliceRandom as _};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use serde_json::{Map, Value};

use crate::dataset::{Message, SftRow, Stage};
use crate::error::Result;
use crate::prompt::request_with_results;
use crate::run::seed::Seed;
use crate::synthesis::{Item, Items, spaced};
use crate::trace::Part;

use super::fact::{Fact, fact};
use super::frame::Frame;
use super::label::listed;

/// The writer's name in rows.
const WRITER: &str = "drill";
/// Fewest and most entries of the results.
const ENTRIES: std::ops::RangeInclusive<usize> = 2..=7;
/// Most entries that are asked for.
const ASKED: usize = 3;
/// Share of exercises that ask for the results as they stand, the plainest form of copying.
const VERBATIM: f64 = 0.3;
const VERBS: [&str; 5] = ["Find the", "Collect the", "Give me the", "Put together the", "I need the"];

/// Rows of `count` exercises with values of the training part.
///
/// # Errors
/// A library that does not parse.
pub(super) fn drills(count: usize, seed: Seed) -> Result<Vec<SftRow>> {
    let items = Items::new(Some(Part::Train))?;
    Ok((0..count).into_par_iter().map(|index| drill(&items, &mut seed.stream(&format!("drill/{index}")))).collect())
}

fn drill(items: &Items, rng: &mut ChaCha8Rng) -> SftRow {
    let count = rng.random_range(ENTRIES);
    let drawn = items.draw(count, rng);
    let results = drawn.chunks(rng.random_range(1..=drawn.len().max(1)));
    let texts: Vec<String> = results.clone().map(object).collect();
    let facts: Vec<(Fact, &str)> = results
        .enumerate()
        .flat_map(|(tool, entries)| entries.iter().map(move |entry| (tool, entry)))
        .map(|(tool, entry)| (fact(&format!("T{}", tool + 1), &format!("/{}", entry.key), &entry.value), &*entry.ask))
        .collect();
    if rng.random_bool(VERBATIM) {
        return row("Repeat the results.", &texts, texts.join("\n"));
    }
    let mut asked: Vec<usize> = (0..facts.len()).collect();
    asked.shuffle(rng);
    asked.truncate(rng.random_range(1..=ASKED));
    asked.sort_unstable();
    let names: Vec<String> = asked.iter().map(|&at| facts[at].1.to_owned()).collect();
    let shown: Vec<Fact> = asked.iter().map(|&at| facts[at].0.clone()).collect();
    let verb = VERBS.choose(rng).copied().unwrap_or(VERBS[0]);
    let frame = Frame::ALL.choose(rng).copied().unwrap_or(Frame::Inline);
    row(&format!("{verb} {}.", listed(&names)), &texts, frame.render(&shown))
}

fn row(request: &str, results: &[String], answer: String) -> SftRow {
    let prompt = request_with_results(request, results.iter().map(String::as_str));
    SftRow {
        messages: vec![Message::user(prompt), Message::assistant(answer)],
        trace_id: None,
        split: Some(Part::Train),
        writer: Some(WRITER.to_owned()),
        stage: Some(Stage::Response),
        audit: None,
    }
}

/// As the results of whole scenarios are written.
fn object(entries: &[Item]) -> String {
    let members: Map<String, Value> =
        entries.iter().map(|entry| (entry.key.clone(), Value::String(entry.value.clone()))).collect();
    spaced(&Value::Object(members))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exercise_is_answered_with_values_of_its_results_and_is_the_same_for_the_same_seed() {
        let rows = drills(40, Seed(3)).unwrap();
        assert_eq!(rows, drills(40, Seed(3)).unwrap());
        assert_ne!(rows, drills(40, Seed(4)).unwrap());
        for row in &rows {
            let [prompt, answer] = row.messages.as_slice() else { panic!("two turns") };
            let results = prompt.content.split_once("Tool results:\n").unwrap().1;
            let objects: Vec<Map<String, Value>> =
                results.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            let values = objects.iter().flat_map(|object| object.values().map(|value| value.as_str().unwrap()));
            assert!(values.filter(|value| answer.content.contains(value)).count() >= 1, "{row:?}");
        }
    }
}
