//! The summary for a terminal: ids and rates, never a target or a payload.
//!
//! In: a [`Summary`]. Out: lines of text.

use std::fmt::Write as _;

use super::aggregate::Group;
use super::contrast::Contrast;
use super::figure::Figure;
use super::path::{ORDER_NOT_CAUSE, PathFigures};
use super::summary::Summary;
use crate::statistic::Method;

/// Rows without a partner or with a warning that are named.
const SHOWN: usize = 5;

/// Renders the summary.
pub fn text_summary(summary: &Summary) -> String {
    // Writing to a string cannot fail.
    let mut out = String::new();
    let counts = &summary.counts;
    let _ = writeln!(
        out,
        "{} sessions, {} observations ({} repeated, {} failed or missing), {} contracts",
        summary.sessions.len(),
        counts.rows,
        counts.duplicates,
        counts.unscored,
        summary.contracts.len()
    );
    for (name, group) in &summary.aggregate.by_condition {
        condition(name, group, &mut out);
    }
    views(summary, &mut out);
    contrasts(summary, &mut out);
    paths(&summary.aggregate.paths, &mut out);
    both_sides(&summary.aggregate.paths, &mut out);
    slices(summary, &mut out);
    control(summary, &mut out);
    if let Some(semantic) = &summary.semantic {
        let _ = writeln!(out, "semantic verifier {} (beside the headline): {}", plain(&semantic.model), semantic.tally);
    }
    for identity in super::identity::identities(summary).iter().filter(|identity| !identity.holds) {
        let _ = writeln!(out, "fault: {} does not hold ({}); please report it", identity.claim, plain(&identity.place));
    }
    for warning in &summary.warnings {
        let _ = writeln!(out, "warning: {}: {} ({})", warning.what, warning.count, plain(&warning.places.join(", ")));
    }
    out
}

/// A name from the input, without what could move a terminal's cursor or fake a line.
pub(super) fn plain(name: &str) -> String {
    name.chars().map(|character| if character.is_control() { '\u{fffd}' } else { character }).collect()
}

/// A share as percent, `n/a` when absent.
pub(super) fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "n/a".to_owned(), |share| format!("{:.1}%", 100.0 * share))
}

fn figure(figure: &Figure) -> String {
    let interval = match (figure.low, figure.high) {
        (Some(low), Some(high)) => format!(" [{:.1}, {:.1}]", 100.0 * low, 100.0 * high),
        _ => String::new(),
    };
    let degenerate = if figure.degenerate { " (constant)" } else { "" };
    format!("{}{interval}{degenerate}", percent(figure.mean))
}

fn condition(name: &str, group: &Group, out: &mut String) {
    let _ = writeln!(out, "\n{}: {} sessions, {} without gaps", plain(name), group.n, group.complete);
    let _ = writeln!(out, "  session exposure (ECR)  {}", figure(&group.ecr));
    for (channel, coverage) in &group.coverage {
        let _ = writeln!(out, "  {:<22}  {}", plain(channel), figure(coverage));
    }
    for (channel, coverage) in &group.internal_coverage {
        let _ = writeln!(out, "  {:<22}  {}", format!("{} (internal)", plain(channel)), figure(coverage));
    }
    if group.olf.n == 0 {
        let _ = writeln!(out, "  outlet loss (OLF)       n/a: no expected outlet was declared");
    } else {
        let _ = writeln!(
            out,
            "  outlet loss (OLF)       {}, above 0 in {}/{}",
            figure(&group.olf),
            group.olf_positive,
            group.olf.n
        );
    }
    if let Some(found) = &group.recognition {
        let _ = writeln!(
            out,
            "  reported {} (gap {}), precision {} (raw {}), FDR {}, missed {}, n = {}",
            percent(found.reported.mean),
            percent(found.gap.mean),
            percent(found.precision.mean),
            percent(found.precision_raw.mean),
            percent(found.fdr.mean),
            percent(found.missed.mean),
            found.reported.n
        );
        let _ = writeln!(out, "  reported and exposed    {}", figure(&found.reported_exposed));
    }
    if group.complete < group.n {
        gaps(group, out);
    }
    let tiers: Vec<String> =
        group.sensitivity.iter().map(|(tier, figure)| format!("{tier} {}", percent(figure.mean))).collect();
    let _ = writeln!(out, "  ECR by tiers that count: {} (headline: normalized)", tiers.join(", "));
}

/// Figures without the sessions that have gaps, and what the gaps leave open.
fn gaps(group: &Group, out: &mut String) {
    let complete = &group.complete_only;
    let coverage: Vec<String> =
        complete.coverage.iter().map(|(channel, found)| format!(", {} {}", plain(channel), figure(found))).collect();
    let _ = writeln!(
        out,
        "  without gaps only: ECR {}, OLF {}{}",
        figure(&complete.ecr),
        figure(&complete.olf),
        coverage.concat()
    );
    let ends = |name: &str, ends: Option<[f64; 2]>| {
        let text = |[low, high]: [f64; 2]| format!("{} {:.1} to {:.1}%", plain(name), 100.0 * low, 100.0 * high);
        ends.map(text)
    };
    let bounds = [("ECR", group.bounds.ecr), ("OLF", group.bounds.olf)];
    let channels = group.bounds.coverage.iter().map(|(channel, bounds)| (channel.as_str(), Some(*bounds)));
    let shown: Vec<String> =
        bounds.into_iter().chain(channels).filter_map(|(name, bounds)| ends(name, bounds)).collect();
    let _ = writeln!(out, "  bounds whatever the gaps held: {}", shown.join(", "));
}

