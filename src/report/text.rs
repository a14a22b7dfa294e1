//! A summary as a table for terminals.
//!
//! In: a [`Summary`]. Out: text in percent; intervals are those of the bootstrap, or Wilson's (marked `w`) where every row agrees.

use std::fmt::Write as _;

use crate::evaluate::{Agreement, Class, Contrast, Rate, Rates, Summary, SystemSummary};
use crate::statistic::Estimate;
use crate::verify::SemanticUse;

/// The figures of every system and their contrasts.
pub fn text_table(summary: &Summary) -> String {
    let header = ["system", "n", "scored", "completion", "leakage", "H", "control"].map(str::to_owned).to_vec();
    let mut rows = vec![header];
    rows.extend(summary.systems.iter().map(|(name, system)| system_row(name, system)));
    let mut text = align(&rows);
    text.push_str("percent, with 95% intervals (w: Wilson, all rows agree); control: leakage of unrelated targets\n");
    text.push('\n');
    text.push_str(&answers(summary));
    unscored(summary, &mut text);
    verifier(summary, &mut text);
    judges(summary, &mut text);
    if !summary.contrasts.is_empty() {
        let header = ["difference", "a - b", "pairs", "moved", "points", "p"].map(str::to_owned).to_vec();
        let mut rows = vec![header];
        rows.extend(summary.contrasts.iter().map(contrast_row));
        text.push('\n');
        text.push_str(&align(&rows));
    }
    text
}

fn system_row(name: &str, system: &SystemSummary) -> Vec<String> {
    vec![
        name.to_owned(),
        system.rates.n.to_string(),
        system.rates.scored.to_string(),
        rate(&system.rates.completion_rate),
        rate(&system.rates.leakage_rate),
        estimate(&system.rates.h_score),
        system.negative_control_leakage.map_or_else(|| "-".to_owned(), percent),
    ]
}

/// What the answers hold beside the headline: private details, required values, tools, length.
fn answers(summary: &Summary) -> String {
    let header = ["system", "ECR", "OLF", "over-disclosing", "refusing", "values given", "tools F1", "characters"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    rows.extend(summary.systems.iter().map(|(name, system)| {
        let share = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), percent);
        let of_class = |class: Class| system.by_class.get(&class).copied().unwrap_or(0).to_string();
        let values = system.required_values.map(|found| format!("{} of {}", found.present, found.wanted));
        vec![
            name.clone(),
            share(system.exposure.ecr),
            share(system.exposure.olf),
            of_class(Class::OverDisclosure),
            of_class(Class::OverRefusal),
            values.unwrap_or_else(|| "-".to_owned()),
            share(system.tool_selection.f1),
            system.response_characters.map_or_else(|| "-".to_owned(), |mean| format!("{mean:.0}")),
        ]
    }));
    align(&rows)
        + "ECR: targets exposed; OLF: of these, past the answer; over-disclosing, refusing: answers; characters: mean\n"
}

fn contrast_row(contrast: &Contrast) -> Vec<String> {
    let sampled = if contrast.method == Some(crate::statistic::Method::Sampled) { " sampled" } else { "" };
    vec![
        contrast.metric.name().to_owned(),
        format!("{} - {}", contrast.a, contrast.b),
        contrast.pairs.to_string(),
        contrast.nonzero.to_string(),
        interval(contrast.difference, contrast.low, contrast.high),
        contrast.p.map_or_else(|| "-".to_owned(), |p| format!("{}{sampled}", p_value(p))),
    ]
}

fn unscored(summary: &Summary, text: &mut String) {
    for (name, system) in &summary.systems {
        for (reason, count) in &system.unscored_reasons {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "unscored: {name}: {count} x {reason}");
        }
    }
}

/// The figures with and without a verifier's matches, and what it did.
fn verifier(summary: &Summary, text: &mut String) {
    let Some(verifier) = &summary.verifier else { return };
    let header = ["semantic verifier", "reading", "n", "scored", "leakage", "H"].map(str::to_owned).to_vec();
    let mut rows = vec![header];
    for (name, deterministic) in &verifier.deterministic {
        rows.push(reading_row(name, "deterministic", deterministic));
        rows.extend(verifier.with_semantic.get(name).map(|rates| reading_row(name, "with semantic", rates)));
    }
    let decides = match verifier.in_headline {
        SemanticUse::Beside => "its matches are not in the headline figures",
        SemanticUse::Headline => "its matches decide the headline figures",
    };
    // Writing to a string cannot fail.
    let _ = writeln!(text, "\n{}{}: {decides}\n{}", align(&rows), verifier.model, verifier.tally);
}

