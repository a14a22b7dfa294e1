//! The paper's numbers beside one's own, for a terminal.
//!
//! In: a [`Summary`]. Out: lines of text, each own figure first; what one's own log does not have stands alone.

use std::fmt::Write as _;

use super::published::{PUBLISHED, TABLES, outlet_row};
use super::summary::Summary;
use super::text::{percent, plain};

/// Both, as `own / paper`.
fn pair(own: Option<f64>, paper: f64) -> String {
    format!("{} / {}", percent(own), percent(Some(paper)))
}

/// Renders tables 3 to 6, the paths, replay and the frontier.
pub fn text_published(summary: &Summary) -> String {
    // Writing to a string cannot fail.
    let mut out = format!("\nown / paper ({PUBLISHED})\n");
    for row in &TABLES.views {
        let own = &summary.aggregate.views[&row.view];
        let (coverage, missed) = (pair(own.coverage, row.coverage), pair(own.missed, row.missed));
        let _ =
            writeln!(out, "  {:<23} coverage {coverage}, missed {missed}, n {} / {}", row.view.title(), own.n, row.n);
    }
    outlets(summary, &mut out);
    recognition(summary, &mut out);
    schema(summary, &mut out);
    let paths = &summary.aggregate.paths;
    let shares: Vec<String> = TABLES
        .paths
        .iter()
        .map(|(kind, share)| format!("{} {}", kind.replace('_', " "), pair(paths.shares.get(*kind).copied(), *share)))
        .collect();
    let (own, paper) = (paths.entity_sessions, TABLES.path_entity_sessions);
    let _ = writeln!(out, "  paths of {own} / {paper} entity-sessions: {}", shares.join(", "));
    for change in TABLES.replay.iter().chain(&TABLES.frontier) {
        let before = change.before.map_or_else(|| "n/a".to_owned(), |before| before.to_string());
        let (intervention, figure, after) = (change.intervention, change.figure, change.after);
        let _ = writeln!(out, "  paper only, {intervention}: {figure} {before} -> {after}");
    }
    out
}

/// Table 4, for conditions that have the name of one of its rows.
fn outlets(summary: &Summary, out: &mut String) {
    for (condition, group) in &summary.aggregate.by_condition {
        let Some(row) = outlet_row(condition) else { continue };
        let of = |name: &str| group.coverage.get(name).and_then(|figure| figure.mean);
        let _ = writeln!(
            out,
            "  {} / {}: session {}, email {}, console {}, OLF {}, above 0 {}/{} / {}/10",
            plain(condition),
            row.paper,
            pair(group.ecr.mean, row.session),
            pair(of("email"), row.email),
            pair(of("console"), row.console),
            pair(group.olf.mean, row.olf),
            group.olf_positive,
            group.olf.n,
            row.olf_positive
        );
    }
}

/// Table 5: its settings are none of one's own, so the rows stand under them.
fn recognition(summary: &Summary, out: &mut String) {
    let line = |name: &str, figures: [Option<f64>; 5], out: &mut String| {
        let [confirmed, reported, precision, fdr, gap] = figures.map(percent);
        let _ = writeln!(
            out,
            "  {name}: confirmed {confirmed}, reported {reported}, precision {precision}, FDR {fdr}, gap {gap}"
        );
    };
    for (condition, group) in &summary.aggregate.by_condition {
        let Some(own) = &group.recognition else { continue };
        let figures = [&own.confirmed, &own.reported, &own.precision, &own.fdr, &own.gap];
        line(&format!("own, {}", plain(condition)), figures.map(|figure| figure.mean), out);
    }
    for row in &TABLES.recognition {
        let figures = [row.confirmed, row.reported, row.precision, row.fdr, row.gap];
        line(&format!("paper, {}", row.name), figures.map(Some), out);
    }
}

/// Table 6, beside one's own schema groups.
fn schema(summary: &Summary, out: &mut String) {
    for row in &TABLES.schema {
        let own = summary.aggregate.schema_groups.get(&row.group);
        let _ = writeln!(
            out,
            "  schema {:?} / {}: internal {}, visible {}, overlap {}",
            row.group,
            row.model,
            pair(own.and_then(|own| own.internal.mean), row.internal),
            pair(own.and_then(|own| own.visible.mean), row.visible),
            pair(own.and_then(|own| own.overlap.mean), row.overlap)
        );
    }
}
