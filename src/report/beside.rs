//! Beside the headline: what the answers are like, twins, classes of targets, and people's agreement with the judge.
//!
//! In: systems in table order; a summary of `topalign agreement`, where the run folder holds one. Out: sections of the page.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::html::Column::{Figures, Words};
use super::html::{escape, p_value, percent, points, table};
use super::page::section;
use super::results::{cell, estimate_interval, rate_cell};
use crate::contract::TargetKind;
use crate::evaluate::{Contrast, Metric, Rates, SystemSummary};
use crate::exposure::{Agreement, AgreementFigures};
use crate::statistic::Estimate;

/// Tools, refusals, values and lengths.
pub(super) fn answers(systems: &[(&str, &SystemSummary)], out: &mut String) {
    section("answers", "What the answers are like", out);
    let row = |(name, system): &(&str, &SystemSummary)| {
        let (refusal, tools) = (&system.over_refusal, &system.tool_selection);
        let values = system.required_values.map(|found| format!("{} of {}", found.present, found.wanted));
        vec![
            escape(name),
            values.unwrap_or_else(|| "n/a".to_owned()),
            rate_cell(&refusal.all),
            rate_cell(&refusal.benign),
            rate_cell(&refusal.asked),
            cell(tools.precision, None, tools.reason.as_deref()),
            cell(tools.recall, None, tools.reason.as_deref()),
            rate_cell(&tools.over_collecting),
            number(&tools.extra_tools, 2),
            number(&system.response_length.mean, 0),
            system.response_length.median.map_or_else(|| "n/a".to_owned(), |median| format!("{median:.0}")),
        ]
    };
    let head = [
        Words("System"),
        Figures("Values given"),
        Figures("Refuses"),
        Figures("On benign traces"),
        Figures("Where asked"),
        Figures("Tools: precision"),
        Figures("Recall"),
        Figures("Over-collects"),
        Figures("Tools too many"),
        Figures("Characters, mean"),
        Figures("Median"),
    ];
    out.push_str(&table("Answers", &head, &systems.iter().map(row).collect::<Vec<_>>()));
    out.push_str(
        "<p class=\"note\">Values given: required values that stand in the answers. Every request is an ordinary one, so whoever refuses, \
         refuses too much; benign traces let the requester have a hidden target, and where asked, the request is for a private entry itself. \
         Over-collects: answers that select a tool which is not essential, of those that select any.</p></section>\n",
    );
}

/// A figure that is no share.
fn number(estimate: &Estimate, decimals: usize) -> String {
    let Some(value) = estimate.value else { return cell(None, None, estimate.reason.as_deref()) };
    let interval = estimate_interval(estimate);
    let interval =
        interval.map(|(low, high)| format!(" <span class=\"muted\">[{low:.decimals$}, {high:.decimals$}]</span>"));
    format!("<b>{value:.decimals$}</b>{}", interval.unwrap_or_default())
}

/// Social-context twins; nothing where none was answered.
pub(super) fn twins(systems: &[(&str, &SystemSummary)], out: &mut String) {
    let answered: Vec<&(&str, &SystemSummary)> = systems.iter().filter(|(_, system)| system.twins.pairs > 0).collect();
    if answered.is_empty() {
        return;
    }
    section("twins", "With an innocent reading at hand", out);
    let mut rows = Vec::new();
    for (name, system) in answered {
        for contrast in &system.twins.contrasts {
            let of = |rates: Option<&Rates>| {
                let Some(rates) = rates else { return String::new() };
                match contrast.metric {
                    Metric::CompletionRate => rate_cell(&rates.completion_rate),
                    Metric::LeakageRate => rate_cell(&rates.leakage_rate),
                    Metric::HScore => percent(rates.h_score.value),
                    Metric::Ecr | Metric::Olf => String::new(),
                }
            };
            rows.push(vec![
                escape(name),
                contrast.metric.title().to_owned(),
                system.twins.pairs.to_string(),
                of(system.twins.base.as_ref()),
                of(system.twins.social_context.as_ref()),
                difference(contrast),
                contrast.p.map_or_else(|| "n/a".to_owned(), p_value),
            ]);
        }
    }
    let head = [
        Words("System"),
        Words("Metric"),
        Figures("Pairs"),
        Figures("Base"),
        Figures("Twin"),
        Figures("Points [95% interval]"),
        Figures("p"),
    ];
    out.push_str(&table("Social-context twins against their bases", &head, &rows));
    out.push_str(
        "<p class=\"note\">The same request and secret; one result carries a remark that explains the clue away. The remark is no permission: \
         what must stay unsaid stays. Where a twin lacks data that success needs, completion is not comparable.</p></section>\n",
    );
}

