//! What a run of sessions adds to the page: statuses, known beside measured, and the frontier of privacy and utility.
//!
//! In: an [`Outcome`]. Out: sections of the page.

use std::fmt::Write as _;

use crate::report::html::Column::{Figures, Words};
use crate::report::html::{escape, table};
use crate::report::page::section;
use crate::session::{FrontierRow, KnownRow, Outcome, Slice};
use crate::statistic::Estimate;

/// The plot's edges.
const LEFT: f64 = 54.0;
const TOP: f64 = 14.0;
const SIZE: f64 = 320.0;

/// The sections.
pub(super) fn sections(outcome: &Outcome) -> String {
    let mut out = String::new();
    section("played", "Sessions that were played", &mut out);
    let counts: Vec<String> =
        outcome.sessions.iter().map(|(status, count)| format!("{count} {}", escape(status))).collect();
    let _ = writeln!(out, "<p>{}</p></section>", counts.join(", "));
    frontier(&outcome.frontier, &mut out);
    known(&outcome.known, &mut out);
    out
}

/// What must come out beside what did.
fn known(rows: &[KnownRow], out: &mut String) {
    if rows.is_empty() {
        return;
    }
    section("known", "Known and measured", out);
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let measured = Estimate { value: row.measured, low: row.low, high: row.high, ..Estimate::default() };
            let holds = row.inside.map_or("n/a", |inside| if inside { "yes" } else { "no" });
            vec![
                escape(&row.condition),
                escape(&row.metric),
                format!("{:.4}", row.known),
                number(&measured, 4),
                holds.to_owned(),
                row.n.to_string(),
            ]
        })
        .collect();
    let head = [
        Words("Condition"),
        Words("Metric"),
        Figures("Known"),
        Figures("Measured [95% interval]"),
        Figures("Holds"),
        Figures("Sessions"),
    ];
    out.push_str(&table("Expectations under the scripted policies, as fractions", &head, &cells));
    out.push_str("<p class=\"note\">Of intervals at 95%, one in twenty misses the value by chance.</p></section>\n");
}

/// Privacy together with what it costs.
fn frontier(rows: &[FrontierRow], out: &mut String) {
    section("frontier", "Privacy and utility", out);
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            vec![
                escape(&row.condition),
                if row.slice == Slice::Tasks { "normal tasks".to_owned() } else { "probe".to_owned() },
                row.n.to_string(),
                number(&row.exposure, 3),
                number(&row.visible, 2),
                number(&row.overlap, 2),
                number(&row.overlap_rate, 3),
                number(&row.success, 3),
                number(&row.backend_success, 3),
                number(&row.tool_calls, 2),
                format!("{} ({})", number(&row.latency_seconds, 2), escape(&row.latency_source)),
                number(&row.cost, 5),
            ]
        })
        .collect();
    let head = [
        Words("Condition"),
        Words("Requests"),
        Figures("Sessions"),
        Figures("Exposure"),
        Figures("Visible targets"),
        Figures("Overlap"),
        Figures("Overlap rate"),
        Figures("Task success"),
        Figures("Calls that did not fail"),
        Figures("Tool calls"),
        Figures("Seconds"),
        Figures("Cost"),
    ];
    out.push_str(&table("Means a session [95% interval]", &head, &cells));
    let points: Vec<(&FrontierRow, f64, f64)> =
        rows.iter().filter_map(|row| Some((row, row.exposure.value?, row.success.value?))).collect();
    if !points.is_empty() {
        out.push_str(&scatter(&points));
    }
    out.push_str("</section>\n");
}

fn number(estimate: &Estimate, decimals: usize) -> String {
    let Some(value) = estimate.value else { return "n/a".to_owned() };
    match estimate.low.zip(estimate.high) {
        Some((low, high)) if high > low => format!("{value:.decimals$} [{low:.decimals$}, {high:.decimals$}]"),
        Some(_) => format!("{value:.decimals$} (constant)"),
        None => format!("{value:.decimals$}"),
    }
}

/// Exposure to the right, success upwards: the upper left corner is what one wants.
fn scatter(points: &[(&FrontierRow, f64, f64)]) -> String {
    let x = |share: f64| LEFT + share.clamp(0.0, 1.0) * SIZE;
    let y = |share: f64| TOP + (1.0 - share.clamp(0.0, 1.0)) * SIZE;
    let (width, height) = (LEFT + SIZE + 220.0, TOP + SIZE + 44.0);
    let mut out = format!(
        "<figure class=\"chart\"><figcaption>Task success against exposure in normal tasks</figcaption><svg viewBox=\"0 0 {width} {height}\" style=\"max-width:{width}px\" role=\"img\" \
         aria-label=\"Task success against exposure; the table above has the numbers.\">"
    );
    for step in 0..=4 {
        let share = f64::from(step) / 4.0;
        let (at, down) = (x(share), y(share));
        let _ = write!(
            out,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{0}\" y1=\"{down}\" y2=\"{down}\"/><line class=\"grid\" y1=\"{TOP}\" y2=\"{1}\" x1=\"{at}\" x2=\"{at}\"/>\
             <text x=\"{2}\" y=\"{3}\" text-anchor=\"end\">{share:.2}</text><text x=\"{at}\" y=\"{4}\" text-anchor=\"middle\">{share:.2}</text>",
            LEFT + SIZE,
            TOP + SIZE,
            LEFT - 6.0,
            down + 4.0,
            TOP + SIZE + 16.0
        );
    }
    let _ = write!(
        out,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">share of the targets exposed</text>",
        LEFT + SIZE / 2.0,
        TOP + SIZE + 36.0
    );
    for (place, (row, exposure, success)) in points.iter().enumerate() {
        let (at, down, color) = (x(*exposure), y(*success), place % 4);
        let ends = |estimate: &Estimate| estimate.low.zip(estimate.high);
        if let Some((low, high)) = ends(&row.exposure) {
            let _ = write!(
                out,
                "<line class=\"s{color}\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{down:.1}\" y2=\"{down:.1}\"/>",
                x(low),
                x(high)
            );
        }
        if let Some((low, high)) = ends(&row.success) {
            let _ = write!(
                out,
                "<line class=\"s{color}\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>",
                y(low),
                y(high)
            );
        }
        let _ = write!(
            out,
            "<circle class=\"dot s{color}\" cx=\"{at:.1}\" cy=\"{down:.1}\" r=\"5\"><title>{0}: exposure {exposure:.3}, success {success:.3}</title></circle>\
             <text class=\"name\" x=\"{1:.1}\" y=\"{2:.1}\">{0}</text>",
            escape(&row.condition),
            at + 9.0,
            down - 7.0
        );
    }
    out.push_str("</svg></figure>\n");
    out
}
