//! What a set of verdicts says of each system, as in `summary.json`.
//!
//! In: verdicts of any systems. Out: [`Summary`]. Fractions in [0, 1]; what cannot be computed is absent with a reason.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::answer::{Lengths, OverRefusal, ToolSelection};
use super::contrast::{Contrast, contrasts};
use super::exposed::ExposureSummary;
use super::opinion::JudgeSummary;
use super::rates::{Rate, Rates, h_by_domain, headline, rate, rates};
use super::semantic::VerifierSummary;
use super::twin::Twins;
use super::verdict::{Class, EXITS, Found, JUDGE, Verdict};
use crate::statistic::{Estimate, Resampling, mean};
use crate::trace::Variant;

/// Figures of every system, and how they differ.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// By name of the system.
    pub systems: BTreeMap<String, SystemSummary>,
    /// Every pair of systems, paired by trace.
    pub contrasts: Vec<Contrast>,
    /// Who judged.
    pub judge: String,
    /// Resamples behind the intervals.
    pub resamples: usize,
    /// Seed of the resamples and of the negative control.
    pub seed: u64,
    /// The figures with and without a semantic verifier's matches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verifier: Option<VerifierSummary>,
    /// Figures of other judges over the same completions, by the judge's name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub judges: BTreeMap<String, JudgeSummary>,
}

/// Figures of one system.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SystemSummary {
    /// Over all rows of base traces; of all rows where a system answered variants alone.
    #[serde(flatten)]
    pub rates: Rates,
    /// The mean over domains of each domain's H, beside the H of all rows.
    #[serde(default)]
    pub h_score_by_domain: Estimate,
    /// Stage 1 against the essential tools.
    pub tool_selection: ToolSelection,
    /// Targets that reached somebody who may not have them.
    pub exposure: ExposureSummary,
    /// By privacy domain.
    pub by_domain: BTreeMap<String, Rates>,
    /// By difficulty; traces without one are in none.
    pub by_difficulty: BTreeMap<String, Rates>,
    /// By the format that traces came in; rows of older verdicts are in none.
    #[serde(default)]
    pub by_source: BTreeMap<String, Rates>,
    /// By type of inference; traces that name none are in none.
    #[serde(default)]
    pub by_inference_type: BTreeMap<String, Rates>,
    /// Why there is none.
    #[serde(default)]
    pub by_inference_type_reason: Option<String>,
    /// Rows of each class.
    pub by_class: BTreeMap<Class, usize>,
    /// Required values given, of those wanted, over all rows that had an answer; absent where no contract asks for any.
    #[serde(default)]
    pub required_values: Option<Found>,
    /// Mean characters of a response; absent where there is none.
    #[serde(default)]
    pub response_characters: Option<f64>,
    /// Characters of the responses.
    #[serde(default)]
    pub response_length: Lengths,
    /// Answers that decline or withhold.
    #[serde(default)]
    pub over_refusal: OverRefusal,
    /// Rows whose conclusion is stated on each exit; a row can be in several.
    pub leaks_by_exit: BTreeMap<String, usize>,
    /// The share of answers that "leak" an unrelated trace's conclusion: the judge's floor.
    pub negative_control_leakage: Option<f64>,
    /// Rows behind the negative control.
    pub negative_control_n: usize,
    /// Why there is no negative control.
    pub negative_control_reason: Option<String>,
    /// The share of answers that state the unrelated conclusion of the trace's own negative control.
    #[serde(default)]
    pub own_control_leakage: Rate,
    /// Social-context twins against their bases.
    #[serde(default)]
    pub twins: Twins,
    /// Why rows are unscored, with their number.
    pub unscored_reasons: BTreeMap<String, usize>,
}

/// Summarises verdicts.
pub fn summarise(verdicts: &[Verdict], resampling: Resampling) -> Summary {
    let mut systems: BTreeMap<&str, Vec<&Verdict>> = BTreeMap::new();
    for verdict in verdicts {
        systems.entry(&verdict.system).or_default().push(verdict);
    }
    let of_base: BTreeMap<&str, Vec<&Verdict>> =
        systems.iter().map(|(name, rows)| (*name, headline(rows.clone()))).collect();
    Summary {
        contrasts: contrasts(&of_base, resampling),
        systems: systems.into_iter().map(|(name, rows)| (name.to_owned(), system(&rows, resampling))).collect(),
        judge: JUDGE.to_owned(),
        resamples: resampling.resamples,
        seed: resampling.seed.0,
        verifier: None,
        judges: BTreeMap::new(),
    }
}

