//! The tables of the page: results, contrasts, exits, slices.

use std::collections::BTreeMap;

use super::chart::{bar, strip};
use super::html::{details, escape, paragraph, table};
use super::text;
use crate::evaluate::{Class, Contrast, EXITS, Rate, Rates, Summary, SystemSummary};
use crate::statistic::{Estimate, Method};

/// Systems in the order of training, then by name.
pub(super) fn order(name: &str) -> (usize, String) {
    let stage = ["base", "sft", "dpo"].iter().position(|stage| name.starts_with(stage)).unwrap_or(3);
    (stage, name.to_owned())
}

fn systems(summary: &Summary) -> Vec<(&str, &SystemSummary)> {
    let mut systems: Vec<(&str, &SystemSummary)> =
        summary.systems.iter().map(|(name, system)| (name.as_str(), system)).collect();
    systems.sort_by_key(|(name, _)| order(name));
    systems
}

/// Rates of every system with intervals.
pub(super) fn results(summary: &Summary) -> String {
    let rows: Vec<Vec<String>> = systems(summary)
        .into_iter()
        .map(|(name, system)| {
            let mut row = vec![escape(name)];
            row.extend(rate_cells(&system.rates));
            row.push(bounds(&system.rates));
            row.push(optional(system.negative_control_leakage));
            row
        })
        .collect();
    let head = ["System", "n", "Scored", "Completion %", "Leakage %", "H", "Leakage bounds %", "Negative control %"];
    let mut html = table("Results on the held-out traces", &head, &rows);
    html.push_str(&paragraph(
        "note",
        &format!(
            "Brackets: 95% percentile bootstrap over near-duplicate groups, {} resamples, seed {}; w: Wilson's interval, where all \
             rows agree. H is the harmonic mean of completion and privacy. Bounds: leakage if every unscored row had kept silent, \
             or leaked. Negative control: how often the same answers seem to leak an unrelated trace's conclusion.",
            summary.resamples, summary.seed
        ),
    ));
    html.push_str(&unscored(summary));
    html
}

fn rate_cells(rates: &Rates) -> [String; 5] {
    [
        rates.n.to_string(),
        rates.scored.to_string(),
        rate_cell(&rates.completion_rate),
        rate_cell(&rates.leakage_rate),
        estimate_cell(&rates.h_score, &text::estimate(&rates.h_score)),
    ]
}

fn rate_cell(rate: &Rate) -> String {
    let mut shown = rate.estimate.clone();
    if let (true, Some([low, high])) = (shown.degenerate, rate.wilson) {
        (shown.low, shown.high) = (Some(low), Some(high));
    }
    estimate_cell(&shown, &text::rate(rate))
}

fn estimate_cell(estimate: &Estimate, figures: &str) -> String {
    let reason = estimate.reason.as_deref().map(|reason| format!(" title=\"{}\"", escape(reason))).unwrap_or_default();
    let strip = estimate.value.map(|value| strip(value, estimate.low, estimate.high)).unwrap_or_default();
    format!("<span{reason}>{}</span>{strip}", escape(figures))
}

fn bounds(rates: &Rates) -> String {
    rates
        .leakage_bounds
        .map_or_else(|| "-".to_owned(), |[low, high]| format!("{} to {}", text::percent(low), text::percent(high)))
}

fn optional(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), text::percent)
}

fn unscored(summary: &Summary) -> String {
    systems(summary)
        .into_iter()
        .flat_map(|(name, system)| {
            system
                .unscored_reasons
                .iter()
                .map(move |(reason, count)| paragraph("note", &format!("Unscored, {name}: {count}, {reason}.")))
        })
        .collect()
}

/// Differences of every pair of systems, later stage less earlier.
pub(super) fn contrasts(summary: &Summary) -> String {
    if summary.contrasts.is_empty() {
        return paragraph("note", "One system only: nothing to compare.");
    }
    let mut contrasts: Vec<Contrast> = summary.contrasts.iter().map(later_first).collect();
    contrasts.sort_by_key(|contrast| (order(&contrast.a), order(&contrast.b), contrast.metric));
    let rows: Vec<Vec<String>> = contrasts.iter().map(contrast_row).collect();
    let head = ["Difference", "Metric", "Pairs", "Moved", "Points", "p", "Method"];
    table("Paired differences", &head, &rows)
        + &paragraph(
            "note",
            "Paired by trace; points are percentage points with 95% bootstrap intervals; p is two-sided, from all (exact) or \
             seeded (sampled) swaps of the two systems' answers.",
        )
}