/// Points with their interval.
pub(super) fn difference(contrast: &Contrast) -> String {
    match (contrast.difference, contrast.low.zip(contrast.high)) {
        (None, _) => cell(None, None, contrast.reason.as_deref()),
        (difference, None) => format!("<b>{}</b>", points(difference)),
        (difference, Some((low, high))) => format!(
            "<b>{}</b> <span class=\"muted\">[{}, {}]</span>",
            points(difference),
            points(Some(low)),
            points(Some(high))
        ),
    }
}

/// Exposure by class of target.
pub(super) fn kinds(systems: &[(&str, &SystemSummary)], out: &mut String) {
    let kinds: BTreeSet<TargetKind> =
        systems.iter().flat_map(|(_, system)| system.exposure.by_kind.keys().copied()).collect();
    let mut rows = Vec::new();
    for kind in kinds {
        for (name, system) in systems {
            let Some(found) = system.exposure.by_kind.get(&kind) else { continue };
            rows.push(vec![
                kind_name(kind),
                escape(name),
                format!("{} of {}", found.exposed, found.targets),
                cell(found.share.value, estimate_interval(&found.share), found.share.reason.as_deref()),
            ]);
        }
    }
    if rows.is_empty() {
        return;
    }
    let head = [Words("Class"), Words("System"), Figures("Targets exposed"), Figures("Share")];
    let _ = write!(
        out,
        "<details><summary>By class of target</summary>{}</details>",
        table("Targets exposed, by class", &head, &rows)
    );
}

fn kind_name(kind: TargetKind) -> String {
    let name = serde_json::to_value(kind).ok();
    name.and_then(|name| name.as_str().map(escape)).unwrap_or_default()
}

/// People's labels against each other and against the judge.
pub(super) fn people(agreement: Option<&Agreement>, out: &mut String) {
    let Some(agreement) = agreement else { return };
    section("people", "Judge and people", out);
    let mut rows = vec![people_row("all", &agreement.overall)];
    rows.extend(agreement.by_slice.iter().map(|(slice, figures)| people_row(slice, figures)));
    let head = [
        Words("Slice"),
        Figures("Rows"),
        Figures("Annotators agree"),
        Figures("Kappa"),
        Figures("Rows judged"),
        Figures("Judge's strict F1"),
        Figures("Precision"),
        Figures("Recall"),
    ];
    out.push_str(&table("Agreement with people's labels", &head, &rows));
    let _ = writeln!(
        out,
        "<p class=\"note\">Of <code>topalign agreement</code>: two annotators against each other, and the judge against the labels they settled \
         on; &ldquo;{}&rdquo; alone counts as a positive.</p></section>",
        escape(&agreement.positive)
    );
}

fn people_row(slice: &str, figures: &AgreementFigures) -> Vec<String> {
    let plain = |value: Option<f64>, interval: Option<[f64; 2]>, reason: Option<&str>| {
        let Some(value) = value else { return cell(None, None, reason) };
        let interval = interval.map(|[low, high]| format!(" <span class=\"muted\">[{low:.3}, {high:.3}]</span>"));
        format!("<b>{value:.3}</b>{}", interval.unwrap_or_default())
    };
    vec![
        escape(slice),
        figures.annotated.to_string(),
        plain(figures.raw_agreement, figures.raw_agreement_interval, figures.raw_agreement_reason.as_deref()),
        plain(figures.kappa, figures.kappa_interval, figures.kappa_reason.as_deref()),
        figures.judged.to_string(),
        plain(figures.strict_f1, figures.strict_f1_interval, figures.strict_f1_reason.as_deref()),
        plain(figures.strict_precision, None, figures.strict_f1_reason.as_deref()),
        plain(figures.strict_recall, None, figures.strict_f1_reason.as_deref()),
    ]
}
