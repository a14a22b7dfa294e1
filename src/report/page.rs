//! The page itself, section by section.
//!
//! In: a [`Page`]. Out: one HTML document with its style inside, that loads nothing and runs nothing.

use std::fmt::Write as _;

use super::chart::{Chart, Series};
use super::example::example;
use super::figure::{Interval, bars, classes, intervals};
use super::html::{escape, p_value, percent, points, table};
use super::{LogRow, Page, ordered, oriented};
use crate::dataset::PairKind;
use crate::evaluate::{Class, Contrast, EXITS, Metric, Rate, Rates, SystemSummary};
use crate::statistic::{Estimate, Method};

const STYLE: &str = include_str!("style.css");

/// Renders the page.
pub fn render(page: &Page) -> String {
    let mut out = head(&page.title);
    let systems = ordered(&page.summary, &page.order);
    results(&systems, &mut out);
    contrasts(&oriented(&page.summary, &page.order), &mut out);
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

fn section(id: &str, heading: &str, out: &mut String) {
    let _ = writeln!(out, "<section aria-labelledby=\"{id}\"><h2 id=\"{id}\">{}</h2>", escape(heading));
}

/// A rate as percent with its interval: the bootstrap's, or Wilson's where all rows agree.
fn rate_interval(rate: &Rate) -> Option<(f64, f64)> {
    if rate.estimate.degenerate {
        return rate.wilson.map(|[low, high]| (low, high));
    }
    estimate_interval(&rate.estimate)
}

fn estimate_interval(estimate: &Estimate) -> Option<(f64, f64)> {
    if estimate.degenerate { None } else { estimate.low.zip(estimate.high) }
}

fn cell(value: Option<f64>, interval: Option<(f64, f64)>, reason: Option<&str>) -> String {
    let mut out = match (value, reason) {
        (None, Some(reason)) => {
            return format!(
                "<span class=\"muted\" title=\"{0}\">n/a<span class=\"hidden\">: {0}</span></span>",
                escape(reason)
            );
        }
        _ => format!("<b>{}</b>", percent(value)),
    };
    if let Some((low, high)) = interval {
        let _ = write!(out, " <span class=\"muted\">[{:.1}, {:.1}]</span>", 100.0 * low, 100.0 * high);
    }
    out
}

fn rate_cell(rate: &Rate) -> String {
    cell(rate.estimate.value, rate_interval(rate), rate.estimate.reason.as_deref())
}

fn results(systems: &[(&str, &SystemSummary)], out: &mut String) {
    section("results", "Results", out);
    let panel = |title: &str, pick: &dyn Fn(&SystemSummary) -> (Option<f64>, Option<(f64, f64)>)| {
        let row = |(name, system): &(&str, &SystemSummary)| {
            let (value, interval) = pick(system);
            Interval { name: (*name).to_owned(), value, interval }
        };
        intervals(title, &systems.iter().map(row).collect::<Vec<_>>())
    };
    out.push_str("<div class=\"grid3\">");
    out.push_str(&panel("H, completion and privacy together: higher is better", &|system| {
        (system.rates.h_score.value, estimate_interval(&system.rates.h_score))
    }));
    out.push_str(&panel("Completion rate: higher is better", &|system| {
        (system.rates.completion_rate.estimate.value, rate_interval(&system.rates.completion_rate))
    }));
    out.push_str(&panel("Leakage rate: lower is better", &|system| {
        (system.rates.leakage_rate.estimate.value, rate_interval(&system.rates.leakage_rate))
    }));
    out.push_str("</div>");
    out.push_str(&table(
        "Systems",
        &["System", "n", "Scored", "Completion", "Leakage", "H", "Leakage bounds", "Tools F1", "Judge's floor"],
        &systems.iter().map(|(name, system)| result_row(name, system)).collect::<Vec<_>>(),
    ));
    out.push_str(
        "<p class=\"note\">H is the harmonic mean of completion and of what did not leak. Leakage bounds: the rate of all rows if none, or all, of \
         the unscored had leaked. Judge's floor: answers that &ldquo;leak&rdquo; the conclusion of an unrelated trace. Intervals are bootstrap over \
         near-duplicate groups, and Wilson's where all rows agree.</p>",
    );
    unscored(systems, out);
    out.push_str("</section>\n");
}

fn result_row(name: &str, system: &SystemSummary) -> Vec<String> {
    let rates = &system.rates;
    let bounds = rates.leakage_bounds.map_or_else(
        || "n/a".to_owned(),
        |[low, high]| {
            if high - low < 1e-12 {
                percent(Some(low))
            } else {
                format!("{} to {}", percent(Some(low)), percent(Some(high)))
            }
        },
    );
    vec![
        escape(name),
        rates.n.to_string(),
        rates.scored.to_string(),
        rate_cell(&rates.completion_rate),
        rate_cell(&rates.leakage_rate),
        cell(rates.h_score.value, estimate_interval(&rates.h_score), rates.h_score.reason.as_deref()),
        bounds,
        cell(system.tool_selection.f1, None, system.tool_selection.reason.as_deref()),
        cell(system.negative_control_leakage, None, system.negative_control_reason.as_deref()),
    ]
}

fn unscored(systems: &[(&str, &SystemSummary)], out: &mut String) {
    let rows: Vec<Vec<String>> = systems
        .iter()
        .flat_map(|(name, system)| {
            system.unscored_reasons.iter().map(|(reason, count)| vec![escape(name), count.to_string(), escape(reason)])
        })
        .collect();
    if !rows.is_empty() {
        out.push_str(&table("Unscored rows", &["System", "Rows", "Reason"], &rows));
    }
}

fn contrasts(contrasts: &[Contrast], out: &mut String) {
    if contrasts.is_empty() {
        return;
    }
    section("contrasts", "Paired differences", out);
    let rows: Vec<Vec<String>> = contrasts.iter().map(contrast_row).collect();
    let main = contrasts.iter().filter(|contrast| contrast.metric == Metric::HScore).count();
    let head = ["Metric", "Systems", "Pairs", "Moved", "Points [95% interval]", "p", "Counted"];
    let (h, others): (Vec<_>, Vec<_>) =
        contrasts.iter().zip(rows).partition(|(contrast, _)| contrast.metric == Metric::HScore);
    let strip = |rows: Vec<(&Contrast, Vec<String>)>| rows.into_iter().map(|(_, row)| row).collect::<Vec<_>>();
    if main > 0 {
        out.push_str(&table("H", &head, &strip(h)));
    }
    if !others.is_empty() {
        out.push_str("<details><summary>Completion, leakage and exposure</summary>");
        out.push_str(&table("Completion, leakage and exposure", &head, &strip(others)));
        out.push_str("</details>");
    }
    out.push_str(
        "<p class=\"note\">Percentage points, first system minus second, over the traces on which both were scored. Both systems are resampled \
         together; p is two-sided and swaps the systems within pairs, over all swaps (exact) or seeded draws of them (sampled).</p></section>\n",
    );
}

fn contrast_row(contrast: &Contrast) -> Vec<String> {
    let metric = match contrast.metric {
        Metric::CompletionRate => "Completion",
        Metric::LeakageRate => "Leakage",
        Metric::HScore => "H",
        Metric::Ecr => "Exposed targets",
    };
    let difference = match (contrast.difference, contrast.low.zip(contrast.high)) {
        (None, _) => cell(None, None, contrast.reason.as_deref()),
        (difference, None) => format!("<b>{}</b>", points(difference)),
        (difference, Some((low, high))) => {
            format!(
                "<b>{}</b> <span class=\"muted\">[{}, {}]</span>",
                points(difference),
                points(Some(low)),
                points(Some(high))
            )
        }
    };
    let fraction = contrast.p_fraction.as_deref().filter(|fraction| fraction.len() <= 24);
    let p = contrast.p.map_or_else(
        || "n/a".to_owned(),
        |p| match fraction {
            Some(fraction) => format!("{} <span class=\"muted\">{}</span>", p_value(p), escape(fraction)),
            None => p_value(p),
        },
    );
    let method = match contrast.method {
        Some(Method::Exact) => "exact",
        Some(Method::Sampled) => "sampled",
        None => "n/a",
    };
    vec![
        metric.to_owned(),
        format!("{} \u{2212} {}", escape(&contrast.a), escape(&contrast.b)),
        contrast.pairs.to_string(),
        contrast.nonzero.to_string(),
        difference,
        p,
        method.to_owned(),
    ]
}

fn exits(systems: &[(&str, &SystemSummary)], out: &mut String) {
    section("exits", "What left, and where", out);
    out.push_str("<div class=\"grid2\">");
    let count = |system: &SystemSummary, class| system.by_class.get(&class).copied().unwrap_or(0);
    let by_class: Vec<(String, Vec<(Class, usize)>)> = systems
        .iter()
        .map(|(name, system)| {
            ((*name).to_owned(), Class::ALL.into_iter().map(|class| (class, count(system, class))).collect())
        })
        .collect();
    out.push_str(&classes("Rows by verdict", &by_class));
    let coverage: Vec<(String, Vec<Option<f64>>)> = systems
        .iter()
        .map(|(name, system)| {
            let shares = EXITS.iter().map(|exit| system.exposure.coverage.get(*exit).copied().flatten()).collect();
            ((*name).to_owned(), shares)
        })
        .collect();
    out.push_str(&bars("Share of the contract's targets exposed on each exit", &EXITS, &coverage));
    out.push_str("</div>");
    let rows: Vec<Vec<String>> = systems.iter().map(|(name, system)| exposure_row(name, system)).collect();
    out.push_str(&table(
        "Exposure",
        &["System", "ECR", "OLF", "Response coverage", "Rationale coverage", "Conclusion in response", "In rationale"],
        &rows,
    ));
    out.push_str(
        "<p class=\"note\">ECR: share of a contract's targets that reached the requester on any exit. OLF: share of those that did not leave by the \
         answer itself. A leak that moves from the answer to the rationale shows here.</p></section>\n",
    );
}

fn exposure_row(name: &str, system: &SystemSummary) -> Vec<String> {
    let exposure = &system.exposure;
    let reason = exposure.reason.as_deref();
    let coverage = |exit: &str| cell(exposure.coverage.get(exit).copied().flatten(), None, reason);
    let stated = |exit: &str| system.leaks_by_exit.get(exit).copied().unwrap_or(0).to_string();
    vec![
        escape(name),
        cell(exposure.ecr, exposure.ecr_low.zip(exposure.ecr_high), reason),
        cell(exposure.olf, None, reason),
        coverage("response"),
        coverage("rationale"),
        stated("response"),
        stated("rationale"),
    ]
}

fn slices(systems: &[(&str, &SystemSummary)], out: &mut String) {
    section("slices", "By domain and difficulty", out);
    slice("Domain", systems, |system| &system.by_domain, out);
    slice("Difficulty", systems, |system| &system.by_difficulty, out);
    out.push_str("</section>\n");
}

fn slice<'a>(
    noun: &str,
    systems: &[(&str, &'a SystemSummary)],
    of: impl Fn(&'a SystemSummary) -> &'a std::collections::BTreeMap<String, Rates>,
    out: &mut String,
) {
    let mut names: Vec<&String> = systems.iter().flat_map(|(_, system)| of(system).keys()).collect();
    names.sort();
    names.dedup();
    let rows: Vec<Vec<String>> = names
        .iter()
        .flat_map(|slice| {
            systems.iter().filter_map(|(name, system)| {
                let rates = of(system).get(*slice)?;
                Some(vec![
                    format!("{} <span class=\"muted\">{}</span>", escape(slice), escape(name)),
                    rates.n.to_string(),
                    rate_cell(&rates.completion_rate),
                    rate_cell(&rates.leakage_rate),
                    cell(rates.h_score.value, estimate_interval(&rates.h_score), rates.h_score.reason.as_deref()),
                ])
            })
        })
        .collect();
    let _ = write!(out, "<details><summary>By {}</summary>", noun.to_lowercase());
    out.push_str(&table(&format!("By {}", noun.to_lowercase()), &[noun, "n", "Completion", "Leakage", "H"], &rows));
    out.push_str("</details>");
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
        chart("Loss (mean negative log-probability of answer tokens)", vec![series(log, "loss", "loss")], None),
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
        let _ = write!(out, "<div class=\"grid3\">{}</div></section>\n", drawn.concat());
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
        out.push_str(&table(&counts.heading, &["", "Rows"], &rows));
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
