//! The page itself.
//!
//! In: [`Page`], a plain record of what a run folder holds. Out: one HTML document.

use std::fmt::Write as _;

use super::chart::curve;
use super::example::{Example, choose};
use super::html::{details, escape, paragraph, section, table};
use super::table as tables;
use crate::evaluate::Summary;
use crate::train::StepRow;

const STYLE: &str = include_str!("page.css");

/// Examples on a page.
const EXAMPLES: usize = 12;

/// Metrics of the log with a curve each, as named in the log and on the page.
const METRICS: [(&str, &str); 5] = [
    ("loss", "loss"),
    ("rewards/margins", "reward margin, chosen less rejected"),
    ("rewards/accuracies", "share of pairs ranked right"),
    ("grad_norm", "gradient norm before clipping"),
    ("learning_rate", "learning rate"),
];

/// What a page shows; pieces that a run lacks are absent and named.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Page {
    /// Name of the run.
    pub title: String,
    /// Figures of every system.
    pub summary: Option<Summary>,
    /// Wall time of the stages in seconds, in the order of running where known.
    pub stages: Vec<(String, f64)>,
    /// The resolved recipe.
    pub recipe: Option<String>,
    /// Counts of the built data, by name.
    pub data: Vec<(String, String)>,
    /// Training logs.
    pub curves: Vec<Curve>,
    /// Traces with the answers of every system; the page picks some.
    pub examples: Vec<Example>,
    /// What the folder does not hold.
    pub absent: Vec<String>,
}

/// The log of one training stage.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// `sft` or `dpo`.
    pub stage: String,
    /// A row a step.
    pub rows: Vec<StepRow>,
}

/// Renders the page.
pub fn render(page: &Page) -> String {
    let title = escape(&page.title);
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title} - topalign</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n"
    );
    html.push_str(
        "<nav aria-label=\"Sections\"><a href=\"#results\">Results</a><a href=\"#differences\">Differences</a>\
         <a href=\"#exits\">Exits</a><a href=\"#training\">Training</a><a href=\"#data\">Data</a>\
         <a href=\"#rows\">Rows</a><a href=\"#run\">Run</a></nav>\n",
    );
    if !page.absent.is_empty() {
        html.push_str(&paragraph("note", &format!("Not in this folder: {}.", page.absent.join("; "))));
    }
    html.push_str(&figures(page.summary.as_ref()));
    html.push_str(&section("training", "Training", &training(&page.curves)));
    html.push_str(&section("data", "Data", &data(&page.data)));
    html.push_str(&section("rows", "Rows to look at", &rows(&page.examples)));
    html.push_str(&section("run", "What was run", &what_was_run(page)));
    html.push_str("</main>\n</body>\n</html>\n");
    html
}

fn figures(summary: Option<&Summary>) -> String {
    let absent = || paragraph("note", "No evaluation in this folder.");
    let part = |shown: fn(&Summary) -> String| summary.map_or_else(absent, shown);
    section(
        "results",
        "Results",
        &part(|summary| tables::results(summary) + &tables::classes(summary) + &tables::slices(summary)),
    ) + &section("differences", "Differences between systems", &part(tables::contrasts))
        + &section("exits", "Where it leaks", &part(tables::exits))
}

fn training(curves: &[Curve]) -> String {
    if curves.is_empty() {
        return paragraph("note", "No training log in this folder.");
    }
    let mut html = String::new();
    for log in curves {
        // Writing to a string cannot fail.
        let _ = writeln!(html, "<h3>{}, {} steps</h3>\n<div class=\"curves\">", escape(&log.stage), log.rows.len());
        for (metric, title) in METRICS {
            let points: Vec<(f64, f64)> =
                log.rows.iter().filter_map(|row| Some((row.step as f64, value(row, metric)?))).collect();
            if let Some(svg) = curve(&format!("{}: {title}", log.stage), &points) {
                html.push_str(&svg);
            }
        }
        html.push_str("</div>\n");
        html.push_str(&last_row(log));
    }
    html
}

/// A metric of a row, where it is a finite number.
fn value(row: &StepRow, metric: &str) -> Option<f64> {
    let value = match metric {
        "loss" => row.loss,
        "grad_norm" => row.grad_norm,
        "learning_rate" => Some(row.learning_rate),
        other => row.metrics.get(other).copied().flatten(),
    };
    value.filter(|value| value.is_finite())
}

/// First and last row as figures: curves alone are not readable by everyone.
fn last_row(log: &Curve) -> String {
    let (Some(first), Some(last)) = (log.rows.first(), log.rows.last()) else { return String::new() };
    let cell =
        |row: &StepRow, metric: &str| value(row, metric).map_or_else(|| "-".to_owned(), |value| format!("{value:.4e}"));
    let named = METRICS.iter().map(|(metric, _)| (*metric).to_owned());
    let others = last.metrics.keys().filter(|name| !METRICS.iter().any(|(metric, _)| metric == name)).cloned();
    let rows: Vec<Vec<String>> = named
        .chain(others)
        .filter(|metric| value(first, metric).is_some() || value(last, metric).is_some())
        .map(|metric| vec![escape(&metric), cell(first, &metric), cell(last, &metric)])
        .collect();
    let caption = format!("{}: first and last step", log.stage);
    details(&caption, &table(&caption, &["Metric", "First", "Last"], &rows))
}

fn data(counts: &[(String, String)]) -> String {
    if counts.is_empty() {
        return paragraph("note", "No built data in this folder.");
    }
    let rows: Vec<Vec<String>> = counts.iter().map(|(name, value)| vec![escape(name), escape(value)]).collect();
    details("Counts of the build", &table("Counts of the build", &["Count", "Value"], &rows))
}

fn rows(examples: &[Example]) -> String {
    if examples.is_empty() {
        return paragraph("note", "No answers in this folder.");
    }
    let chosen = choose(examples.to_vec(), EXAMPLES);
    let mut html = paragraph(
        "note",
        &format!(
            "{} of {} held-out traces, so chosen that each way in which the systems differ is seen. Marked: stated conclusions \
             (solid underline), private values (dotted), refusals (dashed). This part quotes what must stay unsaid.",
            chosen.len(),
            examples.len()
        ),
    );
    html.extend(chosen.iter().map(Example::html));
    html
}

fn what_was_run(page: &Page) -> String {
    let mut html = String::new();
    if page.stages.is_empty() {
        html.push_str(&paragraph("note", "No record of stages in this folder."));
    } else {
        let rows: Vec<Vec<String>> =
            page.stages.iter().map(|(name, seconds)| vec![escape(name), format!("{seconds:.1}")]).collect();
        html.push_str(&table("Stages", &["Stage", "Seconds"], &rows));
    }
    match &page.recipe {
        Some(recipe) => html.push_str(&details("Resolved recipe", &format!("<pre>{}</pre>\n", escape(recipe)))),
        None => html.push_str(&paragraph("note", "No resolved recipe in this folder.")),
    }
    html
}
