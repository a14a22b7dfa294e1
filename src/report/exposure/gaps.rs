//! What failed or missing observations leave open, how far the tiers matter, and the paper's experiments on interventions.
//!
//! In: a [`Summary`]. Out: sections of the page.

use std::fmt::Write as _;

use super::bars::interval;
use super::published;
use crate::exposure::{Summary, TABLES};
use crate::report::html::Column::{Figures, Words};
use crate::report::html::{escape, percent, table};
use crate::report::page::section;

/// With and without sessions that have gaps, and as bounds; how far the tiers matter.
pub(super) fn completeness(summary: &Summary, out: &mut String) {
    section("completeness", "Gaps and match sensitivity", out);
    let rows: Vec<Vec<String>> = summary
        .aggregate
        .by_condition
        .iter()
        .map(|(name, group)| {
            vec![
                escape(name),
                format!("{} of {}", group.complete, group.n),
                interval(&group.ecr),
                interval(&group.complete_only.ecr),
                ends(group.bounds.ecr),
                interval(&group.olf),
                interval(&group.complete_only.olf),
                ends(group.bounds.olf),
            ]
        })
        .collect();
    let head = [
        Words("Condition"),
        Figures("Without gaps"),
        Figures("ECR"),
        Figures("ECR, without gaps only"),
        Figures("ECR, bounds"),
        Figures("OLF"),
        Figures("OLF, without gaps only"),
        Figures("OLF, bounds"),
    ];
    out.push_str(&table("A failed or missing observation is never counted as safe", &head, &rows));
    channels(summary, out);
    tiers(summary, out);
    out.push_str("</section>\n");
}

/// Coverage by channel with and without the sessions that have gaps.
fn channels(summary: &Summary, out: &mut String) {
    let groups = summary.aggregate.by_condition.iter().filter(|(_, group)| group.complete < group.n);
    let rows: Vec<Vec<String>> = groups
        .flat_map(|(name, group)| {
            group.coverage.iter().map(move |(channel, coverage)| {
                let complete = group.complete_only.coverage.get(channel);
                vec![
                    escape(name),
                    escape(channel),
                    interval(coverage),
                    complete.map_or_else(|| "n/a".to_owned(), interval),
                    ends(group.bounds.coverage.get(channel).copied()),
                ]
            })
        })
        .collect();
    if rows.is_empty() {
        return;
    }
    let head =
        [Words("Condition"), Words("Channel"), Figures("Coverage"), Figures("Without gaps only"), Figures("Bounds")];
    out.push_str(&table("Coverage where sessions have gaps", &head, &rows));
}

fn ends(ends: Option<[f64; 2]>) -> String {
    ends.map_or_else(|| "n/a".to_owned(), |[low, high]| format!("{:.1} to {:.1}%", 100.0 * low, 100.0 * high))
}

/// ECR if weaker tiers counted too.
fn tiers(summary: &Summary, out: &mut String) {
    let tiers = ["exact", "normalized", "typed", "encoded", "partial", "semantic"];
    let rows: Vec<Vec<String>> = summary
        .aggregate
        .by_condition
        .iter()
        .map(|(name, group)| {
            let tier = |tier: &&str| group.sensitivity.get(*tier).map_or_else(|| "n/a".to_owned(), interval);
            std::iter::once(escape(name)).chain(tiers.iter().map(tier)).collect()
        })
        .collect();
    let head = [
        Words("Condition"),
        Figures("exact only"),
        Figures("+ normalised (headline)"),
        Figures("+ typed"),
        Figures("+ encoded"),
        Figures("+ partial"),
        Figures("+ semantic"),
    ];
    out.push_str(&table("ECR if tiers up to each one counted", &head, &rows));
}

/// Replay and the frontier of the paper: nothing in one's own log stands beside them.
pub(super) fn interventions(out: &mut String) {
    section("interventions", "Interventions in the paper", out);
    let rows: Vec<Vec<String>> = TABLES
        .replay
        .iter()
        .chain(&TABLES.frontier)
        .map(|change| {
            let is_share = change.before.unwrap_or(0.0).max(change.after) <= 1.0;
            let number = |value: f64| if is_share { percent(Some(value)) } else { value.to_string() };
            let before = change.before.map_or_else(|| "n/a".to_owned(), number);
            vec![escape(change.intervention), escape(change.figure), before, number(change.after)]
        })
        .collect();
    let head = [Words("Intervention"), Words("Figure"), Figures("Without"), Figures("With")];
    out.push_str(&table("Replayed requests and ordinary tasks", &head, &rows));
    let _ = writeln!(out, "<p class=\"note\">The numbers are {}.</p></section>", published());
}
