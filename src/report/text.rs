//! A summary as a table for terminals.
//!
//! In: a [`Summary`]. Out: text in percent; intervals are those of the bootstrap, or Wilson's (marked `w`) where every row agrees.

use std::fmt::Write as _;

use crate::evaluate::{Agreement, Class, Contrast, Metric, Rate, Rates, Summary, SystemSummary, is_untrained};
use crate::statistic::Estimate;
use crate::verify::SemanticUse;

/// The figures of every system and their contrasts.
pub fn text_table(summary: &Summary) -> String {
    let header = ["system", "n", "scored", "completion", "leakage", "H", "H by domain", "control"];
    let header = header.map(str::to_owned).to_vec();
    let mut rows = vec![header];
    rows.extend(summary.systems.iter().map(|(name, system)| system_row(name, system)));
    let mut text = align(&rows);
    text.push_str(
        "percent, with 95% intervals (w: Wilson, all rows agree); H by domain: mean of each domain's; control: leakage of unrelated targets\n",
    );
    text.push('\n');
    text.push_str(&answers(summary));
    text.push_str(&twins(summary));
    unscored(summary, &mut text);
    verifier(summary, &mut text);
    judges(summary, &mut text);
    text.push_str(&differences(summary));
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
        system.h_score_by_domain.value.map_or_else(|| "-".to_owned(), percent),
        system.negative_control_leakage.map_or_else(|| "-".to_owned(), percent),
    ]
}

/// What the answers hold beside the headline: private details, required values, tools, length.
fn answers(summary: &Summary) -> String {
    let header = [
        "system",
        "ECR",
        "OLF",
        "over-disclosing",
        "refusing",
        "values given",
        "tools F1",
        "over-collecting",
        "characters",
    ];
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
            share(system.tool_selection.over_collecting.estimate.value),
            system.response_characters.map_or_else(|| "-".to_owned(), |mean| format!("{mean:.0}")),
        ]
    }));
    align(&rows)
        + "ECR: targets exposed; OLF: of these, past the answer; over-disclosing, refusing: answers; over-collecting: answers with a tool that is not essential; characters: mean\n"
}

/// Social-context twins beside their bases, where some were answered.
fn twins(summary: &Summary) -> String {
    let header = ["social context", "pairs", "completion", "points", "p", "leakage", "points", "p"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for (name, system) in &summary.systems {
        let twins = &system.twins;
        let Some(rates) = &twins.social_context else { continue };
        let mut row = vec![name.clone(), twins.pairs.to_string()];
        for (metric, found) in
            [(Metric::CompletionRate, &rates.completion_rate), (Metric::LeakageRate, &rates.leakage_rate)]
        {
            let contrast = twins.contrasts.iter().find(|contrast| contrast.metric == metric);
            row.push(rate(found));
            row.push(
                contrast.map_or_else(|| "-".to_owned(), |found| interval(found.difference, found.low, found.high)),
            );
            row.push(contrast.and_then(|found| found.p).map_or_else(|| "-".to_owned(), p_value));
        }
        rows.push(row);
    }
    if rows.len() == 1 {
        return String::new();
    }
    format!("\n{}twins with an innocent reading at hand; points: twin minus its base\n", align(&rows))
}

/// A line for each pair of systems that differ in anything; the summary holds every contrast with its interval.
fn differences(summary: &Summary) -> String {
    let mut pairs: Vec<((&str, &str), Vec<&Contrast>)> = Vec::new();
    for contrast in &summary.contrasts {
        let key = (contrast.a.as_str(), contrast.b.as_str());
        match pairs.last_mut().filter(|(last, _)| *last == key) {
            Some((_, of_pair)) => of_pair.push(contrast),
            None => pairs.push((key, vec![contrast])),
        }
    }
    let (moved, still): (Vec<_>, Vec<_>) =
        pairs.into_iter().partition(|(_, of_pair)| of_pair.iter().any(|contrast| contrast.nonzero > 0));
    let mut text = String::new();
    if !moved.is_empty() {
        let header = ["a - b", "pairs", "completion", "leakage", "H", "p", "Holm", "ECR", "OLF"];
        let mut rows = vec![header.map(str::to_owned).to_vec()];
        rows.extend(moved.iter().map(|(names, of_pair)| difference_row(*names, of_pair)));
        let note = "points, H with its 95% interval, p and p corrected for the other pairs; summary.json has the rest";
        text = format!("\n{}{note}\n", align(&rows));
    }
    if !still.is_empty() {
        let names: Vec<String> = still.iter().map(|((a, b), _)| format!("{a} - {b}")).collect();
        let _ = writeln!(text, "\nno difference in any figure: {}", names.join(", "));
    }
    text
}

/// A trained system minus an untrained one, whatever their names.
fn difference_row((a, b): (&str, &str), of_pair: &[&Contrast]) -> Vec<String> {
    let turned = is_untrained(a) && !is_untrained(b);
    let found = |metric: Metric| of_pair.iter().find(|contrast| contrast.metric == metric);
    let sign = if turned { -1.0 } else { 1.0 };
    let points = |metric: Metric| {
        let difference = found(metric).and_then(|contrast| contrast.difference);
        difference.map_or_else(|| "-".to_owned(), |difference| percent(sign * difference))
    };
    let h = found(Metric::HScore);
    let ends = h.and_then(|h| h.low.zip(h.high)).map(|(low, high)| if turned { (-high, -low) } else { (low, high) });
    let difference = h.and_then(|h| h.difference).map(|difference| sign * difference);
    let p = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), p_value);
    let sampled = h.is_some_and(|h| h.method == Some(crate::statistic::Method::Sampled));
    vec![
        if turned { format!("{b} - {a}") } else { format!("{a} - {b}") },
        of_pair.first().map_or(0, |contrast| contrast.pairs).to_string(),
        points(Metric::CompletionRate),
        points(Metric::LeakageRate),
        interval(difference, ends.map(|(low, _)| low), ends.map(|(_, high)| high)),
        p(h.and_then(|h| h.p)) + if sampled { " sampled" } else { "" },
        p(h.and_then(|h| h.p_holm)),
        points(Metric::Ecr),
        points(Metric::Olf),
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
const TEXT_COLUMNS: [&str; 2] = ["reading", "system"];

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
