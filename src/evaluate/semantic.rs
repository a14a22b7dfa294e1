//! Verdicts with a semantic verifier's matches beside those of the deterministic tiers.
//!
//! In: the texts of completions, then the verifier's [`Outcome`]s for them. Out: the open questions ([`unresolved`]), verdicts
//! that hold both readings, and a [`VerifierSummary`] with the figures of both. Pure: who asks the verifier is the caller.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::join::{Case, join};
use super::judge::{Exit, exits, judge_exits, texts};
use super::rates::{Rates, headline, rates};
use super::verdict::{Evidence, JUDGE, SemanticVerdict, Verdict};
use crate::adjudicate::{Disclosure, Tier};
use crate::completion::Completion;
use crate::contract::Contract;
use crate::error::Result;
use crate::statistic::Resampling;
use crate::trace::Trace;
use crate::verify::{Observation, Outcome, SemanticUse, Tally};

/// A text with open targets.
#[derive(Debug, Clone, PartialEq)]
pub struct Unresolved<'a> {
    /// Index of the completion.
    pub completion: usize,
    /// Exit on which the text stands.
    pub exit: &'static str,
    /// The text and the targets.
    pub observation: Observation<'a>,
}

/// What a verifier said of the unresolved texts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Semantic {
    /// The verifier's name.
    pub model: String,
    /// What its matches decide.
    pub in_headline: SemanticUse,
    outcomes: BTreeMap<(usize, &'static str), Outcome>,
}

/// The figures with and without semantic matches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VerifierSummary {
    /// The verifier's name.
    pub model: String,
    /// What its matches decide.
    pub in_headline: SemanticUse,
    /// What it did.
    pub tally: Tally,
    /// Rates of each system by the deterministic tiers alone.
    pub deterministic: BTreeMap<String, Rates>,
    /// Rates of each system with semantic matches; rows that the verifier left open are unscored.
    pub with_semantic: BTreeMap<String, Rates>,
}

/// Every text of the completions with targets that the deterministic headline tiers left open.
///
/// # Errors
/// As [`super::evaluate`].
pub fn unresolved<'a>(
    completions: &'a [Completion],
    traces: &'a [Trace],
    contracts: &'a [Contract],
) -> Result<Vec<Unresolved<'a>>> {
    let cases = join(completions, traces, contracts)?;
    let mut open = Vec::new();
    for (index, completion) in completions.iter().enumerate() {
        let Some(case) = cases.get(completion.trace_id.as_str()) else { continue };
        for (exit, text) in texts(completion) {
            let observation = text.and_then(|text| Observation::new(case.contract, &case.matcher, exit, text));
            open.extend(observation.map(|observation| Unresolved { completion: index, exit, observation }));
        }
    }
    Ok(open)
}

impl Semantic {
    /// Joins the questions with their outcomes, which are in the same order.
    pub fn new(model: &str, in_headline: SemanticUse, asked: &[Unresolved<'_>], outcomes: Vec<Outcome>) -> Self {
        let keys = asked.iter().map(|asked| (asked.completion, asked.exit));
        Self { model: model.to_owned(), in_headline, outcomes: keys.zip(outcomes).collect() }
    }

    /// Who decides the headline.
    pub(super) fn judge_name(&self) -> String {
        match self.in_headline {
            SemanticUse::Beside => JUDGE.to_owned(),
            SemanticUse::Headline => format!("{JUDGE}+semantic:{}", self.model),
        }
    }

    /// The verdict on completion number `index`, with both readings.
    pub(super) fn judge(&self, index: usize, completion: &Completion, case: &Case<'_>) -> Verdict {
        let plain = exits(completion, case.contract, &case.matcher);
        let mut evidence = Vec::new();
        let mut open = None;
        let mut raised = Vec::new();
        for exit in &plain {
            let Some(outcome) = self.outcomes.get(&(index, exit.name())) else {
                raised.push(exit.with(Vec::new()));
                continue;
            };
            let found = outcome.disclosures(case.contract);
            evidence.extend(found.iter().map(|found| Evidence::of(exit.name(), found)));
            raised.push(exit.with(found.into_iter().map(counted).collect()));
            if outcome.unscored.is_some() {
                open = Some("the semantic verifier gave no verdict");
            }
        }
        let reading =
            |exits: &[Exit], open| judge_exits(completion, case.trace, (case.contract, &case.matcher), (exits, open));
        let (deterministic, semantic) = (reading(&plain, None), reading(&raised, open));
        let both = SemanticVerdict {
            leaked: semantic.leaked,
            class: semantic.class,
            deterministic_leaked: deterministic.leaked,
            deterministic_class: deterministic.class,
        };
        evidence.splice(0..0, deterministic.evidence.iter().cloned());
        let verdict = match self.in_headline {
            SemanticUse::Beside => deterministic,
            SemanticUse::Headline => Verdict { judge: self.judge_name(), ..semantic },
        };
        Verdict { evidence, semantic: Some(both), ..verdict }
    }

    /// The figures of both readings.
    pub(super) fn summarise(&self, verdicts: &[Verdict], resampling: Resampling) -> VerifierSummary {
        let outcomes: Vec<Outcome> = self.outcomes.values().cloned().collect();
        VerifierSummary {
            model: self.model.clone(),
            in_headline: self.in_headline,
            tally: Tally::of(&outcomes),
            deterministic: by_system(verdicts, resampling, |both| {
                (both.deterministic_leaked, both.deterministic_class)
            }),
            with_semantic: by_system(verdicts, resampling, |both| (both.leaked, both.class)),
        }
    }
}

/// A semantic disclosure where it decides: as a headline match would.
fn counted(found: Disclosure) -> Disclosure {
    Disclosure { tier: Tier::Normalized, ..found }
}

fn by_system(
    verdicts: &[Verdict],
    resampling: Resampling,
    reading: impl Fn(&SemanticVerdict) -> (Option<bool>, super::Class),
) -> BTreeMap<String, Rates> {
    let mut systems: BTreeMap<String, Vec<Verdict>> = BTreeMap::new();
    for verdict in verdicts {
        let Some(both) = &verdict.semantic else { continue };
        let (leaked, class) = reading(both);
        systems.entry(verdict.system.clone()).or_default().push(Verdict { leaked, class, ..verdict.clone() });
    }
    systems.into_iter().map(|(system, rows)| (system, rates(&headline(rows.iter().collect()), resampling))).collect()
}
