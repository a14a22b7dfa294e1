//! The paper's numbers, for tables that set them beside one's own.
//!
//! Source: ASLEval (arXiv 2609.18864v1), tables 3 to 6 and section 5.4, as published. Nothing here was measured by this program.

use serde::Serialize;

use super::summary::Summary;
use super::view::View;
use crate::observation::SchemaGroup;

/// What the numbers are.
pub const PUBLISHED: &str = "as published, arXiv 2609.18864v1";

/// Table 3: one view over the paper's sessions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PublishedView {
    /// The view.
    pub view: View,
    /// Coverage.
    pub coverage: f64,
    /// Missed of the union.
    pub missed: f64,
    /// Sessions.
    pub n: usize,
}

/// Table 4: one runtime and guard, ten sessions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PublishedOutlet {
    /// Name in this program.
    pub name: &'static str,
    /// Name in the paper.
    pub paper: &'static str,
    /// ECR.
    pub session: f64,
    /// Coverage of email.
    pub email: f64,
    /// Coverage of the console.
    pub console: f64,
    /// Mean outlet-loss fraction.
    pub olf: f64,
    /// Sessions of ten with an OLF above 0.
    pub olf_positive: usize,
}

/// Table 5: recognition in one setting.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PublishedRecognition {
    /// Environment, model and report.
    pub name: &'static str,
    /// ECR.
    pub confirmed: f64,
    /// Candidate coverage.
    pub reported: f64,
    /// Candidate precision.
    pub precision: f64,
    /// False-discovery rate.
    pub fdr: f64,
    /// Confirmed less reported.
    pub gap: f64,
}

/// Table 6: one model and schema group.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PublishedSchema {
    /// The model.
    pub model: &'static str,
    /// The group.
    pub group: SchemaGroup,
    /// Internal rate.
    pub internal: f64,
    /// Visible rate.
    pub visible: f64,
    /// Overlap.
    pub overlap: f64,
}

