//! Figure 3 of the paper: grouped coverage bars by channel, and the outlet loss of every session.
//!
//! In: a [`Summary`]. Out: SVG figures, each with a table that says the same and leads to the sessions.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::{Reference, number, published};
use crate::exposure::{Figure, Group, Summary, outlet_row};
use crate::report::html::Column::{Figures, Words};
use crate::report::html::{escape, percent, table};
use crate::report::page::section;

const LEFT: f64 = 46.0;
const TOP: f64 = 12.0;
const PLOT: f64 = 190.0;
const GAP: f64 = 34.0;

/// Points of one value from which their number is written beside them.
const CROWD: usize = 12;

/// Grouped bars: one group a condition, first the session's exposure, then each visible channel.
pub(super) fn coverage(summary: &Summary, reference: Reference) -> String {
    let mut out = String::new();
    section("coverage", "Coverage by channel", &mut out);
    let groups = &summary.aggregate.by_condition;
    let names = names(groups);
    let thick = (900.0 / (groups.len() * names.len()) as f64).clamp(30.0, 56.0);
    let width = LEFT + groups.len() as f64 * (names.len() as f64 * thick + GAP) + 10.0;
    let mut svg = frame(width, "Coverage of the target set by condition and channel; the table below has the numbers.");
    let mut x = LEFT + GAP / 2.0;
    for (condition, group) in groups {
        let start = x;
        for (place, name) in names.iter().enumerate() {
            if let Some(figure) = figure(group, name) {
                bar((x, thick), figure, &class(place, *name), &mut svg);
            }
            x += thick;
        }
        label(f64::midpoint(start, x), condition, &mut svg);
        x += GAP;
    }
    let _ = write!(out, "<div class=\"wide\">{svg}</svg></div>{}", legend(&names));
    let rows: Vec<Vec<String>> = groups
        .iter()
        .map(|(condition, group)| {
            let mut row = vec![escape(condition), group.n.to_string()];
            row.push(cells(&names, condition, group));
            row
        })
        .collect();
    out.push_str(&table(
        "Coverage by channel: a number leads to the sessions behind it",
        &[Words("Condition"), Figures("Sessions"), Words("Coverage [95% interval]")],
        &rows,
    ));
    if reference == Reference::Paper {
        out.push_str(&paper(groups));
    }
    out.push_str("</section>\n");
    out
}

/// What a bar shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Bar<'a> {
    /// The visible union.
    Session,
    /// A visible channel.
    Visible(&'a str),
    /// An internal channel: no exposure.
    Internal(&'a str),
}

impl Bar<'_> {
    fn title(self) -> String {
        match self {
            Self::Session => "session".to_owned(),
            Self::Visible(name) => name.to_owned(),
            Self::Internal(name) => format!("{name} (internal, no exposure)"),
        }
    }
}

fn names(groups: &BTreeMap<String, Group>) -> Vec<Bar<'_>> {
    let mut names = BTreeSet::from([Bar::Session]);
    for group in groups.values() {
        names.extend(group.coverage.keys().map(|name| Bar::Visible(name)));
        names.extend(group.internal_coverage.keys().map(|name| Bar::Internal(name)));
    }
    names.into_iter().collect()
}

fn figure<'a>(group: &'a Group, bar: &Bar<'_>) -> Option<&'a Figure> {
    match bar {
        Bar::Session => Some(&group.ecr),
        Bar::Visible(name) => group.coverage.get(*name),
        Bar::Internal(name) => group.internal_coverage.get(*name),
    }
}

fn class(place: usize, bar: Bar<'_>) -> String {
    if let Bar::Internal(_) = bar { "inside".to_owned() } else { format!("b{}", place % 4) }
}

fn cells(bars: &[Bar<'_>], condition: &str, group: &Group) -> String {
    let cell = |bar: &Bar<'_>| {
        let figure = figure(group, bar)?;
        let channel = match bar {
            Bar::Session => "*",
            Bar::Visible(name) | Bar::Internal(name) => name,
        };
        let shown = number(&interval(figure), Some(condition), channel);
        Some(format!("<span class=\"cell\">{} {shown}</span>", escape(&bar.title())))
    };
    bars.iter().filter_map(cell).collect()
}

