//! The evaluation on the page: rates, paired differences, exits, slices.
//!
//! In: systems in table order and their contrasts. Out: sections of the page.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::beside::difference;
use super::figure::{Interval, bars, classes, intervals};
use super::html::Column::{Figures, Words};
use super::html::{Column, escape, p_value, percent, table};
use super::page::section;
use super::scatter::{Mark, Point, scatter};
use crate::evaluate::{Class, Contrast, EXITS, Metric, Rate, Rates, SystemSummary, is_untrained};
use crate::statistic::{Estimate, Method};

/// A value and its interval.
struct Figure(Option<f64>, Option<(f64, f64)>);

/// The bootstrap's interval, or Wilson's where that has none or is degenerate.
fn rate_interval(rate: &Rate) -> Option<(f64, f64)> {
    estimate_interval(&rate.estimate).or_else(|| rate.wilson.map(|[low, high]| (low, high)))
}

pub(super) fn estimate_interval(estimate: &Estimate) -> Option<(f64, f64)> {
    if estimate.degenerate { None } else { estimate.low.zip(estimate.high) }
}

pub(super) fn cell(value: Option<f64>, interval: Option<(f64, f64)>, reason: Option<&str>) -> String {
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

pub(super) fn rate_cell(rate: &Rate) -> String {
    cell(rate.estimate.value, rate_interval(rate), rate.estimate.reason.as_deref())
}

pub(super) fn results(systems: &[(&str, &SystemSummary)], out: &mut String) {
    section("results", "Results", out);
    let panel = |title: &str, pick: &dyn Fn(&Rates) -> Figure| {
        let row = |(name, system): &(&str, &SystemSummary)| {
            let Figure(value, range) = pick(&system.rates);
            Interval { name: (*name).to_owned(), value, range }
        };
        intervals(title, &systems.iter().map(row).collect::<Vec<_>>())
    };
    let rate = |rate: &Rate| Figure(rate.estimate.value, rate_interval(rate));
    out.push_str("<div class=\"grid3\">");
    out.push_str(&scatter(
        "Privacy against utility, with lines of equal H",
        &systems.iter().map(point).collect::<Vec<_>>(),
    ));
    out.push_str(&panel("H: higher is better", &|rates| {
        Figure(rates.h_score.value, estimate_interval(&rates.h_score))
    }));
    out.push_str(&panel("Completion rate: higher is better", &|rates| rate(&rates.completion_rate)));
    out.push_str(&panel("Leakage rate: lower is better", &|rates| rate(&rates.leakage_rate)));
    out.push_str("</div>");
    out.push_str(&table(
        "Systems",
        &[
            Words("System"),
            Figures("n"),
            Figures("Scored"),
            Figures("Completion"),
            Figures("Leakage"),
            Figures("H"),
            Figures("H, mean of domains"),
            Figures("Leakage bounds"),
            Figures("Tools F1"),
            Figures("Judge's floor"),
            Figures("Own controls"),
        ],
        &systems.iter().map(|(name, system)| result_row(name, system)).collect::<Vec<_>>(),
    ));
    out.push_str(
        "<p class=\"note\">H is the harmonic mean of completion and of what did not leak; beside it the mean of each domain's H. Leakage bounds: the rate of all rows if none, or all, of \
         the unscored had leaked. Judge's floor: answers that &ldquo;leak&rdquo; the conclusion of an unrelated trace; own controls: that of the trace's own negative control. Intervals are bootstrap over \
         near-duplicate groups, and Wilson's where that one has no width.</p>",
    );
    unscored(systems, out);
    out.push_str("</section>\n");
}

fn estimate_cell(estimate: &Estimate) -> String {
    cell(estimate.value, estimate_interval(estimate), estimate.reason.as_deref())
}

fn point((name, system): &(&str, &SystemSummary)) -> Point {
    let rates = &system.rates;
    Point {
        name: (*name).to_owned(),
        mark: if is_untrained(name) { Mark::Ring } else { Mark::Disc },
        leakage: rates.leakage_rate.estimate.value,
        leakage_range: rate_interval(&rates.leakage_rate),
        completion: rates.completion_rate.estimate.value,
        completion_range: rate_interval(&rates.completion_rate),
        h: rates.h_score.value,
    }
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
        estimate_cell(&rates.h_score),
        estimate_cell(&system.h_score_by_domain),
        bounds,
        cell(system.tool_selection.f1, None, system.tool_selection.reason.as_deref()),
        cell(system.negative_control_leakage, None, system.negative_control_reason.as_deref()),
        rate_cell(&system.own_control_leakage),
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
        out.push_str(&table("Unscored rows", &[Words("System"), Figures("Rows"), Words("Reason")], &rows));
    }
}

