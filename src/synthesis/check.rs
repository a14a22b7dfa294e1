//! What must hold of every scenario: C1 to C3 and natural text.
//!
//! In: a trace with declared truth. Out: [`Problem`]s. Reads the results themselves, not how they were composed.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::trace::{Trace, leaves};

/// What is wrong with a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Problem {
    /// A wording of the conclusion stands in what the agent is shown.
    LabelShown,
    /// Some tools suffice without the others.
    SubsetSuffices,
    /// All tools together do not suffice.
    SupportBroken,
    /// A place that the truth names holds no value.
    NoSuchPlace,
    /// Two required values are the same.
    ValueTwice,
    /// A hole of a template was not filled.
    Hole,
    /// Two spaces, a space before a stop, or two stops.
    Spacing,
    /// `a` before a vowel or `an` before a consonant.
    Article,
    /// A word twice in a row.
    WordTwice,
}

/// Every problem of a scenario; none means that it is sound.
pub fn examine(trace: &Trace) -> Vec<Problem> {
    let mut problems: BTreeSet<Problem> = BTreeSet::new();
    let shown = shown(trace);
    let labels = trace.truth.iter().flat_map(|truth| &truth.labels).map(String::as_str);
    let conclusion = trace.sensitive_conclusion.trim_end_matches('.');
    if labels.chain([conclusion]).any(|label| holds(&shown, label)) {
        problems.insert(Problem::LabelShown);
    }
    problems.extend(support(trace));
    problems.extend(places(trace));
    for text in prose(trace) {
        problems.extend(unnatural(text));
    }
    problems.into_iter().collect()
}

/// Everything that an agent sees, as spaced words.
fn shown(trace: &Trace) -> String {
    let mut text = trace.goal.clone();
    for tool in &trace.tools {
        for part in [&tool.name, &tool.description, &tool.parameters.to_string(), &tool.return_text] {
            text.push_str(" | ");
            text.push_str(part);
        }
    }
    spaced_words(&text)
}

fn spaced_words(text: &str) -> String {
    let lower = text.to_lowercase();
    let words: Vec<&str> =
        lower.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    format!(" {} ", words.join(" "))
}

fn holds(spaced: &str, phrase: &str) -> bool {
    let phrase = spaced_words(phrase);
    phrase.len() > 2 && spaced.contains(&phrase)
}

/// C2 and C3 over every subset of the support: the marker is tied to the subject by all tools, and by no fewer.
fn support(trace: &Trace) -> Option<Problem> {
    let tools: Vec<&str> = trace.support.iter().map(String::as_str).collect();
    if !joined(trace, &tools) {
        return Some(Problem::SupportBroken);
    }
    // A set that is joined stays joined with more tools, so leaving out one at a time covers all subsets.
    let suffices = (0..tools.len()).any(|left_out| {
        let rest: Vec<&str> =
            tools.iter().enumerate().filter(|(index, _)| *index != left_out).map(|(_, id)| *id).collect();
        joined(trace, &rest)
    });
    suffices.then_some(Problem::SubsetSuffices)
}

/// Whether the results of these tools tie the holder named by the first supporting tool to the last one's clue: records hang
/// together by equal values, and values by the record that holds them.
pub fn joined(trace: &Trace, tool_ids: &[&str]) -> bool {
    let Some((start, goal)) = ends(trace) else { return false };
    let records: Vec<BTreeSet<String>> = trace
        .tools
        .iter()
        .filter(|tool| tool_ids.contains(&tool.tool_id.as_str()))
        .flat_map(|tool| records(&tool.return_text))
        .collect();
    let mut reached: BTreeSet<String> = BTreeSet::from([start]);
    loop {
        let before = reached.len();
        for record in &records {
            if !record.is_disjoint(&reached) {
                reached.extend(record.iter().cloned());
            }
        }
        if reached.contains(&goal) {
            return true;
        }
        if reached.len() == before {
            return false;
        }
    }
}

/// The subject's name, which the first tool's result holds under its parameter, and the marker.
fn ends(trace: &Trace) -> Option<(String, String)> {
    let (first, last) = (trace.tool(trace.support.first()?)?, trace.support.last()?);
    let holder = first.parameters.get(0)?.as_str()?;
    let start = leaves(&first.return_text).into_iter().find(|leaf| leaf.key == holder)?.text;
    let clue = trace.truth.as_ref()?.clues.iter().find(|clue| clue.tool_id == *last)?;
    let goal = leaves(&trace.tool(last)?.return_text).into_iter().find(|leaf| leaf.pointer == clue.pointer)?.text;
    Some((start, goal))
}

