//! The page itself, section by section.
//!
//! In: a [`Page`]. Out: one HTML document with its style inside, that loads nothing and runs nothing.

use std::fmt::Write as _;

use super::chart::{Chart, Series};
use super::example::example;
use super::html::Column::{Figures, Words};
use super::html::{escape, table};
use super::models::models;
use super::results::{contrasts, exits, results, slices};
use super::{LogRow, Page, ordered, oriented};
use crate::dataset::PairKind;

const STYLE: &str = include_str!("style.css");

/// Renders the page.
pub fn render(page: &Page) -> String {
    let mut out = head(&page.title);
    let systems = ordered(&page.summary, &page.order);
    results(&systems, &mut out);
    contrasts(&oriented(&page.summary, &page.order), &mut out);
    models(&page.summary, &mut out);
    exits(&systems, &mut out);
    slices(&systems, &mut out);
    training("Supervised fine-tuning", "sft", &sft_charts(&page.sft_log), &mut out);
    training("Preference optimisation", "dpo", &dpo_charts(&page.dpo_log), &mut out);
    data(page, &mut out);
    examples(page, &mut out);
    facts(page, &mut out);
    out.push_str("</main></body></html>\n");
    out
}

fn head(title: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><meta name=\"color-scheme\" content=\"light dark\">\
         <link rel=\"icon\" href=\"data:,\"><title>{0}</title>\n<style>\n{STYLE}</style></head>\n<body><main>\
         <header><h1>{0}</h1><p class=\"muted\">Completion, leakage and training of one topalign run. Rates in percent with 95% intervals.</p></header>\n",
        escape(title)
    )
}

/// Opens a section under a heading.
pub(super) fn section(id: &str, heading: &str, out: &mut String) {
    let _ = writeln!(out, "<section aria-labelledby=\"{id}\"><h2 id=\"{id}\">{}</h2>", escape(heading));
}

fn series(log: &[LogRow], key: &str, name: &str) -> Series {
    let points = log.iter().filter_map(|row| Some((row.step, row.value(key)?))).collect();
    Series { name: name.to_owned(), points }
}

fn chart(title: &str, series: Vec<Series>, reference: Option<(f64, &'static str)>) -> Chart {
    Chart { title: title.to_owned(), series, reference }
}

fn sft_charts(log: &[LogRow]) -> Vec<Chart> {
    vec![
        chart("Loss per answer token", vec![series(log, "loss", "loss")], None),
        chart("Learning rate", vec![series(log, "learning_rate", "learning rate")], None),
        chart("Gradient norm before clipping", vec![series(log, "grad_norm", "gradient norm")], None),
    ]
}

fn dpo_charts(log: &[LogRow]) -> Vec<Chart> {
    let by_kind = |metric: &str| {
        let all = series(log, metric, "all pairs");
        let kinds =
            PairKind::ALL.into_iter().map(|kind| series(log, &format!("{metric}/{}", kind.name()), kind.name()));
        std::iter::once(all).chain(kinds).collect::<Vec<_>>()
    };
    let rewards = vec![series(log, "rewards/chosen", "chosen"), series(log, "rewards/rejected", "rejected")];
    vec![
        chart(
            "Loss",
            vec![series(log, "loss", "loss")],
            Some((std::f64::consts::LN_2, "ln 2: policy equals reference")),
        ),
        chart("Reward margin, chosen minus rejected", by_kind("rewards/margins"), Some((0.0, ""))),
        chart("Pairs ranked right", by_kind("rewards/accuracies"), Some((0.5, "chance"))),
        chart("Rewards", rewards, Some((0.0, ""))),
        chart("Learning rate", vec![series(log, "learning_rate", "learning rate")], None),
    ]
}

fn training(heading: &str, id: &str, charts: &[Chart], out: &mut String) {
    let drawn: Vec<String> = charts.iter().map(Chart::render).filter(|figure| !figure.is_empty()).collect();
    if !drawn.is_empty() {
        section(id, heading, out);
        let _ = writeln!(out, "<div class=\"grid3\">{}</div></section>", drawn.concat());
    }
}

fn data(page: &Page, out: &mut String) {
    if page.data_counts.is_empty() {
        return;
    }
    section("data", "Training data", out);
    out.push_str("<div class=\"grid3\">");
    for counts in &page.data_counts {
        let rows: Vec<Vec<String>> =
            counts.counts.iter().map(|(name, count)| vec![escape(name), count.to_string()]).collect();
        out.push_str(&table(&counts.heading, &[Words("What"), Figures("Rows")], &rows));
    }
    out.push_str("</div></section>\n");
}

fn examples(page: &Page, out: &mut String) {
    if page.examples.is_empty() {
        return;
    }
    section("examples", "Rows to look at", out);
    out.push_str(
        "<p class=\"note\">Held-out traces, those first on which the systems differ. Marked: <mark class=\"e0\">the conclusion</mark> \
         <mark class=\"e1\">private fragments</mark> <mark class=\"e2\">weak or distant matches, which decide nothing alone</mark> \
         <mark class=\"e3\">refusals</mark>. Answers are shown as they came, sensitive conclusions included.</p>\n",
    );
    page.examples.iter().for_each(|row| out.push_str(&example(row)));
    out.push_str("</section>\n");
}

fn facts(page: &Page, out: &mut String) {
    if page.facts.is_empty() {
        return;
    }
    section("facts", "What was run", out);
    out.push_str("<dl class=\"facts\">");
    for (name, value) in &page.facts {
        let _ = write!(out, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(value));
    }
    out.push_str("</dl></section>\n");
}
