//! The tables of the page: views, contrasts, recognition, paths, slices, completeness, identities, warnings.
//!
//! In: a [`Summary`]. Out: sections of the page.

use std::fmt::Write as _;

use super::bars::interval;
use super::{Reference, number, published};
use crate::exposure::{
    Contrast, ORDER_NOT_CAUSE, RecognitionFigures, Summary, TABLES, View, ViewFigures, identities as all_identities,
};
use crate::report::html::Column::{Figures, Words};
use crate::report::html::{escape, p_value, percent, points, table};
use crate::report::page::section;
use crate::statistic::Method;

/// The five views over one log.
pub(super) fn views(summary: &Summary, reference: Reference, out: &mut String) {
    section("views", "Five views of the same log", out);
    let with_interval = |mean: Option<f64>, ends: Option<[f64; 2]>| match ends {
        Some([low, high]) if high - low <= 0.0 => format!("{} (constant)", percent(mean)),
        Some([low, high]) => format!("{} [{:.1}, {:.1}]", percent(mean), 100.0 * low, 100.0 * high),
        None => percent(mean),
    };
    let row = |(view, figures): (&View, &ViewFigures)| {
        let reason = figures.reason.as_deref().filter(|_| figures.n == 0).unwrap_or_default();
        let mut row = vec![
            escape(view.title()),
            with_interval(figures.coverage, figures.coverage_interval) + &meter(figures.coverage),
            with_interval(figures.missed, figures.missed_interval),
            format!("{}{}", figures.n, if reason.is_empty() { String::new() } else { format!(": {}", escape(reason)) }),
        ];
        if reference == Reference::Paper {
            let paper = TABLES.views.iter().find(|row| row.view == *view);
            row.push(paper.map_or_else(String::new, |row| {
                format!("{} / {} / {}", percent(Some(row.coverage)), percent(Some(row.missed)), row.n)
            }));
        }
        row
    };
    let rows: Vec<Vec<String>> = summary.aggregate.views.iter().map(row).collect();
    let mut head = vec![Words("View"), Figures("Coverage"), Figures("Missed of the union"), Figures("Sessions")];
    if reference == Reference::Paper {
        head.push(Figures("Paper: coverage / missed / sessions"));
    }
    out.push_str(&table("What each view would have found", &head, &rows));
    out.push_str("<p class=\"note\">Missed is the mean of per-session shares. Each view has its own sessions: those whose log can answer it.");
    if reference == Reference::Paper {
        let _ = write!(out, " The paper's numbers are {} (245 exported sessions).", published());
    }
    out.push_str("</p></section>\n");
}

/// A bar in a cell.
fn meter(share: Option<f64>) -> String {
    share.map_or_else(String::new, |share| {
        let width = 100.0 * share.clamp(0.0, 1.0);
        format!(
            "<svg class=\"meter\" viewBox=\"0 0 100 6\" preserveAspectRatio=\"none\" aria-hidden=\"true\"><rect class=\"rail\" width=\"100\" height=\"6\"/><rect class=\"bar b0\" width=\"{width:.1}\" height=\"6\"/></svg>"
        )
    })
}

/// Paired contrasts between conditions.
pub(super) fn contrasts(summary: &Summary, out: &mut String) {
    let aggregate = &summary.aggregate;
    if aggregate.contrasts.is_empty() {
        return;
    }
    section("contrasts", "Paired contrasts between conditions", out);
    out.push_str(&differences("Differences over pairs", &aggregate.contrasts));
    if !aggregate.contrasts_complete_only.is_empty() {
        out.push_str(&differences("Differences over pairs without gaps", &aggregate.contrasts_complete_only));
    }
    unpaired(summary, out);
    out.push_str("</section>\n");
}

fn differences(title: &str, contrasts: &[Contrast]) -> String {
    let rows: Vec<Vec<String>> = contrasts
        .iter()
        .map(|contrast| {
            let sampled = if contrast.method == Some(Method::Sampled) { " sampled" } else { "" };
            let fraction = contrast.p_fraction.as_deref().map_or(String::new(), |text| format!(" ({text}){sampled}"));
            vec![
                escape(&format!("{} \u{2212} {}", contrast.a, contrast.b)),
                escape(&contrast.metric),
                with_ends(contrast),
                format!("{} of {}", contrast.nonzero, contrast.pairs),
                contrast.p.map_or_else(|| "n/a".to_owned(), |p| format!("{}{}", p_value(p), escape(&fraction))),
                contrast.p_holm.map_or_else(|| "n/a".to_owned(), p_value),
            ]
        })
        .collect();
    let head = [
        Words("Difference"),
        Words("Metric"),
        Figures("Points [95% interval]"),
        Figures("Pairs that differ"),
        Figures("p, sign-flip"),
        Figures("p, Holm"),
    ];
    table(title, &head, &rows)
}

