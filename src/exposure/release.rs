//! A release's own leak labels against our matches: how far they agree, and why they do not.
//!
//! In: an observation, the matches in it, and the release's [`ReleaseLabel`]. Out: a [`LabelComparison`] over all of them, with
//! every disagreement by field and [`Kind`].

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::adjudicate::{Match, Tier};
use crate::contract::{Contract, Target};
use crate::observation::{Observation, ReleaseLabel, Status};
use crate::statistic::Confusion;

/// Letters from which a word of a value could be what a substring search found.
const PART: usize = 4;

/// Why a field is on one side only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Theirs: the call failed, so we score nothing.
    Unscored,
    /// Theirs: no target has this field; it is allowed, was left out, or equals an allowed value.
    NoTarget,
    /// Theirs: the value stands only inside a longer word or number.
    InsideLongerWord,
    /// Theirs: only a part of the value is there.
    PartOfValue,
    /// Theirs: neither the value nor a word of it is there.
    NotThere,
    /// Ours: the value differs in case, format or spacing from what is written.
    AnotherForm,
    /// Ours: the value has three letters or fewer, which the release does not search.
    ShortValue,
    /// Ours: one entry of a list, which the release searches whole.
    EntryOfList,
    /// Ours: the value as declared, which the release does not list.
    Unlisted,
}

/// A field on one side only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabelDisagreement {
    /// The session.
    pub session_id: String,
    /// Event index.
    pub index: u64,
    /// The channel.
    pub channel: String,
    /// The field; never its value.
    pub field: String,
    /// Who has it: `ours` or `release`.
    pub only: String,
    /// Why.
    pub kind: Kind,
}

/// Agreement of matches with a release's labels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LabelComparison {
    /// Observations that have a label.
    pub observations: u64,
    /// Of those: scored.
    pub scored: u64,
    /// Labels without an observation.
    pub unmatched_labels: u64,
    /// Release (`leak`, `none`), then ours, over the scored observations.
    pub confusion: BTreeMap<String, u64>,
    /// Share of scored observations with the same answer.
    pub raw_agreement: Option<f64>,
    /// Cohen's kappa.
    pub kappa: Option<f64>,
    /// F1 of ours as a prediction of the release's.
    pub f1: Option<f64>,
    /// Fields on both sides.
    pub fields_both: u64,
    /// Fields on one side, by side and reason.
    pub fields_only: BTreeMap<String, BTreeMap<Kind, u64>>,
    /// By channel: release says leak, we say leak, both.
    pub by_channel: BTreeMap<String, [u64; 3]>,
}

/// Collects comparisons.
#[derive(Debug, Default)]
pub struct LabelLedger {
    labels: BTreeMap<(String, u64), ReleaseLabel>,
    observations: u64,
    scored: u64,
    table: Confusion,
    fields_both: u64,
    by_channel: BTreeMap<String, [u64; 3]>,
    /// Everything that differs.
    pub disagreements: Vec<LabelDisagreement>,
}

impl LabelLedger {
    /// Starts with the labels of a release.
    pub fn new(labels: Vec<ReleaseLabel>) -> Self {
        let labels = labels.into_iter().map(|label| ((label.session_id.clone(), label.index), label)).collect();
        Self { labels, ..Self::default() }
    }

    /// Compares one observation; `text` is what was searched.
    pub fn compare(&mut self, observation: &Observation, contract: &Contract, text: &str, matches: &[Match]) {
        let Some(index) = observation.index else { return };
        let Some(label) = self.labels.remove(&(observation.session_id.clone(), index)) else { return };
        self.observations += 1;
        let ours: BTreeMap<&str, &Match> = matches
            .iter()
            .filter(|found| found.tier.is_headline())
            .filter_map(|found| Some((field(contract.target(&found.target_id)?), found)))
            .collect();
        let theirs: BTreeSet<&str> = label.leaked_fields.iter().map(String::as_str).collect();
        if observation.status == Status::Ok {
            self.scored += 1;
            let answer = |leak: bool| if leak { "leak" } else { "none" };
            self.table.add(answer(label.has_leak), answer(!ours.is_empty()), 1);
            let counts = self.by_channel.entry(observation.channel.clone()).or_default();
            let both = label.has_leak && !ours.is_empty();
            for (count, yes) in counts.iter_mut().zip([label.has_leak, !ours.is_empty(), both]) {
                *count += u64::from(yes);
            }
        }
        let row = |field: &str, only: &str, kind: Kind| LabelDisagreement {
            session_id: observation.session_id.clone(),
            index,
            channel: observation.channel.clone(),
            field: field.to_owned(),
            only: only.to_owned(),
            kind,
        };
        for name in &theirs {
            if ours.contains_key(name) {
                self.fields_both += 1;
                continue;
            }
            let kind =
                if observation.status == Status::Ok { theirs_only(contract, name, text) } else { Kind::Unscored };
            self.disagreements.push(row(name, "release", kind));
        }
        for (name, found) in ours.iter().filter(|(name, _)| !theirs.contains(*name)) {
            self.disagreements.push(row(name, "ours", ours_only(contract, found)));
        }
    }

