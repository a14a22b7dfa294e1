//! Figures of a build, for the manifest and the card.
//!
//! In: [`Built`]. Out: [`Counts`].

use std::collections::BTreeMap;

use serde::Serialize;

use crate::dataset::{Message, PairKind, Stage};
use crate::trace::{Domain, Trace};

use super::fit::length;
use super::separate::{Answers, Separability, separability};
use super::{Built, Quarantined};

/// What a build counts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Counts {
    /// Traces read.
    pub traces: usize,
    /// Held-out traces: no row is written for them.
    pub held_out: usize,
    /// Traces with SFT rows.
    pub usable: usize,
    /// SFT rows by stage.
    pub sft: BTreeMap<&'static str, usize>,
    /// Pairs by kind.
    pub pairs: BTreeMap<&'static str, usize>,
    /// Traces out as a whole, by reason.
    pub traces_out: BTreeMap<&'static str, usize>,
    /// Pairs out of usable traces, by kind and reason.
    pub pairs_out: BTreeMap<String, usize>,
    /// Failed checks behind the reason `audit`.
    pub failed_checks: BTreeMap<&'static str, usize>,
    /// Usable traces by domain.
    pub domains: BTreeMap<&'static str, usize>,
    /// Usable traces by difficulty.
    pub difficulties: BTreeMap<&'static str, usize>,
    /// Lengths in characters, by kind of answer.
    pub lengths: BTreeMap<&'static str, Lengths>,
    /// How far naive models tell chosen from rejected, by kind; absent where there are too few pairs.
    pub separability: BTreeMap<&'static str, Separability>,
}

/// Lengths of one kind of answer in characters.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Lengths {
    /// Answers.
    pub n: usize,
    /// Mean length.
    pub mean: f64,
    /// Mean of (length - chosen length) over the chosen length; absent for chosen answers.
    pub signed_difference: Option<f64>,
    /// Largest absolute difference over the chosen length.
    pub largest_difference: Option<f64>,
}

impl Counts {
    /// Counts a build of these traces.
    pub fn of(built: &Built, traces: &[Trace]) -> Self {
        let by_id: BTreeMap<&str, &Trace> = traces.iter().map(|trace| (trace.trace_id.as_str(), trace)).collect();
        let responses =
            || built.sft.iter().map(crate::audit::Audited::row).filter(|row| row.stage == Some(Stage::Response));
        let usable: Vec<&Trace> = responses().filter_map(|row| by_id.get(row.trace_id.as_deref()?).copied()).collect();
        let sft = [("selection", Stage::Selection), ("response", Stage::Response)]
            .map(|(name, stage)| (name, built.sft.iter().filter(|row| row.row().stage == Some(stage)).count()));
        let kinds = PairKind::ALL
            .map(|kind| (kind.name(), built.pairs.iter().filter(|pair| pair.row().kind == Some(kind)).count()));
        let whole = |entry: &&Quarantined| entry.kind.is_none();
        let kind_of = |entry: &Quarantined| Some(format!("{}: {}", entry.kind?.name(), entry.reason.name()));
        Self {
            traces: built.traces,
            held_out: built.held_out,
            usable: usable.len(),
            sft: sft.into_iter().collect(),
            pairs: kinds.into_iter().collect(),
            traces_out: tally(built.quarantine.iter().filter(whole).map(|entry| entry.reason.name())),
            pairs_out: tally(built.quarantine.iter().filter_map(kind_of)),
            failed_checks: tally(built.quarantine.iter().flat_map(|entry| &entry.checks).map(|check| check.name())),
            domains: tally(usable.iter().map(|trace| trace.domain.code())),
            difficulties: tally(usable.iter().map(|trace| trace.difficulty.map_or("unknown", |level| level.code()))),
            lengths: lengths(built, responses().filter_map(|row| row.messages.last()).collect()),
            separability: PairKind::ALL
                .into_iter()
                .filter_map(|kind| Some((kind.name(), separable(built, kind)?)))
                .collect(),
        }
    }