fn with_ends(contrast: &Contrast) -> String {
    let difference = points(contrast.difference);
    match contrast.low.zip(contrast.high) {
        None => difference,
        Some((low, high)) if high - low <= 0.0 => format!("{difference} (constant)"),
        Some((low, high)) => format!("{difference} [{}, {}]", points(Some(low)), points(Some(high))),
    }
}

/// Sessions that are in no pair.
fn unpaired(summary: &Summary, out: &mut String) {
    for unpaired in &summary.aggregate.unpaired {
        for (has, lacks, sessions) in
            [(&unpaired.a, &unpaired.b, &unpaired.only_a), (&unpaired.b, &unpaired.a, &unpaired.only_b)]
        {
            if !sessions.is_empty() {
                let _ = writeln!(
                    out,
                    "<details><summary>{} sessions of {} without a partner in {}</summary><p class=\"note\">{}</p></details>",
                    sessions.len(),
                    escape(has),
                    escape(lacks),
                    escape(&sessions.join(", "))
                );
            }
        }
        if !unpaired.ambiguous.is_empty() {
            let _ = writeln!(
                out,
                "<details><summary>{} pair keys that several sessions of one condition share</summary><p class=\"note\">{}</p></details>",
                unpaired.ambiguous.len(),
                escape(&unpaired.ambiguous.join(", "))
            );
        }
    }
}

/// What probes reported.
pub(super) fn recognition(summary: &Summary, reference: Reference, out: &mut String) {
    let own: Vec<(&str, &RecognitionFigures)> = summary
        .aggregate
        .by_condition
        .iter()
        .filter_map(|(name, group)| Some((name.as_str(), group.recognition.as_ref()?)))
        .collect();
    if own.is_empty() {
        return;
    }
    section("recognition", "Recognition: what the probe reported", out);
    let mut rows: Vec<Vec<String>> = own
        .iter()
        .map(|(name, found)| {
            vec![
                escape(name),
                number(&percent(found.confirmed.mean), Some(name), "*"),
                percent(found.reported.mean),
                percent(found.reported_exposed.mean),
                format!("{} ({})", percent(found.precision.mean), percent(found.precision_raw.mean)),
                percent(found.fdr.mean),
                points(found.gap.mean),
                percent(found.missed.mean),
                found.reported.n.to_string(),
            ]
        })
        .collect();
    if reference == Reference::Paper {
        rows.extend(TABLES.recognition.iter().map(|row| {
            let share = |value: f64| percent(Some(value));
            let dash = || "\u{2013}".to_owned();
            vec![
                format!("{} {}", escape(row.name), published()),
                share(row.confirmed),
                share(row.reported),
                dash(),
                share(row.precision),
                share(row.fdr),
                points(Some(row.gap)),
                dash(),
                dash(),
            ]
        }));
    }
    let head = [
        Words("Condition"),
        Figures("Confirmed"),
        Figures("Reported, in S"),
        Figures("Reported and exposed"),
        Figures("Precision (raw)"),
        Figures("FDR"),
        Figures("Gap, points"),
        Figures("Missed"),
        Figures("Sessions"),
    ];
    out.push_str(&table("Candidates against confirmed exposure", &head, &rows));
    out.push_str("</section>\n");
}

/// Order of internal and visible appearances, over all and by schema group.
pub(super) fn paths(summary: &Summary, reference: Reference, out: &mut String) {
    section("paths", "Paths: internal evidence and visible exposure", out);
    let paths = &summary.aggregate.paths;
    let counts = &paths.counts;
    let kinds = [
        ("internal first", "internal_first", paths.internal_first),
        ("\u{2003}in the same request", "same_request", counts.same_request),
        ("\u{2003}across requests", "cross_request", counts.cross_request),
        ("visible first", "visible_first", counts.visible_first),
        ("remainder", "remainder", paths.remainder),
        ("\u{2003}tied", "tied", counts.tied),
        ("\u{2003}one-sided", "one_sided", counts.one_sided),
        ("\u{2003}unordered", "unordered", counts.unordered),
    ];
    let rows: Vec<Vec<String>> = kinds
        .iter()
        .map(|(title, name, count)| {
            let mut row = vec![escape(title), count.to_string(), percent(paths.shares.get(*name).copied())];
            if reference == Reference::Paper {
                let paper = TABLES.paths.iter().find(|(kind, _)| kind == name);
                row.push(paper.map_or_else(|| "\u{2013}".to_owned(), |(_, share)| percent(Some(*share))));
            }
            row
        })
        .collect();
    let mut head = vec![Words("Kind"), Figures("Targets"), Figures("Share")];
    if reference == Reference::Paper {
        head.push(Figures("Paper"));
    }
    out.push_str(&table("Every target that appeared, in one kind", &head, &rows));
    let _ = write!(out, "<p class=\"note\">This is {}.", escape(ORDER_NOT_CAUSE));
    if reference == Reference::Paper {
        let _ =
            write!(out, " The paper's shares are {}, of {} entity-sessions.", published(), TABLES.path_entity_sessions);
    }
    out.push_str("</p>\n");
    schema(summary, reference, out);
    out.push_str("</section>\n");
}

