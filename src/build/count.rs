//! Figures of a build, for the manifest and the card.
//!
//! In: pieces of a build. Out: [`Counts`]. A piece leaves sums behind, and of the pairs a sample of fixed size.

use std::collections::BTreeMap;

use rayon::prelude::*;
use serde::Serialize;

use crate::audit::file::Tally;
use crate::audit::{AuditRecord, Audited, Figures, LongAnswers, SetSummary, Severities, set_records};
use crate::dataset::{Message, PairKind, PreferencePair, Stage};
use crate::trace::Domain;

use super::fit::length;
use super::separate::{Answers, Separability, separability};
use super::{About, Built};

/// What a build counts.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
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
    /// Pairs for stage 1 by kind; empty where they were not asked for.
    pub selection_pairs: BTreeMap<&'static str, usize>,
    /// What the answers of real runs amount to.
    pub mined: BTreeMap<&'static str, usize>,
    /// Outcomes of every check, of all rows: pass, warn, fail.
    pub checks: BTreeMap<&'static str, Tally>,
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
    /// Usable traces by the format that they came in.
    pub sources: BTreeMap<String, usize>,
    /// Pairs by kind and domain.
    pub pairs_by_domain: BTreeMap<&'static str, BTreeMap<&'static str, usize>>,
    /// Pairs by kind and difficulty.
    pub pairs_by_difficulty: BTreeMap<&'static str, BTreeMap<&'static str, usize>>,
    /// Answers by kind and length in characters: from a multiple of 50 to the next.
    pub histograms: BTreeMap<&'static str, BTreeMap<usize, usize>>,
    /// Lengths in characters, by kind of answer.
    pub lengths: BTreeMap<&'static str, Lengths>,
    /// Frames of the better answers.
    pub set: SetSummary,
    /// Answers far longer than the others.
    pub long_answers: LongAnswers,
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
    /// Mean of (length - chosen length) over the chosen length; absent for chosen answers, which are compared with
    /// nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signed_difference: Option<f64>,
    /// Largest absolute difference over the chosen length; absent for chosen answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub largest_difference: Option<f64>,
}

/// Pairs of a kind that the naive models are fitted to and tried on: the first ones.
const SAMPLE: usize = 10_000;

/// Characters from one bar of a histogram of lengths to the next.
pub const BIN: usize = 50;

/// Sums up pieces of a build.
#[derive(Debug, Default)]
pub struct Tallying {
    counts: Counts,
    chosen: Sum,
    rejected: BTreeMap<PairKind, Sum>,
    sample: BTreeMap<PairKind, Vec<[String; 3]>>,
    figures: Figures,
}

/// Lengths so far.
#[derive(Debug, Default)]
struct Sum {
    n: usize,
    characters: usize,
    signed: f64,
    largest: f64,
}

impl Sum {
    fn add(&mut self, answer: &str, chosen: Option<&str>) {
        let length = length(answer);
        self.n += 1;
        self.characters += length;
        if let Some(chosen) = chosen.map(super::fit::length) {
            let difference = (length as f64 - chosen as f64) / (chosen as f64).max(1.0);
            self.signed += difference;
            self.largest = self.largest.max(difference.abs());
        }
    }

    /// `None` if nothing was added.
    fn lengths(&self, is_compared: bool) -> Option<Lengths> {
        (self.n > 0).then(|| Lengths {
            n: self.n,
            mean: self.characters as f64 / self.n as f64,
            signed_difference: is_compared.then(|| self.signed / self.n as f64),
            largest_difference: is_compared.then_some(self.largest),
        })
    }
}

impl Tallying {
    /// Adds a piece.
    pub fn add(&mut self, built: &Built) {
        let counts = &mut self.counts;
        counts.traces += built.traces;
        counts.held_out += built.held_out;
        for row in built.sft.iter().map(Audited::row) {
            let stage = if row.stage == Some(Stage::Response) { "response" } else { "selection" };
            *counts.sft.entry(stage).or_default() += 1;
            if row.stage != Some(Stage::Response) {
                continue;
            }
            counts.usable += 1;
            if let Some(about) = row.trace_id.as_deref().and_then(|id| built.about.get(id)) {
                *counts.domains.entry(about.domain.code()).or_default() += 1;
                *counts.difficulties.entry(about.level()).or_default() += 1;
                *counts.sources.entry(about.format.clone()).or_default() += 1;
            }
            *bar(counts, "chosen", last(&row.messages)) += 1;
            self.figures.add_chosen(last(&row.messages));
            self.chosen.add(last(&row.messages), None);
        }
        for pair in built.pairs.iter().map(Audited::row) {
            self.add_pair(pair, pair.trace_id.as_deref().and_then(|id| built.about.get(id)));
        }
        let counts = &mut self.counts;
        for pair in &built.selection_pairs {
            *counts.selection_pairs.entry(pair.row().kind.name()).or_default() += 1;
        }
        for (class, count) in &built.mined {
            *counts.mined.entry(class).or_default() += count;
        }
        for record in &built.audits {
            counts.checks.entry(record.check.name()).or_default().add(record.verdict);
        }
        for (check, passed) in &built.passed {
            counts.checks.entry(check.name()).or_default().pass += passed;
        }
        for entry in &built.quarantine {
            match entry.kind {
                None => *counts.traces_out.entry(entry.reason.name()).or_default() += 1,
                Some(kind) => {
                    *counts.pairs_out.entry(format!("{}: {}", kind.name(), entry.reason.name())).or_default() += 1;
                }
            }
            for check in &entry.checks {
                *counts.failed_checks.entry(check.name()).or_default() += 1;
            }
        }
    }