fn views(summary: &Summary, out: &mut String) {
    let _ = writeln!(out, "\nview                     coverage   missed      n");
    for (view, figures) in &summary.aggregate.views {
        let _ = writeln!(
            out,
            "{:<23} {:>9} {:>8} {:>6}",
            view.title(),
            percent(figures.coverage),
            percent(figures.missed),
            figures.n
        );
    }
}

fn contrasts(summary: &Summary, out: &mut String) {
    let aggregate = &summary.aggregate;
    if !aggregate.contrasts.is_empty() {
        let _ = writeln!(out, "\npaired contrasts (points; p by sign-flip, Holm over those shown)");
    }
    for contrast in &aggregate.contrasts {
        contrast_line(contrast, out);
    }
    if !aggregate.contrasts_complete_only.is_empty() {
        let _ = writeln!(out, "the same over pairs without gaps");
    }
    for contrast in &aggregate.contrasts_complete_only {
        contrast_line(contrast, out);
    }
    for unpaired in &aggregate.unpaired {
        for (has, lacks, sessions) in
            [(&unpaired.a, &unpaired.b, &unpaired.only_a), (&unpaired.b, &unpaired.a, &unpaired.only_b)]
        {
            if sessions.is_empty() {
                continue;
            }
            let more = if sessions.len() > SHOWN { ", ..." } else { "" };
            let shown = plain(&sessions.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", "));
            let (has, lacks) = (plain(has), plain(lacks));
            let _ = writeln!(out, "unpaired: {} of {has} without a partner in {lacks}: {shown}{more}", sessions.len());
        }
    }
}

fn contrast_line(contrast: &Contrast, out: &mut String) {
    let points = |value: Option<f64>| value.map_or("n/a".to_owned(), |value| format!("{:+.1}", 100.0 * value));
    let p = |value: Option<f64>| value.map_or_else(|| "n/a".to_owned(), |p| format!("{p:.4}"));
    let sampled = if contrast.method == Some(Method::Sampled) { " sampled" } else { "" };
    let is_constant = contrast.low.zip(contrast.high).is_some_and(|(low, high)| high - low <= 0.0);
    let constant = if is_constant { " (constant)" } else { "" };
    let without_value = match contrast.without_value {
        0 => String::new(),
        count => format!(", {count} more without a value on both sides"),
    };
    let _ = writeln!(
        out,
        "{} - {}: {:<18} {} [{}, {}]{constant}, {} pairs{without_value}, {} moved, p = {} ({}){sampled}, Holm {}",
        plain(&contrast.a),
        plain(&contrast.b),
        plain(&contrast.metric),
        points(contrast.difference),
        points(contrast.low),
        points(contrast.high),
        contrast.pairs,
        contrast.nonzero,
        p(contrast.p),
        contrast.p_fraction.as_deref().unwrap_or("n/a"),
        p(contrast.p_holm),
    );
}

fn paths(paths: &PathFigures, out: &mut String) {
    let counts = &paths.counts;
    let share = |count: u64| {
        let share = (paths.entity_sessions > 0).then(|| count as f64 / paths.entity_sessions as f64);
        format!("{count} ({})", percent(share))
    };
    let _ = writeln!(out, "\npaths of {} targets that appeared ({ORDER_NOT_CAUSE})", paths.entity_sessions);
    let _ = writeln!(
        out,
        "  internal first {} = same request {} + across requests {}; visible first {}",
        share(paths.internal_first),
        share(counts.same_request),
        share(counts.cross_request),
        share(counts.visible_first)
    );
    let _ = writeln!(
        out,
        "  remainder {}: tied {}, one-sided {}, unordered {}",
        share(paths.remainder),
        share(counts.tied),
        share(counts.one_sided),
        share(counts.unordered)
    );
}

fn both_sides(paths: &PathFigures, out: &mut String) {
    let _ = writeln!(
        out,
        "  of {} that appeared on both sides: internal first {}",
        paths.two_sided,
        percent(paths.internal_first_of_two_sided)
    );
}

fn slices(summary: &Summary, out: &mut String) {
    let aggregate = &summary.aggregate;
    for (group, figures) in &aggregate.schema_groups {
        let _ = writeln!(
            out,
            "  schema {group:?}: internal {}, visible {}, overlap {}, internal first {}, {} targets in {} sessions",
            percent(figures.internal.mean),
            percent(figures.visible.mean),
            percent(figures.overlap.mean),
            percent(figures.internal_first.mean),
            figures.entity_sessions,
            figures.n
        );
    }
    for (name, figures) in &aggregate.by_type {
        let _ = writeln!(
            out,
            "  type {}: ECR {}, {} of {}",
            plain(name),
            figure(&figures.ecr),
            figures.exposed,
            figures.entity_sessions
        );
    }
    for (name, figures) in &aggregate.by_tool {
        let _ = writeln!(
            out,
            "  tool {}: exposed {}, {} of {}",
            plain(name),
            figure(&figures.overlap),
            figures.exposed,
            figures.entity_sessions
        );
    }
}

fn control(summary: &Summary, out: &mut String) {
    let control = &summary.aggregate.negative_control;
    let _ = writeln!(
        out,
        "negative control over {} appearances: everyone authorised {}, nobody {}",
        control.appearances,
        percent(control.authorized),
        percent(control.unauthorized)
    );
    let counts = &summary.counts;
    let _ = writeln!(
        out,
        "matches: {} headline, {} of weaker tiers (reported apart)",
        counts.matches, counts.weaker_matches
    );
}