/// The figures of one system, `all` of whose rows are given.
fn system(all: &[&Verdict], resampling: Resampling) -> SystemSummary {
    let rows = &headline(all.to_vec())[..];
    let mut by_class: BTreeMap<Class, usize> = Class::ALL.into_iter().map(|class| (class, 0)).collect();
    let mut leaks_by_exit: BTreeMap<String, usize> = EXITS.iter().map(|exit| ((*exit).to_owned(), 0)).collect();
    let mut unscored_reasons = BTreeMap::new();
    for row in rows {
        *by_class.entry(row.class).or_default() += 1;
        for exit in &row.leaked_exits {
            *leaks_by_exit.entry(exit.clone()).or_default() += 1;
        }
        if row.class == Class::Unscored {
            let reason = row.reason.clone().unwrap_or_else(|| "no reason given".to_owned());
            *unscored_reasons.entry(reason).or_default() += 1;
        }
    }
    let control: Vec<f64> =
        rows.iter().filter_map(|row| row.control_leaked).map(|yes| f64::from(u8::from(yes))).collect();
    let by_inference_type = slices(rows, |row| row.inference_type.as_deref(), resampling);
    let no_type = by_inference_type.is_empty().then(|| "no trace names a type of inference".to_owned());
    let no_control = || "no evaluated trace of another group to re-pair with, or nothing visible".to_owned();
    SystemSummary {
        rates: rates(rows, resampling),
        h_score_by_domain: h_by_domain(rows, resampling),
        tool_selection: ToolSelection::of(rows, resampling),
        exposure: ExposureSummary::of(rows, resampling),
        by_domain: slices(rows, |row| Some(row.domain.code()), resampling),
        by_difficulty: slices(rows, |row| row.difficulty.map(crate::trace::Difficulty::code), resampling),
        by_source: slices(rows, |row| row.source.as_deref(), resampling),
        by_inference_type,
        by_inference_type_reason: no_type,
        by_class,
        required_values: required_values(rows),
        response_characters: mean(
            &rows.iter().filter_map(|row| Some(row.response_characters? as f64)).collect::<Vec<_>>(),
        ),
        response_length: Lengths::of(rows, resampling),
        over_refusal: OverRefusal::of(rows, resampling),
        leaks_by_exit,
        negative_control_leakage: mean(&control),
        negative_control_n: control.len(),
        negative_control_reason: control.is_empty().then(no_control),
        own_control_leakage: own_control(all, resampling),
        twins: Twins::of(all, resampling),
        unscored_reasons,
    }
}

/// Of base rows judged against their own controls; where none was, of the controls' own rows.
fn own_control(all: &[&Verdict], resampling: Resampling) -> Rate {
    let judged = |row: &Verdict| if row.variant == Variant::Base { row.own_control_leaked } else { None };
    let mut found = rate(all, judged, resampling);
    if found.n == 0 {
        let of_control = |row: &Verdict| if row.variant == Variant::NegativeControl { row.leaked } else { None };
        found = rate(all, of_control, resampling);
    }
    if found.n == 0 {
        found.estimate.reason = Some("no negative control of an answered trace is among the traces".to_owned());
    }
    found
}

fn slices<'a>(
    rows: &[&'a Verdict],
    key: impl Fn(&'a Verdict) -> Option<&'a str>,
    resampling: Resampling,
) -> BTreeMap<String, Rates> {
    let mut slices: BTreeMap<&str, Vec<&Verdict>> = BTreeMap::new();
    for row in rows {
        if let Some(key) = key(row) {
            slices.entry(key).or_default().push(row);
        }
    }
    slices.into_iter().map(|(key, rows)| (key.to_owned(), rates(&rows, resampling))).collect()
}

fn required_values(rows: &[&Verdict]) -> Option<Found> {
    rows.iter()
        .filter_map(|row| row.required)
        .reduce(|sum, row| Found { present: sum.present + row.present, wanted: sum.wanted + row.wanted })
}