    fn add_pair(&mut self, pair: &PreferencePair, about: Option<&About>) {
        let Some(kind) = pair.kind else { return };
        let (chosen, rejected) = (last(&pair.chosen), last(&pair.rejected));
        let counts = &mut self.counts;
        *counts.pairs.entry(kind.name()).or_default() += 1;
        *bar(counts, kind.name(), rejected) += 1;
        if let Some(about) = about {
            *counts.pairs_by_domain.entry(kind.name()).or_default().entry(about.domain.code()).or_default() += 1;
            *counts.pairs_by_difficulty.entry(kind.name()).or_default().entry(about.level()).or_default() += 1;
        }
        self.figures.add(rejected);
        self.rejected.entry(kind).or_default().add(rejected, Some(chosen));
        let sample = self.sample.entry(kind).or_default();
        if sample.len() < SAMPLE {
            let trace_id = pair.trace_id.clone().unwrap_or_default();
            sample.push([trace_id, chosen.to_owned(), rejected.to_owned()]);
        }
    }

    /// The figures. Stages and kinds without a row are there with zero.
    pub fn counts(&self) -> Counts {
        let mut counts = self.counts.clone();
        (counts.set, counts.long_answers) = (self.figures.summary(), self.figures.long_answers());
        for stage in ["selection", "response"] {
            counts.sft.entry(stage).or_default();
        }
        counts.lengths.extend(self.chosen.lengths(false).map(|lengths| ("chosen", lengths)));
        for kind in PairKind::ALL {
            counts.pairs.entry(kind.name()).or_default();
            let lengths = self.rejected.get(&kind).and_then(|sum| sum.lengths(true));
            counts.lengths.extend(lengths.map(|lengths| (kind.name(), lengths)));
        }
        let measured: Vec<Option<Separability>> =
            PairKind::ALL.par_iter().map(|kind| separability(&self.answers(*kind))).collect();
        let named = PairKind::ALL.into_iter().zip(measured);
        counts.separability.extend(named.filter_map(|(kind, found)| Some((kind.name(), found?))));
        counts
    }

    fn answers(&self, kind: PairKind) -> Vec<Answers<'_>> {
        let sample = self.sample.get(&kind).map_or(&[][..], Vec::as_slice);
        sample.iter().map(|[trace_id, chosen, rejected]| Answers { trace_id, chosen, rejected }).collect()
    }
}

/// The bar of a histogram that an answer belongs to.
fn bar<'c>(counts: &'c mut Counts, kind: &'static str, answer: &str) -> &'c mut usize {
    counts.histograms.entry(kind).or_default().entry(length(answer) / BIN * BIN).or_default()
}

fn last(turns: &[Message]) -> &str {
    turns.last().map_or("", |turn| turn.content.as_str())
}

impl Counts {
    /// Counts a build.
    pub fn of(built: &Built) -> Self {
        let mut tallying = Tallying::default();
        tallying.add(built);
        tallying.counts()
    }

    /// Adds what only the whole set shows; returns its records.
    pub(super) fn close(&mut self, severities: &Severities) -> Vec<AuditRecord> {
        let records = set_records(&self.set, self.long_answers, severities);
        for record in &records {
            self.checks.entry(record.check.name()).or_default().add(record.verdict);
        }
        records
    }

    /// Quarantine and rows as a short text.
    pub fn text(&self) -> String {
        let line = |name: &str, counts: String| format!("  {name:<14}{counts}");
        let mut lines = vec![
            format!("{} traces, {} held out, {} usable", self.traces, self.held_out, self.usable),
            line("SFT rows", joined(&self.sft)),
            line("pairs", joined(&self.pairs)),
            line("stage-1 pairs", joined(&self.selection_pairs)),
            line("from runs", joined(&self.mined)),
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