    /// The figures.
    pub fn finish(&self) -> LabelComparison {
        let mut fields_only: BTreeMap<String, BTreeMap<Kind, u64>> = BTreeMap::new();
        for row in &self.disagreements {
            *fields_only.entry(row.only.clone()).or_default().entry(row.kind).or_default() += 1;
        }
        LabelComparison {
            observations: self.observations,
            scored: self.scored,
            unmatched_labels: self.labels.len() as u64,
            confusion: self.table.iter().map(|(a, b, count)| (format!("{a}/{b}"), count)).collect(),
            raw_agreement: self.table.raw(),
            kappa: self.table.kappa(),
            f1: self.table.strict("leak").f1,
            fields_both: self.fields_both,
            fields_only,
            by_channel: self.by_channel.clone(),
        }
    }
}

/// The field that a target was made from.
fn field(target: &Target) -> &str {
    target.provenance.field.as_deref().unwrap_or(&target.target_id)
}

fn theirs_only(contract: &Contract, name: &str, text: &str) -> Kind {
    let targets: Vec<&Target> = contract.targets.iter().filter(|target| field(target) == name).collect();
    if targets.is_empty() {
        return Kind::NoTarget;
    }
    let text = text.to_lowercase();
    if targets.iter().any(|target| text.contains(&target.value.to_lowercase())) {
        return Kind::InsideLongerWord;
    }
    let has_part = |target: &&Target| {
        let value = target.value.to_lowercase();
        let words = value.split(|character: char| !character.is_alphanumeric());
        words.filter(|word| word.chars().count() >= PART).any(|word| text.contains(word))
    };
    if targets.iter().any(has_part) { Kind::PartOfValue } else { Kind::NotThere }
}

fn ours_only(contract: &Contract, found: &Match) -> Kind {
    let target = contract.target(&found.target_id);
    if found.tier != Tier::Exact {
        Kind::AnotherForm
    } else if target.is_some_and(|target| target.value.chars().count() < PART) {
        Kind::ShortValue
    } else if found.target_id.contains('/') {
        Kind::EntryOfList
    } else {
        Kind::Unlisted
    }
}

/// The figures for a terminal.
pub fn text_labels(comparison: &LabelComparison) -> String {
    use std::fmt::Write as _;
    let share = |value: Option<f64>| value.map_or("n/a".to_owned(), |value| format!("{value:.3}"));
    let mut out = format!(
        "release labels: {} observations, {} scored; raw agreement {}, kappa {}, F1 {}\n",
        comparison.observations,
        comparison.scored,
        share(comparison.raw_agreement),
        share(comparison.kappa),
        share(comparison.f1)
    );
    for (pair, count) in &comparison.confusion {
        let _ = writeln!(out, "  release/ours {pair}: {count}");
    }
    for (channel, [release, ours, both]) in &comparison.by_channel {
        let _ = writeln!(out, "  {channel}: release {release}, ours {ours}, both {both}");
    }
    let _ = writeln!(out, "  fields on both sides: {}", comparison.fields_both);
    for (side, kinds) in &comparison.fields_only {
        let counts: Vec<String> = kinds.iter().map(|(kind, count)| format!("{kind:?} {count}")).collect();
        let _ = writeln!(out, "  fields of {side} only: {}", counts.join(", "));
    }
    out
}
