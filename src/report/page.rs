//! The page itself, section by section.
//!
//! In: a [`Page`]. Out: one HTML document with its style inside, that loads nothing and runs only the script of its list, which the
//! page allows by its digest.

use std::fmt::Write as _;

use base64::Engine as _;
use sha2::{Digest as _, Sha256};

use super::beside::{answers, kinds, people, twins};
use super::chart::{Chart, Series};
use super::html::Column::{Figures, Words};
use super::html::{escape, table};
use super::list::{SCRIPT, list};
use super::models::models;
use super::results::{contrasts, exits, results, slices};
use super::{LogRow, Page, ordered, oriented};
use crate::dataset::PairKind;
use crate::evaluate::SystemSummary;

const STYLE: &str = include_str!("style.css");

/// Renders the page.
pub fn render(page: &Page) -> String {
    let mut body = String::new();
    let systems = ordered(&page.summary, &page.order);
    results(&systems, &mut body);
    contrasts(&oriented(&page.summary, &page.order), &mut body);
    exits(&systems, &mut body);
    kinds_section(&systems, &mut body);
    answers(&systems, &mut body);
    twins(&systems, &mut body);
    slices(&systems, &mut body);
    models(&page.summary, &mut body);
    people(page.agreement.as_ref(), &mut body);
    training("Supervised fine-tuning", "sft", &sft_charts(&page.sft_log), &mut body);
    training("Preference optimisation", "dpo", &dpo_charts(&page.dpo_log), &mut body);
    data(page, &mut body);
    list(&page.examples, page.examples_left_out, &mut body);
    facts(page, &mut body);
    let lead = "Completion, leakage and training of one topalign run. Rates in percent with 95% intervals.";
    let mut out = head_with_script(&page.title, lead);
    out.push_str(&navigation(&body));
    out.push_str(&body);
    let _ = writeln!(out, "</main><script>{SCRIPT}</script></body></html>");
    out
}

/// Links to the sections of a body, by their headings.
fn navigation(body: &str) -> String {
    let mut out = String::from("<nav aria-label=\"Sections\"><ul>");
    for part in body.split("<h2 id=\"").skip(1) {
        let heading = part.split_once("\">").and_then(|(id, rest)| Some((id, rest.split_once("</h2>")?.0)));
        if let Some((id, heading)) = heading {
            let _ = write!(out, "<li><a href=\"#{id}\">{heading}</a></li>");
        }
    }
    out.push_str("</ul></nav>\n");
    out
}

fn kinds_section(systems: &[(&str, &SystemSummary)], out: &mut String) {
    kinds(systems, out);
    out.push_str("</section>\n");
}

/// The head of a page that runs nothing.
pub(super) fn head(title: &str, lead: &str) -> String {
    head_with(title, lead, "")
}

fn head_with_script(title: &str, lead: &str) -> String {
    let digest = base64::engine::general_purpose::STANDARD.encode(Sha256::digest(SCRIPT.as_bytes()));
    head_with(title, lead, &format!("; script-src 'sha256-{digest}'"))
}

fn head_with(title: &str, lead: &str, script: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:{script}\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><meta name=\"color-scheme\" content=\"light dark\">\
         <link rel=\"icon\" href=\"data:,\"><title>{0}</title>\n<style>\n{STYLE}</style></head>\n<body><main>\
         <header><h1>{0}</h1><p class=\"muted\">{1}</p></header>\n",
        escape(title),
        escape(lead)
    )
}

/// Opens a section under a heading.
pub(super) fn section(id: &str, heading: &str, out: &mut String) {
    let _ = writeln!(out, "<section aria-labelledby=\"{id}\"><h2 id=\"{id}\">{}</h2>", escape(heading));
}

fn series(log: &[LogRow], key: &str, name: &str) -> Series {
    let points = log.iter().filter_map(|row| Some((row.step, row.value(key)?))).collect();
    Series { name: name.to_owned(), points, ranges: Vec::new() }
}

fn chart(title: &str, series: Vec<Series>, reference: Option<(f64, &'static str)>) -> Chart {
    Chart { title: title.to_owned(), series, reference, across: "step" }
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

fn facts(page: &Page, out: &mut String) {
    if page.facts.is_empty() {
        return;
    }
    section("facts", "What was run", out);
    out.push_str("<dl class=\"facts\">");
    for (name, value) in &page.facts {
        let _ = write!(out, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(value));
    }
    out.push_str("</dl>");
    if let Some(recipe) = &page.recipe {
        let _ = write!(out, "<details><summary>The recipe, resolved</summary><pre>{}</pre></details>", escape(recipe));
    }
    out.push_str("</section>\n");
}
