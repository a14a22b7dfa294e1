//! The paper's numbers, for tables that set them beside one's own.
//!
//! Source: ASLEval (arXiv 2609.18864v1), tables 3 to 6, sections 5.2 and 5.4, as published. Nothing here was measured by this program.

use serde::Serialize;

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

/// A figure before and after an intervention.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PublishedChange {
    /// What was changed.
    pub intervention: &'static str,
    /// What was measured.
    pub figure: &'static str,
    /// Without the intervention, where the paper says.
    pub before: Option<f64>,
    /// With it.
    pub after: f64,
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
    /// Fixed requests replayed under changed tools (section 5.4).
    pub replay: [PublishedChange; 5],
    /// Privacy beside usefulness, 15 ordinary tasks (section 5.4), and the redaction of every exit (section 5.2).
    pub frontier: [PublishedChange; 7],
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

const fn change(intervention: &'static str, figure: &'static str, before: Option<f64>, after: f64) -> PublishedChange {
    PublishedChange { intervention, figure, before, after }
}

const RENAMED_INPUTS: &str = "input names renamed";
const RENAMED_OUTPUTS: &str = "output fields renamed";
const MINIMISED: &str = "returns minimised";
const REDACTED: &str = "all exits redacted (oracle)";

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
    replay: [
        change(RENAMED_INPUTS, "visible entities", Some(196.0), 207.0),
        change(RENAMED_OUTPUTS, "visible entities", Some(196.0), 205.6),
        change(MINIMISED, "overlapping entities (45.7% fewer)", None, 104.8),
        change(MINIMISED, "overlap rate", Some(0.920), 0.445),
        change(MINIMISED, "tool-call attempts", Some(304.0), 775.8),
    ],
    frontier: [
        change(MINIMISED, "unauthorised exposure", Some(0.460), 0.0),
        change(MINIMISED, "task success", Some(0.800), 0.0),
        change(MINIMISED, "tool calls", Some(2.60), 17.07),
        change(MINIMISED, "latency, seconds", Some(5.76), 27.98),
        change(MINIMISED, "cost, multiple", Some(1.0), 5.76),
        change(MINIMISED, "backend success", Some(1.0), 1.0),
        change(REDACTED, "coverage", None, 0.0),
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
