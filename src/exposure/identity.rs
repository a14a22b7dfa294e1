//! Identities that hold in any correct analysis: shown beside the figures, so that a reader can check them.
//!
//! In: a [`Summary`]. Out: one [`Identity`] a claim.

use serde::{Deserialize, Serialize};

use super::summary::Summary;

/// Means of equal fractions differ in their last bits.
const SAME: f64 = 1e-9;

/// A claim about figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Identity {
    /// What must hold.
    pub claim: String,
    /// Where.
    pub place: String,
    /// Left side.
    pub left: f64,
    /// Right side.
    pub right: f64,
    /// Whether it does.
    pub holds: bool,
}

impl Identity {
    fn equal(claim: &str, place: &str, left: f64, right: f64) -> Self {
        let holds = (left - right).abs() < SAME;
        Self { claim: claim.to_owned(), place: place.to_owned(), left, right, holds }
    }

    fn at_most(claim: &str, place: &str, left: f64, right: f64) -> Self {
        let holds = left <= right + SAME;
        Self { claim: claim.to_owned(), place: place.to_owned(), left, right, holds }
    }
}

/// Every identity that the summary's figures can be asked for.
pub fn identities(summary: &Summary) -> Vec<Identity> {
    let mut found = Vec::new();
    for (name, group) in &summary.aggregate.by_condition {
        if let Some(recognition) = &group.recognition {
            let means = (recognition.gap.mean, recognition.confirmed.mean, recognition.reported.mean);
            if let (Some(gap), Some(confirmed), Some(reported)) = means {
                found.push(Identity::equal("gap = ECR - reported", name, gap, confirmed - reported));
            }
            if let Some((fdr, precision)) = recognition.fdr.mean.zip(recognition.precision.mean) {
                found.push(Identity::equal("FDR = 1 - precision", name, fdr, 1.0 - precision));
            }
        }
        if let Some(ecr) = group.ecr.mean {
            for (channel, coverage) in group.coverage.iter().filter(|(_, coverage)| coverage.n == group.n) {
                let place = format!("{name}, {channel}");
                found.extend(coverage.mean.map(|mean| Identity::at_most("channel <= union", &place, mean, ecr)));
            }
        }
        if let Some((olf, missed)) = group.olf.mean.zip(group.views[&super::View::ExpectedOutlet].missed) {
            found.push(Identity::equal("OLF = what the expected outlet misses", name, olf, missed));
        }
    }
    for (group, figures) in &summary.aggregate.schema_groups {
        let means = (figures.overlap.mean, figures.internal.mean, figures.visible.mean);
        if let (Some(overlap), Some(internal), Some(visible)) = means {
            let place = format!("schema {group:?}").to_lowercase();
            found.push(Identity::at_most("overlap <= min(internal, visible)", &place, overlap, internal.min(visible)));
        }
    }
    let paths = &summary.aggregate.paths;
    let kinds = paths.internal_first + paths.counts.visible_first + paths.remainder;
    found.push(Identity::equal(
        "kinds of paths = targets that appeared",
        "all",
        kinds as f64,
        paths.entity_sessions as f64,
    ));
    let control = &summary.aggregate.negative_control;
    found.extend(control.authorized.map(|share| Identity::equal("everyone authorised = 0", "control", share, 0.0)));
    found.extend(control.unauthorized.map(|share| Identity::equal("nobody authorised = 1", "control", share, 1.0)));
    found
}