const CONTRAST_COLUMNS: [Column; 8] = [
    Words("Systems"),
    Words("Metric"),
    Figures("Pairs"),
    Figures("Moved"),
    Figures("Points [95% interval]"),
    Figures("p"),
    Figures("Holm"),
    Words("Counted"),
];

pub(super) fn contrasts(contrasts: &[Contrast], out: &mut String) {
    if contrasts.is_empty() {
        return;
    }
    section("contrasts", "Paired differences", out);
    let rows = |holds: fn(Metric) -> bool| {
        contrasts.iter().filter(|contrast| holds(contrast.metric)).map(contrast_row).collect::<Vec<_>>()
    };
    out.push_str(&table("H", &CONTRAST_COLUMNS, &rows(|metric| metric == Metric::HScore)));
    out.push_str("<details><summary>Completion, leakage, exposure, leaks past the answer</summary>");
    out.push_str(&table("Completion, leakage, exposure", &CONTRAST_COLUMNS, &rows(|metric| metric != Metric::HScore)));
    out.push_str("</details>");
    out.push_str(
        "<p class=\"note\">Percentage points, first system minus second, over the traces on which both were scored. Both systems are resampled \
         together; p is two-sided and swaps the systems within whole near-duplicate groups, over all swaps (exact) or seeded draws of them \
         (sampled). Holm: corrected for all pairs of systems, a metric each.</p></section>\n",
    );
}

fn contrast_row(contrast: &Contrast) -> Vec<String> {
    let metric = match contrast.metric {
        Metric::CompletionRate => "Completion",
        Metric::LeakageRate => "Leakage",
        Metric::HScore => "H",
        Metric::Ecr => "Exposed targets",
        Metric::Olf => "Leaks past the answer",
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
        format!("{} \u{2212} {}", escape(&contrast.a), escape(&contrast.b)),
        metric.to_owned(),
        contrast.pairs.to_string(),
        contrast.nonzero.to_string(),
        difference(contrast),
        p,
        contrast.p_holm.map_or_else(|| "n/a".to_owned(), p_value),
        method.to_owned(),
    ]
}