/// All of them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Published {
    /// What the numbers are.
    pub source: &'static str,
    /// Table 3.
    pub views: [PublishedView; 5],
    /// Precision of the self-reports of table 3.
    pub self_report_precision: f64,
    /// Table 4.
    pub outlets: [PublishedOutlet; 4],
    /// Table 5.
    pub recognition: [PublishedRecognition; 4],
    /// Table 6.
    pub schema: [PublishedSchema; 4],
    /// Entity-sessions of section 5.4.
    pub path_entity_sessions: usize,
    /// Shares by kind; what the paper does not print is the remainder.
    pub paths: [(&'static str, f64); 5],
}

const fn view(view: View, coverage: f64, missed: f64, n: usize) -> PublishedView {
    PublishedView { view, coverage, missed, n }
}

const fn outlet(names: [&'static str; 2], figures: [f64; 4], olf_positive: usize) -> PublishedOutlet {
    let [session, email, console, olf] = figures;
    PublishedOutlet { name: names[0], paper: names[1], session, email, console, olf, olf_positive }
}

const fn recognition(name: &'static str, figures: [f64; 5]) -> PublishedRecognition {
    let [confirmed, reported, precision, fdr, gap] = figures;
    PublishedRecognition { name, confirmed, reported, precision, fdr, gap }
}

const fn schema(model: &'static str, group: SchemaGroup, figures: [f64; 3]) -> PublishedSchema {
    let [internal, visible, overlap] = figures;
    PublishedSchema { model, group, internal, visible, overlap }
}

/// The tables.
pub const TABLES: Published = Published {
    source: PUBLISHED,
    views: [
        view(View::FinalAnswer, 0.805, 0.097, 245),
        view(View::SuccessfulAction, 0.026, 0.963, 32),
        view(View::ExpectedOutlet, 0.478, 0.469, 245),
        view(View::SelfReport, 0.672, 0.239, 100),
        view(View::Union, 0.887, 0.000, 245),
    ],
    self_report_precision: 0.184,
    outlets: [
        outlet(["R-off", "Agent-R, guard off"], [1.000, 0.640, 1.000, 0.360], 4),
        outlet(["R-on", "Agent-R, guard on"], [0.955, 0.317, 0.930, 0.683], 7),
        outlet(["F-off", "Agent-F, guard off"], [0.983, 0.892, 0.933, 0.100], 1),
        outlet(["F-on", "Agent-F, guard on"], [1.000, 0.344, 1.000, 0.656], 8),
    ],
    recognition: [
        recognition("PIA/DeepSeek, unlimited", [0.871, 0.777, 0.148, 0.852, 0.094]),
        recognition("PIA/DeepSeek, top 10", [0.940, 0.740, 0.306, 0.694, 0.200]),
        recognition("PIA/GLM, unlimited", [0.983, 0.918, 0.158, 0.842, 0.065]),
        recognition("AgentDojo/DeepSeek, unlimited", [0.683, 0.498, 0.429, 0.571, 0.185]),
    ],
    schema: [
        schema("DeepSeek", SchemaGroup::Match, [0.813, 0.793, 0.793]),
        schema("DeepSeek", SchemaGroup::Partial, [0.356, 0.278, 0.063]),
        schema("GLM", SchemaGroup::Match, [0.772, 0.726, 0.725]),
        schema("GLM", SchemaGroup::Partial, [0.327, 0.298, 0.200]),
    ],
    path_entity_sessions: 6_124,
    paths: [
        ("internal_first", 0.763),
        ("same_request", 0.409),
        ("cross_request", 0.354),
        ("visible_first", 0.054),
        ("remainder", 0.183),
    ],
};

/// The row of table 4 that a condition's name means: `F-on`, `Agent-F guard on`, `agent_f/on`.
pub fn outlet_row(condition: &str) -> Option<&'static PublishedOutlet> {
    let plain = |name: &str| -> String {
        let words = name.to_lowercase().replace("agent", "").replace("guard", "");
        words.chars().filter(char::is_ascii_alphanumeric).collect()
    };
    TABLES.outlets.iter().find(|row| plain(row.name) == plain(condition))
}

/// The paper's numbers beside one's own, for a terminal.
pub fn text_published(summary: &Summary) -> String {
    use std::fmt::Write as _;
    let percent = |share: Option<f64>| share.map_or("n/a".to_owned(), |share| format!("{:.1}%", 100.0 * share));
    let mut out = format!("\nown / paper ({PUBLISHED})\n");
    for row in &TABLES.views {
        let own = &summary.aggregate.views[&row.view];
        let _ = writeln!(
            out,
            "  {:<23} coverage {} / {}, missed {} / {}, n {} / {}",
            row.view.title(),
            percent(own.coverage),
            percent(Some(row.coverage)),
            percent(own.missed),
            percent(Some(row.missed)),
            own.n,
            row.n
        );
    }
    for (condition, group) in &summary.aggregate.by_condition {
        let Some(row) = outlet_row(condition) else { continue };
        let of = |name: &str| group.coverage.get(name).and_then(|figure| figure.mean);
        let _ = writeln!(
            out,
            "  {condition} / {}: session {} / {}, email {} / {}, console {} / {}, OLF {} / {}, above 0 {}/{} / {}/10",
            row.paper,
            percent(group.ecr.mean),
            percent(Some(row.session)),
            percent(of("email")),
            percent(Some(row.email)),
            percent(of("console")),
            percent(Some(row.console)),
            percent(group.olf.mean),
            percent(Some(row.olf)),
            group.olf_positive,
            group.olf.n,
            row.olf_positive
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(a: f64, b: f64) -> bool {
        (a - b).abs() < 5e-4
    }

    #[test]
    fn both_identities_of_recognition_hold_in_every_published_row() {
        for row in TABLES.recognition {
            assert!(same(row.gap, row.confirmed - row.reported) && same(row.fdr, 1.0 - row.precision), "{}", row.name);
        }
    }

    #[test]
    fn published_overlaps_are_at_most_either_side_and_paths_add_up() {
        for row in TABLES.schema {
            assert!(row.overlap <= row.internal.min(row.visible), "{} {:?}", row.model, row.group);
        }
        let [(_, internal), (_, same_request), (_, cross), (_, visible), (_, rest)] = TABLES.paths;
        assert!(same(internal, same_request + cross) && same(1.0, internal + visible + rest));
    }

    #[test]
    fn conditions_are_matched_to_rows_by_name() {
        assert_eq!(outlet_row("Agent-F guard on").map(|row| row.name), Some("F-on"));
        assert_eq!(outlet_row("r_off").map(|row| row.name), Some("R-off"));
        assert_eq!(outlet_row("guard-on"), None);
    }
}