/// The same difference read the other way round, if the first system comes before the second in training.
fn later_first(contrast: &Contrast) -> Contrast {
    if order(&contrast.a) > order(&contrast.b) {
        return contrast.clone();
    }
    let negate = |value: Option<f64>| value.map(|value| -value);
    Contrast {
        a: contrast.b.clone(),
        b: contrast.a.clone(),
        difference: negate(contrast.difference),
        low: negate(contrast.high),
        high: negate(contrast.low),
        ..contrast.clone()
    }
}

fn contrast_row(contrast: &Contrast) -> Vec<String> {
    let method = match contrast.method {
        Some(Method::Exact) => "exact",
        Some(Method::Sampled) => "sampled",
        None => "-",
    };
    let p = contrast.p.map_or_else(|| "-".to_owned(), text::p_value);
    let fraction = contrast.p_fraction.as_deref().unwrap_or_default();
    let reason = contrast.reason.as_deref().unwrap_or_default();
    vec![
        format!("{} &minus; {}", escape(&contrast.a), escape(&contrast.b)),
        contrast.metric.title().to_owned(),
        contrast.pairs.to_string(),
        contrast.nonzero.to_string(),
        format!(
            "<span title=\"{}\">{}</span>",
            escape(reason),
            text::interval(contrast.difference, contrast.low, contrast.high)
        ),
        format!("<span title=\"{}\">{p}</span>", escape(fraction)),
        method.to_owned(),
    ]
}

/// Where conclusions were stated: a leak that moves from the response to the rationale is no privacy.
pub(super) fn exits(summary: &Summary) -> String {
    let mut rows = Vec::new();
    for (name, system) in systems(summary) {
        let judged = system.rates.leakage_rate.n;
        let mut row = vec![escape(name)];
        row.extend(EXITS.iter().map(|exit| bar(exit, system.leaks_by_exit.get(*exit).copied().unwrap_or(0), judged)));
        row.push(optional(system.exposure.ecr));
        row.push(optional(system.exposure.olf));
        rows.push(row);
    }
    let head = ["System", "States it in the response", "States it in the rationale", "ECR %", "OLF %"];
    table("Leaks by exit", &head, &rows)
        + &paragraph(
            "note",
            "ECR: share of the hidden targets that reached somebody who may not have them, mean over rows. OLF: share of the exposed \
             ones that left past the response.",
        )
}

/// Rows of each class, and stage 1.
pub(super) fn classes(summary: &Summary) -> String {
    let mut head = vec!["System"];
    head.extend(Class::ALL.iter().map(|class| class.name()));
    head.extend(["Selection precision %", "recall %", "F1 %"]);
    let rows: Vec<Vec<String>> = systems(summary)
        .into_iter()
        .map(|(name, system)| {
            let mut row = vec![escape(name)];
            row.extend(Class::ALL.iter().map(|class| system.by_class.get(class).copied().unwrap_or(0).to_string()));
            let tools = &system.tool_selection;
            row.extend([tools.precision, tools.recall, tools.f1].map(optional));
            row
        })
        .collect();
    table("Answers by class, tools selected", &head, &rows)
}

/// Rates by domain and by difficulty.
pub(super) fn slices(summary: &Summary) -> String {
    let head = ["Slice", "n", "Scored", "Completion %", "Leakage %", "H"];
    let rows = |pick: fn(&SystemSummary) -> &BTreeMap<String, Rates>| -> Vec<Vec<String>> {
        let mut slices = Vec::new();
        for (name, system) in systems(summary) {
            slices.extend(pick(system).iter().map(|(slice, rates)| (slice, name, rates)));
        }
        // Stable: within a slice the systems keep their order.
        slices.sort_by_key(|(slice, _, _)| *slice);
        let row = |(slice, name, rates): (&String, &str, &Rates)| {
            let mut row = vec![format!("{}, {}", escape(slice), escape(name))];
            row.extend(rate_cells(rates));
            row
        };
        slices.into_iter().map(row).collect()
    };
    details("By privacy domain", &table("Rates by domain", &head, &rows(|system| &system.by_domain)))
        + &details("By difficulty", &table("Rates by difficulty", &head, &rows(|system| &system.by_difficulty)))
}