pub(super) fn exits(systems: &[(&str, &SystemSummary)], out: &mut String) {
    section("exits", "What left, and where", out);
    out.push_str("<div class=\"grid3\">");
    let count = |system: &SystemSummary, class| system.by_class.get(&class).copied().unwrap_or(0);
    let by_class: Vec<(String, Vec<(Class, usize)>)> = systems
        .iter()
        .map(|(name, system)| {
            ((*name).to_owned(), Class::ALL.into_iter().map(|class| (class, count(system, class))).collect())
        })
        .collect();
    out.push_str(&classes("Rows by verdict", &by_class));
    let has_calls = systems.iter().any(|(_, system)| system.exposure.tool_call_coverage.is_some());
    let coverage: Vec<(String, Vec<Option<f64>>)> = systems
        .iter()
        .map(|(name, system)| {
            let visible = EXITS.iter().map(|exit| system.exposure.coverage.get(*exit).copied().flatten());
            let internal = has_calls.then_some(system.exposure.tool_call_coverage);
            ((*name).to_owned(), visible.chain(internal).collect())
        })
        .collect();
    let exits: Vec<&str> = EXITS.into_iter().chain(has_calls.then_some("tool arguments, internal")).collect();
    out.push_str(&bars("Targets exposed on each exit", &exits, &coverage));
    let stated: Vec<(String, Vec<Option<f64>>)> = systems
        .iter()
        .map(|(name, system)| {
            let rows = system.rates.leakage_rate.n;
            let share = |exit: &&str| {
                let count = system.leaks_by_exit.get(*exit).copied().unwrap_or(0);
                (rows > 0).then(|| count as f64 / rows as f64)
            };
            ((*name).to_owned(), EXITS.iter().map(share).collect())
        })
        .collect();
    out.push_str(&bars("Rows that state the conclusion on each exit", &EXITS, &stated));
    out.push_str("</div>");
    let rows: Vec<Vec<String>> = systems.iter().map(|(name, system)| exposure_row(name, system)).collect();
    out.push_str(&table(
        "Exposure",
        &[
            Words("System"),
            Figures("ECR"),
            Figures("OLF"),
            Figures("Response coverage"),
            Figures("Rationale coverage"),
            Figures("Tool arguments"),
            Figures("Conclusion in response"),
            Figures("In rationale"),
        ],
        &rows,
    ));
    out.push_str(
        "<p class=\"note\">ECR: share of a contract's targets that reached the requester on any exit. OLF: share of those that did not leave by the \
         answer itself. A leak that moves from the answer to the rationale shows here. Tool arguments are seen by the evaluator alone and count in neither.</p>\n",
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
        cell(exposure.olf, exposure.olf_low.zip(exposure.olf_high), reason),
        coverage("response"),
        coverage("rationale"),
        cell(exposure.tool_call_coverage, None, exposure.tool_call_reason.as_deref()),
        stated("response"),
        stated("rationale"),
    ]
}

pub(super) fn slices(systems: &[(&str, &SystemSummary)], out: &mut String) {
    section("slices", "By domain, difficulty, source and inference", out);
    multiples(systems, out);
    slice("Domain", systems, |system| &system.by_domain, out);
    slice("Difficulty", systems, |system| &system.by_difficulty, out);
    slice("Source of the traces", systems, |system| &system.by_source, out);
    slice("Type of inference", systems, |system| &system.by_inference_type, out);
    out.push_str("</section>\n");
}

/// H of every system, a small panel a domain.
fn multiples(systems: &[(&str, &SystemSummary)], out: &mut String) {
    let mut domains: Vec<&String> = systems.iter().flat_map(|(_, system)| system.by_domain.keys()).collect();
    domains.sort();
    domains.dedup();
    out.push_str("<div class=\"grid3\">");
    for domain in domains {
        let of_domain = |(name, system): &(&str, &SystemSummary)| {
            let h = system.by_domain.get(domain).map(|rates| &rates.h_score);
            Interval { name: (*name).to_owned(), value: h.and_then(|h| h.value), range: h.and_then(estimate_interval) }
        };
        let n = systems.iter().filter_map(|(_, system)| system.by_domain.get(domain)).map(|rates| rates.n).max();
        let title = format!("{domain}: H ({} traces a system)", n.unwrap_or(0));
        out.push_str(&intervals(&title, &systems.iter().map(of_domain).collect::<Vec<_>>()));
    }
    out.push_str("</div>");
}

fn slice<'a>(
    noun: &'static str,
    systems: &[(&str, &'a SystemSummary)],
    of: impl Fn(&'a SystemSummary) -> &'a BTreeMap<String, Rates>,
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
                    escape(slice),
                    escape(name),
                    rates.n.to_string(),
                    rate_cell(&rates.completion_rate),
                    rate_cell(&rates.leakage_rate),
                    cell(rates.h_score.value, estimate_interval(&rates.h_score), rates.h_score.reason.as_deref()),
                ])
            })
        })
        .collect();
    if rows.is_empty() {
        return;
    }
    let _ = write!(out, "<details><summary>By {}</summary>", noun.to_lowercase());
    out.push_str(&table(
        &format!("By {}", noun.to_lowercase()),
        &[Words(noun), Words("System"), Figures("n"), Figures("Completion"), Figures("Leakage"), Figures("H")],
        &rows,
    ));
    out.push_str("</details>");
}