fn schema(summary: &Summary, reference: Reference, out: &mut String) {
    let groups = &summary.aggregate.schema_groups;
    let mut rows: Vec<Vec<String>> = groups
        .iter()
        .map(|(group, found)| {
            vec![
                format!("{group:?}").to_lowercase(),
                interval(&found.internal),
                interval(&found.visible),
                interval(&found.overlap),
                interval(&found.internal_first),
                interval(&found.visible_first),
                format!("{} in {}", found.entity_sessions, found.n),
            ]
        })
        .collect();
    if reference == Reference::Paper && !rows.is_empty() {
        rows.extend(TABLES.schema.iter().map(|row| {
            let name = format!("{} {} {}", escape(row.model), format!("{:?}", row.group).to_lowercase(), published());
            let dash = || "\u{2013}".to_owned();
            let [internal, visible, overlap] =
                [row.internal, row.visible, row.overlap].map(|share| percent(Some(share)));
            vec![name, internal, visible, overlap, dash(), dash(), dash()]
        }));
    }
    if rows.is_empty() {
        return;
    }
    let head = [
        Words("Schema group"),
        Figures("Internal"),
        Figures("Visible"),
        Figures("Overlap"),
        Figures("Internal first"),
        Figures("Visible first"),
        Figures("Targets in sessions"),
    ];
    out.push_str(&table("By schema group, means of per-session rates", &head, &rows));
}

/// By type of target and by tool.
pub(super) fn slices(summary: &Summary, out: &mut String) {
    let aggregate = &summary.aggregate;
    section("slices", "By type of target and by tool", out);
    out.push_str("<div class=\"grid3\">");
    let types: Vec<Vec<String>> = aggregate
        .by_type
        .iter()
        .map(|(name, found)| {
            vec![escape(name), interval(&found.ecr), format!("{} of {}", found.exposed, found.entity_sessions)]
        })
        .collect();
    out.push_str(&table("Types", &[Words("Type"), Figures("Exposed"), Figures("Targets")], &types));
    let tools: Vec<Vec<String>> = aggregate
        .by_tool
        .iter()
        .map(|(name, found)| {
            vec![escape(name), interval(&found.overlap), format!("{} of {}", found.exposed, found.entity_sessions)]
        })
        .collect();
    if !tools.is_empty() {
        out.push_str(&table(
            "Tools whose returns held targets",
            &[Words("Tool"), Figures("Exposed"), Figures("Targets")],
            &tools,
        ));
    }
    out.push_str("</div></section>\n");
}

/// Identities, each with both sides.
pub(super) fn identities(summary: &Summary, out: &mut String) {
    section("identities", "Identities checked", out);
    let rows: Vec<Vec<String>> = all_identities(summary)
        .iter()
        .map(|identity| {
            vec![
                escape(&identity.claim),
                escape(&identity.place),
                format!("{:.4}", identity.left),
                format!("{:.4}", identity.right),
                if identity.holds { "holds".to_owned() } else { "<strong>does not hold</strong>".to_owned() },
            ]
        })
        .collect();
    let head = [Words("Claim"), Words("Where"), Figures("Left"), Figures("Right"), Words("")];
    out.push_str(&table("What must hold of any correct analysis", &head, &rows));
    out.push_str("</section>\n");
}

/// What was odd about the input.
pub(super) fn warnings(summary: &Summary, out: &mut String) {
    if summary.warnings.is_empty() {
        return;
    }
    section("warnings", "Warnings", out);
    out.push_str("<ul>");
    for warning in &summary.warnings {
        let _ = write!(
            out,
            "<li>{}: {} ({})</li>",
            escape(&warning.what),
            warning.count,
            escape(&warning.places.join(", "))
        );
    }
    out.push_str("</ul></section>\n");
}