/// A mean with its interval.
pub(super) fn interval(figure: &Figure) -> String {
    let ends = match (figure.low, figure.high) {
        (Some(_), Some(_)) if figure.degenerate => " (constant)".to_owned(),
        (Some(low), Some(high)) => format!(" [{:.1}, {:.1}]", 100.0 * low, 100.0 * high),
        _ => String::new(),
    };
    format!("{}{ends}", percent(figure.mean))
}

fn paper(groups: &BTreeMap<String, Group>) -> String {
    let row = |(condition, group): (&String, &Group)| {
        let paper = outlet_row(condition)?;
        let pair = |own: Option<f64>, theirs: f64| format!("{} / {}", percent(own), percent(Some(theirs)));
        let of = |name: &str| group.coverage.get(name).and_then(|figure| figure.mean);
        Some(vec![
            escape(condition),
            escape(paper.paper),
            pair(group.ecr.mean, paper.session),
            pair(of("email"), paper.email),
            pair(of("console"), paper.console),
            pair(group.olf.mean, paper.olf),
            format!("{}/{} / {}/10", group.olf_positive, group.olf.n, paper.olf_positive),
        ])
    };
    let rows: Vec<Vec<String>> = groups.iter().filter_map(row).collect();
    if rows.is_empty() {
        return format!(
            "<p class=\"note\">No condition has the name of a row of the paper's table 4 ({}).</p>",
            published()
        );
    }
    let head = [
        Words("Condition"),
        Words("Paper"),
        Figures("Session"),
        Figures("Email"),
        Figures("Console"),
        Figures("OLF"),
        Figures("OLF > 0"),
    ];
    format!(
        "{}<p class=\"note\">Own / paper; the paper's {}.</p>",
        table("Beside table 4 of the paper", &head, &rows),
        published()
    )
}

/// One strip a condition: every session a point, the mean with its interval over them.
pub(super) fn outlet_loss(summary: &Summary) -> String {
    let mut out = String::new();
    section("olf", "Outlet loss: exposure that the expected outlet does not show", &mut out);
    let groups: Vec<(&String, &Group)> =
        summary.aggregate.by_condition.iter().filter(|(_, group)| group.olf.n > 0).collect();
    if groups.is_empty() {
        out.push_str("<p class=\"note\">n/a: no contract declares an expected outlet.</p></section>\n");
        return out;
    }
    let strip = 150.0;
    let width = LEFT + groups.len() as f64 * strip + 10.0;
    let mut svg = frame(width, "Outlet-loss fraction of every session, with mean and interval by condition.");
    for (place, (condition, group)) in groups.iter().enumerate() {
        let centre = LEFT + (place as f64 + 0.5) * strip;
        points(summary, condition, centre, strip, &mut svg);
        if let Some(mean) = group.olf.mean {
            whisker(centre, &group.olf, &mut svg);
            let _ = write!(
                svg,
                "<line class=\"mean\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{2:.1}\" y2=\"{2:.1}\"/>",
                centre - 22.0,
                centre + 22.0,
                y(mean),
            );
        }
        label(centre, condition, &mut svg);
    }
    let _ = write!(out, "<div class=\"wide\">{svg}</svg></div>");
    let rows: Vec<Vec<String>> = groups
        .iter()
        .map(|(condition, group)| {
            let wilson = group
                .olf_positive_interval
                .map_or(String::new(), |[low, high]| format!(" [{:.1}, {:.1}]", 100.0 * low, 100.0 * high));
            vec![
                escape(condition),
                number(&interval(&group.olf), Some(condition), "*"),
                format!("{} of {}{wilson}", group.olf_positive, group.olf.n),
            ]
        })
        .collect();
    let head = [Words("Condition"), Figures("Mean OLF"), Figures("Sessions above 0 [Wilson]")];
    out.push_str(&table("Outlet loss", &head, &rows));
    out.push_str("</section>\n");
    out
}