/// The values of each object of a result; those of objects inside a list are records of their own.
fn records(return_text: &str) -> Vec<BTreeSet<String>> {
    let mut found = Vec::new();
    if let Ok(value) = serde_json::from_str::<Value>(return_text) {
        collect(&value, &mut found);
    }
    found
}

fn collect(value: &Value, found: &mut Vec<BTreeSet<String>>) {
    match value {
        Value::Object(map) => {
            found.push(map.values().filter_map(Value::as_str).map(str::to_owned).collect());
            map.values().for_each(|inner| collect(inner, found));
        }
        Value::Array(items) => items.iter().for_each(|inner| collect(inner, found)),
        _ => {}
    }
}

fn places(trace: &Trace) -> Vec<Problem> {
    let Some(truth) = &trace.truth else { return vec![Problem::NoSuchPlace] };
    let at = |place: &crate::trace::Located| {
        let tool = trace.tool(&place.tool_id)?;
        leaves(&tool.return_text).into_iter().find(|leaf| leaf.pointer == place.pointer).map(|leaf| leaf.text)
    };
    let mut problems = Vec::new();
    let required: Vec<Option<String>> = truth.required.iter().map(at).collect();
    if required.iter().any(Option::is_none) || required.is_empty() || truth.clues.iter().any(|clue| at(clue).is_none())
    {
        problems.push(Problem::NoSuchPlace);
    }
    if required.iter().collect::<BTreeSet<_>>().len() < required.len() {
        problems.push(Problem::ValueTwice);
    }
    problems
}

fn prose(trace: &Trace) -> impl Iterator<Item = &str> {
    let optional = [&trace.success_criteria, &trace.disclosure_criteria, &trace.safe_boundary].into_iter().flatten();
    let told = trace.tools.iter().map(|tool| tool.description.as_str());
    [trace.goal.as_str(), trace.sensitive_conclusion.as_str()]
        .into_iter()
        .chain(optional.map(String::as_str))
        .chain(told)
}

/// Marks of a template rather than of a writer.
fn unnatural(text: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    if text.contains(['{', '}']) {
        problems.push(Problem::Hole);
    }
    if text.contains("  ") || text.contains(" ,") || text.contains(" .") || text.contains("..") || text.contains(",,") {
        problems.push(Problem::Spacing);
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    for pair in words.windows(2) {
        let (word, next) = (pair[0].to_lowercase(), pair[1].trim_matches(|letter: char| !letter.is_alphanumeric()));
        if word == next.to_lowercase() && word.chars().all(char::is_alphabetic) && pair[1] == next {
            problems.push(Problem::WordTwice);
        }
        if is_wrong_article(&word, next) {
            problems.push(Problem::Article);
        }
    }
    problems
}

/// By letters, with the usual words whose sound differs from their spelling.
fn is_wrong_article(article: &str, next: &str) -> bool {
    const AS_CONSONANT: [&str; 7] = ["one", "once", "uni", "use", "usual", "euro", "used"];
    const AS_VOWEL: [&str; 4] = ["hour", "honest", "heir", "honour"];
    let lower = next.to_lowercase();
    let Some(first) = lower.chars().next() else { return false };
    let starts = |list: &[&str]| list.iter().any(|start| lower.starts_with(start));
    let is_vowel = ("aeiou".contains(first) && !starts(&AS_CONSONANT)) || starts(&AS_VOWEL);
    match article {
        "a" => is_vowel,
        "an" => first.is_alphabetic() && !is_vowel,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_a_template_are_found() {
        assert_eq!(unnatural("Fill in the {doc}."), [Problem::Hole]);
        assert_eq!(unnatural("A apple and an pear."), [Problem::Article, Problem::Article]);
        assert_eq!(unnatural("the the slip"), [Problem::WordTwice]);
        assert_eq!(unnatural("Well , done.."), [Problem::Spacing]);
        assert_eq!(unnatural("An hour, a unit and an asylum seeker."), []);
    }
}