    /// Quarantine and rows as a short text.
    pub fn text(&self) -> String {
        let line = |name: &str, counts: String| format!("  {name:<14}{counts}");
        let mut lines = vec![
            format!("{} traces, {} held out, {} usable", self.traces, self.held_out, self.usable),
            line("SFT rows", joined(&self.sft)),
            line("pairs", joined(&self.pairs)),
            line("traces out", joined(&self.traces_out)),
            line("pairs out", joined(&self.pairs_out)),
            line("failed checks", joined(&self.failed_checks)),
        ];
        for (kind, lengths) in &self.lengths {
            let signed =
                lengths.signed_difference.map_or(String::new(), |value| format!(", {:+.2}% of chosen", 100.0 * value));
            let largest = lengths
                .largest_difference
                .map_or(String::new(), |value| format!(", at most {:.1}% off", 100.0 * value));
            lines.push(format!("  length {kind}: mean {:.1} characters{signed}{largest}", lengths.mean));
        }
        for (kind, separability) in &self.separability {
            lines.push(format!(
                "  told apart {kind}: by length {:.1}%, by words {:.1}%; {:.1}% of words shared",
                100.0 * separability.length_only,
                100.0 * separability.bag_of_words,
                100.0 * separability.overlap
            ));
        }
        lines.join("\n")
    }

    /// The domains in table order, with zero where there is no trace.
    pub fn domain_table(&self) -> Vec<(&'static str, usize)> {
        Domain::ALL.map(|domain| (domain.code(), self.domains.get(domain.code()).copied().unwrap_or(0))).to_vec()
    }
}

fn joined<K: std::fmt::Display>(counts: &BTreeMap<K, usize>) -> String {
    let parts: Vec<String> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
    if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
}

fn tally<K: Ord>(items: impl Iterator<Item = K>) -> BTreeMap<K, usize> {
    items.fold(BTreeMap::new(), |mut counts, item| {
        *counts.entry(item).or_insert(0) += 1;
        counts
    })
}

fn lengths(built: &Built, chosen: Vec<&Message>) -> BTreeMap<&'static str, Lengths> {
    let mut lengths = BTreeMap::new();
    let of = |turns: &[Message]| turns.last().map_or(0, |turn| length(&turn.content));
    let all: Vec<usize> = chosen.into_iter().map(|turn| length(&turn.content)).collect();
    lengths.extend(
        mean(&all)
            .map(|mean| ("chosen", Lengths { n: all.len(), mean, signed_difference: None, largest_difference: None })),
    );
    for kind in PairKind::ALL {
        let pairs = || built.pairs.iter().map(crate::audit::Audited::row).filter(|pair| pair.kind == Some(kind));
        let rejected: Vec<usize> = pairs().map(|pair| of(&pair.rejected)).collect();
        let differences: Vec<f64> = pairs()
            .map(|pair| (of(&pair.rejected) as f64 - of(&pair.chosen) as f64) / (of(&pair.chosen) as f64).max(1.0))
            .collect();
        let Some(mean) = mean(&rejected) else { continue };
        let signed = differences.iter().sum::<f64>() / differences.len() as f64;
        let largest = differences.iter().fold(0.0_f64, |largest, value| largest.max(value.abs()));
        lengths.insert(
            kind.name(),
            Lengths { n: rejected.len(), mean, signed_difference: Some(signed), largest_difference: Some(largest) },
        );
    }
    lengths
}

fn separable(built: &Built, kind: PairKind) -> Option<Separability> {
    let pairs = built.pairs.iter().map(crate::audit::Audited::row).filter(|pair| pair.kind == Some(kind));
    let answers: Vec<Answers<'_>> = pairs
        .filter_map(|pair| {
            Some(Answers {
                trace_id: pair.trace_id.as_deref()?,
                chosen: &pair.chosen.last()?.content,
                rejected: &pair.rejected.last()?.content,
            })
        })
        .collect();
    separability(&answers)
}

fn mean(lengths: &[usize]) -> Option<f64> {
    (!lengths.is_empty()).then(|| lengths.iter().sum::<usize>() as f64 / lengths.len() as f64)
}