/// Points side by side where sessions have one value; past the strip's width they share a place and say how many they are.
fn points(summary: &Summary, condition: &str, centre: f64, strip: f64, svg: &mut String) {
    let mut levels: BTreeMap<i64, Vec<(&str, f64)>> = BTreeMap::new();
    for session in &summary.sessions {
        let own = summary.condition_of(session);
        if let Some(olf) = session.olf.filter(|_| own == condition) {
            levels.entry((olf * 60.0).round() as i64).or_default().push((&session.session_id, olf));
        }
    }
    for sessions in levels.values() {
        let step = (7.0_f64).min((strip - 30.0) / sessions.len() as f64);
        for (place, (id, olf)) in sessions.iter().enumerate() {
            let x = centre + (place as f64 - (sessions.len() - 1) as f64 / 2.0) * step;
            let _ = write!(
                svg,
                "<circle class=\"session\" data-session=\"{0}\" cx=\"{x:.1}\" cy=\"{1:.1}\" r=\"3\"><title>{0}: {2}</title></circle>",
                escape(id),
                y(*olf),
                percent(Some(*olf))
            );
        }
        if let Some((_, olf)) = sessions.first().filter(|_| sessions.len() >= CROWD) {
            let _ = write!(
                svg,
                "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{} sessions</text>",
                centre,
                (y(*olf) - 7.0).max(9.0),
                sessions.len()
            );
        }
    }
}

fn y(share: f64) -> f64 {
    TOP + (1.0 - share.clamp(0.0, 1.0)) * PLOT
}

fn frame(width: f64, sentence: &str) -> String {
    let height = TOP + PLOT + 40.0;
    let mut svg = format!(
        "<svg class=\"figure\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" height=\"{height:.0}\" role=\"img\" aria-label=\"{}\">",
        escape(sentence)
    );
    for tick in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{end:.1}\" y1=\"{level:.1}\" y2=\"{level:.1}\"/><text class=\"tick\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{:.0}%</text>",
            LEFT - 6.0,
            y(tick) + 4.0,
            100.0 * tick,
            end = width - 6.0,
            level = y(tick)
        );
    }
    svg
}

fn bar((x, thick): (f64, f64), figure: &Figure, class: &str, svg: &mut String) {
    let Some(mean) = figure.mean else { return };
    let _ = write!(
        svg,
        "<rect class=\"bar {class}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
        x + 2.0,
        y(mean),
        thick - 4.0,
        y(0.0) - y(mean)
    );
    whisker(x + thick / 2.0, figure, svg);
    let top = figure.high.unwrap_or(mean).max(mean);
    let _ = write!(
        svg,
        "<text class=\"value\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{:.0}</text>",
        x + thick / 2.0,
        (y(top) - 3.0).max(9.0),
        100.0 * mean
    );
}

fn whisker(x: f64, figure: &Figure, svg: &mut String) {
    if let (Some(low), Some(high), false) = (figure.low, figure.high, figure.degenerate) {
        let _ = write!(
            svg,
            "<line class=\"whisker\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>",
            y(low),
            y(high)
        );
    }
}

fn label(x: f64, text: &str, svg: &mut String) {
    let short: String =
        if text.chars().count() > 18 { text.chars().take(17).chain(['\u{2026}']).collect() } else { text.to_owned() };
    let _ = write!(
        svg,
        "<text class=\"name\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
        TOP + PLOT + 20.0,
        escape(&short)
    );
}

fn legend(bars: &[Bar<'_>]) -> String {
    let mut out = String::from("<ul class=\"legend\">");
    for (place, bar) in bars.iter().enumerate() {
        let _ = write!(
            out,
            "<li><svg class=\"swatch\" viewBox=\"0 0 10 10\" aria-hidden=\"true\"><rect class=\"bar {}\" width=\"10\" height=\"10\"/></svg>{}</li>",
            class(place, *bar),
            escape(&bar.title())
        );
    }
    out.push_str("</ul>");
    out
}