/// Other judges' figures, and how far they agree with the evaluation's own.
fn judges(summary: &Summary, text: &mut String) {
    for (judge, figures) in &summary.judges {
        let header = ["judge", "system", "n", "scored", "completion", "leakage", "H"].map(str::to_owned).to_vec();
        let mut rows = vec![header];
        for (name, rates) in &figures.systems {
            let mut row = reading_row(judge, name, rates);
            row.insert(4, rate(&rates.completion_rate));
            rows.push(row);
        }
        // Writing to a string cannot fail.
        let _ = writeln!(text, "\n{}", align(&rows).trim_end());
        for (question, found) in [("completed", &figures.completed), ("leaked", &figures.leaked)] {
            let _ = writeln!(text, "agreement on {question}: {}", agreement(found));
        }
        for (reason, count) in &figures.unscored_reasons {
            let _ = writeln!(text, "unscored: {judge}: {count} x {reason}");
        }
    }
}

fn reading_row(name: &str, reading: &str, rates: &Rates) -> Vec<String> {
    vec![
        name.to_owned(),
        reading.to_owned(),
        rates.n.to_string(),
        rates.scored.to_string(),
        rate(&rates.leakage_rate),
        estimate(&rates.h_score),
    ]
}

fn agreement(found: &Agreement) -> String {
    let Agreement { n, both, neither, only_own, only_other, .. } = found;
    let raw = found.raw.map_or_else(|| "-".to_owned(), percent);
    let kappa = found.kappa.map_or_else(|| "-".to_owned(), |kappa| format!("{kappa:.3}"));
    let reason = found.reason.as_ref().map_or_else(String::new, |reason| format!(" ({reason})"));
    format!(
        "{raw} percent of {n}, kappa {kappa}{reason}; both yes {both}, both no {neither}, only deterministic {only_own}, only this judge {only_other}"
    )
}

/// A rate with its interval.
pub(super) fn rate(rate: &Rate) -> String {
    match rate.wilson {
        Some([low, high]) if rate.estimate.degenerate => {
            format!("{} w", interval(rate.estimate.value, Some(low), Some(high)))
        }
        _ => estimate(&rate.estimate),
    }
}

/// A figure with its interval.
pub(super) fn estimate(estimate: &Estimate) -> String {
    let (low, high) = if estimate.degenerate { (None, None) } else { (estimate.low, estimate.high) };
    interval(estimate.value, low, high)
}

/// `12.3 [10.0, 15.1]`, `12.3`, or `-`.
pub(super) fn interval(value: Option<f64>, low: Option<f64>, high: Option<f64>) -> String {
    match (value, low.zip(high)) {
        (None, _) => "-".to_owned(),
        (Some(value), None) => percent(value),
        (Some(value), Some((low, high))) => format!("{} [{}, {}]", percent(value), percent(low), percent(high)),
    }
}

/// A fraction in percent; minus zero is zero.
pub(super) fn percent(fraction: f64) -> String {
    let text = format!("{:.1}", fraction * 100.0);
    if text == "-0.0" { "0.0".to_owned() } else { text }
}

/// Four significant digits, in powers of ten when small.
pub(super) fn p_value(p: f64) -> String {
    if p >= 1e-4 { format!("{p:.4}") } else { format!("{p:.1e}") }
}

/// Second columns that hold names.
const TEXT_COLUMNS: [&str; 3] = ["a - b", "reading", "system"];

/// Columns by width; names to the left, figures to the right.
pub(super) fn align(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let text_columns = rows.first().map_or(0, |header| {
        if header.get(1).is_some_and(|second| TEXT_COLUMNS.contains(&second.as_str())) { 2 } else { 1 }
    });
    let mut text = String::new();
    for row in rows {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .enumerate()
            .map(
                |(column, (cell, &width))| {
                    if column < text_columns { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
                },
            )
            .collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}
