//! What people read: text tables, and one self-contained page of a run.
//!
//! In: a [`Page`], filled by the pipeline or [`collect`]ed from a run folder. Out: HTML that needs no network and no other file, and
//! shows everything without its script, which only searches. Model answers are shown as text only; the page also forbids itself any loading.

mod ablation;
mod ablation_page;
mod beside;
mod chart;
mod example;
mod exposure;
mod figure;
mod folder;
mod html;
mod list;
mod models;
mod page;
mod results;
mod scatter;
mod select;
mod text;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::evaluate::{Contrast, Summary, SystemSummary, Verdict};
use crate::exposure::Agreement;
use crate::trace::{Difficulty, Domain};

pub use ablation::ablation_table;
pub use ablation_page::render_ablation;
pub use exposure::{Reference, render_exposure, render_sessions, sessions_to_show};
pub use folder::collect;
pub use page::render;
pub use select::select_examples;
pub use text::text_table;

/// Everything that the page shows.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// Name of the run.
    pub title: String,
    /// What was run: digests, recipe, seed, versions, times; in the order shown.
    pub facts: Vec<(String, String)>,
    /// The evaluation.
    pub summary: Summary,
    /// Systems in the order of tables; those it does not name come last, by name.
    pub order: Vec<String>,
    /// Steps of supervised fine-tuning.
    pub sft_log: Vec<LogRow>,
    /// Steps of preference optimisation.
    pub dpo_log: Vec<LogRow>,
    /// Rows of the data sets and of the quarantine.
    pub data_counts: Vec<CountTable>,
    /// Held-out traces with every answer.
    pub examples: Vec<Example>,
    /// Traces past what a page holds.
    pub examples_left_out: usize,
    /// Agreement with people's labels, where `topalign agreement` wrote one into the run folder.
    pub agreement: Option<Agreement>,
    /// The resolved recipe.
    pub recipe: Option<String>,
}

/// One step of a training log, whatever it logs: `loss`, `learning_rate`, `rewards/margins`, ...
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LogRow {
    /// Optimizer steps done.
    pub step: f64,
    /// Everything else, by name.
    #[serde(flatten)]
    pub values: BTreeMap<String, serde_json::Value>,
}

impl LogRow {
    /// A finite number by name.
    pub fn value(&self, name: &str) -> Option<f64> {
        self.values.get(name)?.as_f64().filter(|value| value.is_finite())
    }
}

/// Counts under one heading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountTable {
    /// What is counted, e.g. `Preference pairs by kind`.
    pub heading: String,
    /// Names and counts, in the order shown.
    pub counts: Vec<(String, usize)>,
}

/// A held-out trace with every system's answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Example {
    /// The trace.
    pub trace_id: String,
    /// Its domain.
    pub domain: Domain,
    /// Its difficulty.
    pub difficulty: Option<Difficulty>,
    /// What the user asked.
    pub goal: String,
    /// What must not be said.
    pub conclusion: String,
    /// Values that a complete answer holds.
    pub required: Vec<String>,
    /// Answers in table order.
    pub answers: Vec<ExampleAnswer>,
}

/// One system's answer to an example.
#[derive(Debug, Clone, PartialEq)]
pub struct ExampleAnswer {
    /// Stage 2's answer.
    pub response: Option<String>,
    /// Stage 1's rationale.
    pub rationale: Option<String>,
    /// What the judge says of it; its evidence is highlighted.
    pub verdict: Verdict,
}

/// Systems in the given order, then the others by name.
fn ordered<'a>(summary: &'a Summary, order: &[String]) -> Vec<(&'a str, &'a SystemSummary)> {
    let known = order.iter().filter_map(|name| summary.systems.get_key_value(name));
    let others = summary.systems.iter().filter(|(name, _)| !order.contains(name));
    known.chain(others).map(|(name, system)| (name.as_str(), system)).collect()
}

/// Contrasts as later system minus earlier one, so that an improvement over the base reads as one.
fn oriented(summary: &Summary, order: &[String]) -> Vec<Contrast> {
    let names: Vec<&str> = ordered(summary, order).into_iter().map(|(name, _)| name).collect();
    let place = |name: &str| names.iter().position(|other| *other == name);
    let mut contrasts: Vec<Contrast> = summary
        .contrasts
        .iter()
        .map(|contrast| if place(&contrast.a) < place(&contrast.b) { turned(contrast) } else { contrast.clone() })
        .collect();
    contrasts.sort_by_key(|contrast| (contrast.metric, place(&contrast.b), place(&contrast.a)));
    contrasts
}

fn turned(contrast: &Contrast) -> Contrast {
    Contrast {
        a: contrast.b.clone(),
        b: contrast.a.clone(),
        difference: contrast.difference.map(|difference| -difference),
        low: contrast.high.map(|high| -high),
        high: contrast.low.map(|low| -low),
        ..contrast.clone()
    }
}
