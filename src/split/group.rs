//! Groups of scenarios too alike to be told apart in an evaluation.
//!
//! In: scenarios. Out: groups by name (the base id of their first member), and the links that made them.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::Scenario;
use super::shingle::{Shingles, words};
use crate::trace::{Part, Trace};

/// Jaccard similarity of 5-word shingles from which two texts count as near-duplicates. The less text, the higher the bar.
const FULL_TEXT: f64 = 0.20;
const GOAL_AND_TOOLS: f64 = 0.30;
const CONCLUSION: f64 = 0.45;

/// Why two scenarios stay together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// Base id of the one.
    pub a: String,
    /// Base id of the other.
    pub b: String,
    /// What they share.
    pub reason: Reason,
    /// Jaccard similarity, where that is the reason.
    pub similarity: Option<f64>,
}

/// What two scenarios share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// The input put them in one group already.
    GivenGroup,
    /// The same conclusion in the same words.
    SameConclusion,
    /// The same name: an account, an organisation.
    SharedEntity,
    /// Near-duplicate conclusions.
    Conclusion,
    /// Near-duplicate goals and tools.
    GoalAndTools,
    /// Near-duplicates as a whole.
    FullText,
}

impl Reason {
    /// The name used in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::GivenGroup => "given-group",
            Self::SameConclusion => "same-conclusion",
            Self::SharedEntity => "shared-entity",
            Self::Conclusion => "conclusion",
            Self::GoalAndTools => "goal-and-tools",
            Self::FullText => "full-text",
        }
    }
}

/// All groups by name, members in input order, and the links behind them.
pub(super) fn groups(scenarios: &[Scenario<'_>]) -> (BTreeMap<String, Vec<usize>>, Vec<Link>) {
    let texts: Vec<Texts> = scenarios.iter().map(|scenario| Texts::of(scenario.trace)).collect();
    let mut parents: Vec<usize> = (0..scenarios.len()).collect();
    let mut links = Vec::new();
    for second in 0..scenarios.len() {
        for first in 0..second {
            // Nothing is decided between traces that may only be trained on; there can be thousands.
            if [first, second].iter().all(|&index| scenarios[index].pinned == Some(Part::Train)) {
                continue;
            }
            let given = scenarios[first].given.iter().any(|group| scenarios[second].given.contains(group));
            let shared = if given { Some((Reason::GivenGroup, None)) } else { texts[first].likeness(&texts[second]) };
            if let Some((reason, similarity)) = shared {
                let (one, other) = (root(&parents, first), root(&parents, second));
                parents[one.max(other)] = one.min(other);
                links.push(Link {
                    a: scenarios[first].base_id.to_owned(),
                    b: scenarios[second].base_id.to_owned(),
                    reason,
                    similarity,
                });
            }
        }
    }
    let mut groups: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for index in 0..scenarios.len() {
        let name = scenarios[root(&parents, index)].base_id.to_owned();
        groups.entry(name).or_default().push(index);
    }
    (groups, links)
}

fn root(parents: &[usize], mut index: usize) -> usize {
    while parents[index] != index {
        index = parents[index];
    }
    index
}

/// A scenario's texts, cut for comparison.
struct Texts {
    entities: BTreeSet<String>,
    conclusion_words: Vec<String>,
    conclusion: Shingles,
    goal_and_tools: Shingles,
    full_text: Shingles,
}

impl Texts {
    fn of(trace: &Trace) -> Self {
        let tools = || trace.tools.iter().flat_map(|tool| [&*tool.name, &*tool.description, &*tool.return_text]);
        let prose = [
            Some(&trace.sensitive_conclusion),
            trace.success_criteria.as_ref(),
            trace.disclosure_criteria.as_ref(),
            trace.inference_chain.as_ref(),
        ];
        let goal = || std::iter::once(trace.goal.as_str());
        Self {
            entities: entities(trace),
            conclusion_words: words(&trace.sensitive_conclusion),
            conclusion: Shingles::of([trace.sensitive_conclusion.as_str()]),
            goal_and_tools: Shingles::of(goal().chain(tools())),
            full_text: Shingles::of(goal().chain(tools()).chain(prose.into_iter().flatten().map(String::as_str))),
        }
    }

    fn likeness(&self, other: &Self) -> Option<(Reason, Option<f64>)> {
        if self.conclusion_words == other.conclusion_words {
            return Some((Reason::SameConclusion, None));
        }
        if !self.entities.is_disjoint(&other.entities) {
            return Some((Reason::SharedEntity, None));
        }
        let bars = [
            (Reason::Conclusion, &self.conclusion, &other.conclusion, CONCLUSION),
            (Reason::GoalAndTools, &self.goal_and_tools, &other.goal_and_tools, GOAL_AND_TOOLS),
            (Reason::FullText, &self.full_text, &other.full_text, FULL_TEXT),
        ];
        bars.into_iter().find_map(|(reason, one, two, bar)| {
            let similarity = one.similarity(two);
            (similarity >= bar).then_some((reason, Some(similarity)))
        })
    }
}

/// Names that make two scenarios about one thing: handles (`NightOwl42`) in conclusion and criteria, and runs of capitalised
/// words inside the conclusion's sentence. Criteria list their terms in title case, so runs there mean nothing.
fn entities(trace: &Trace) -> BTreeSet<String> {
    let criteria = trace.disclosure_criteria.as_deref().unwrap_or_default();
    let conclusion = trace.sensitive_conclusion.as_str();
    let tokens = |text: &'_ str| -> Vec<String> {
        text.split(|character: char| !character.is_alphanumeric()).map(str::to_owned).collect()
    };
    let mut entities: BTreeSet<String> =
        tokens(criteria).into_iter().chain(tokens(conclusion)).filter(|token| is_handle(token)).collect();
    let mut run: Vec<String> = Vec::new();
    for word in tokens(conclusion).into_iter().skip(1).chain(std::iter::once(String::new())) {
        if word.starts_with(char::is_uppercase) && word.chars().count() > 2 {
            run.push(word);
            continue;
        }
        if run.len() > 1 {
            entities.insert(run.join(" "));
        }
        run.clear();
    }
    entities
}

/// Letters of both cases and digits, long enough to be nobody else's.
fn is_handle(token: &str) -> bool {
    token.chars().count() >= 8
        && token.chars().any(char::is_numeric)
        && token.chars().any(char::is_uppercase)
        && token.chars().any(char::is_lowercase)
}
