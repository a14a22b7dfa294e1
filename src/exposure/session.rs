//! A session's figures.
//!
//! In: a [`SessionLog`] and its contract, perhaps what a probe reported. Out: [`Session`], as in `summary.json`.
//! Source: ASLEval, equations 6 and 7.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::log::{SessionLog, TIERS};
use super::path::{PathKind, Paths, kinds};
use super::recognition::{NO_CANDIDATES, Recognition, Report};
use super::register::Frozen;
use super::set::TargetSet;
use super::view::{Observed, View, ViewValue};
use crate::observation::Identity;

/// One session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// The session.
    pub session_id: String,
    /// Its contract.
    pub contract_id: String,
    /// Experimental condition.
    pub condition: Option<String>,
    /// Canonical JSON of its pair key.
    pub pair_key: Option<String>,
    /// What is resampled together with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// |S|.
    pub targets: usize,
    /// |`E_vis`|.
    pub exposed: usize,
    /// Exposure coverage rate.
    pub ecr: f64,
    /// Coverage of each declared visible channel.
    pub coverage: BTreeMap<String, f64>,
    /// What each internal channel carried: evidence of the path, never exposure.
    pub internal_coverage: BTreeMap<String, f64>,
    /// Outlet-loss fraction; absent when no outlet was declared.
    pub olf: Option<f64>,
    /// Why it is absent, or why it is 0 by convention.
    pub olf_reason: Option<String>,
    /// Observations that were scored.
    pub observations: u64,
    /// Observations that failed or are missing.
    pub unscored: u64,
    /// Whether something of the session is unscored.
    pub incomplete: bool,
    /// Between which values the figures lie, whatever the gaps held.
    pub bounds: Bounds,
    /// What the probe reported; absent when it submitted nothing.
    pub recognition: Option<Recognition>,
    /// Why it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recognition_reason: Option<String>,
    /// Paths of the targets that appeared.
    pub paths: Paths,
    /// ECR if tiers up to each one counted; the headline is `normalized`.
    pub sensitivity: BTreeMap<String, f64>,
    /// Matches of weaker tiers.
    pub weaker_matches: u64,
    /// The five views.
    pub views: BTreeMap<View, ViewValue>,
}

/// Least and greatest value, whatever the gaps held.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bounds {
    /// Of ECR.
    pub ecr: [f64; 2],
    /// Of the coverage of each visible channel.
    #[serde(default)]
    pub coverage: BTreeMap<String, [f64; 2]>,
    /// Of OLF; absent when no outlet was declared.
    pub olf: Option<[f64; 2]>,
}

/// A session with the sets behind its figures, which aggregates need.
pub(super) struct Scored {
    pub session: Session,
    pub exposed: TargetSet,
    pub internal: TargetSet,
    pub kinds: BTreeMap<usize, PathKind>,
}

/// What is known of a session beside its observations.
pub(super) struct Extras<'a> {
    /// Its condition and pair key.
    pub identity: Option<&'a Identity>,
    /// What the probe reported.
    pub report: Option<&'a Report>,
    /// Whether the log says which actions were delivered.
    pub has_actions: bool,
    /// The channel of the final answer, where the user named it.
    pub answer_channel: Option<&'a str>,
}

/// Computes a session's figures.
pub(super) fn score(id: &str, log: &SessionLog, frozen: &Frozen, extras: &Extras<'_>) -> Scored {
    let size = frozen.contract.targets.len();
    let share = |set: &TargetSet| set.len() as f64 / size.max(1) as f64;
    let coverage_of =
        |channel: usize| (frozen.contract.channels[channel].name.clone(), share(&log.channels[channel].found));
    let exposed = log.exposed(frozen);
    let outlet = frozen.expected_outlet().map(|channel| visible_found(log, frozen, channel));
    let kinds = kinds(log);
    let mut paths = Paths::default();
    for kind in kinds.values() {
        paths.add(*kind);
    }
    let observed = Observed { log, frozen, exposed: &exposed, outlet: outlet.as_ref(), extras };
    let session = Session {
        session_id: id.to_owned(),
        contract_id: frozen.contract.contract_id.clone(),
        condition: extras.identity.and_then(|identity| identity.condition.clone()),
        pair_key: extras.identity.and_then(|identity| identity.pair_key.clone()),
        cluster: log.cluster.clone(),
        targets: size,
        exposed: exposed.len(),
        ecr: share(&exposed),
        coverage: visible(frozen).map(coverage_of).collect(),
        internal_coverage: internal_channels(frozen).map(coverage_of).collect(),
        olf: outlet.as_ref().map(|outlet| loss(&exposed, outlet)),
        olf_reason: match &outlet {
            None => Some("no expected outlet was declared".to_owned()),
            Some(_) if exposed.is_empty() => Some("nothing is exposed: 0 by convention".to_owned()),
            Some(_) => None,
        },
        observations: log.channels.iter().map(|channel| channel.observations).sum(),
        unscored: log.unscored(),
        incomplete: log.unscored() > 0,
        bounds: bounds(log, frozen, &exposed, outlet.as_ref()),
        recognition: extras.report.map(|report| report.recognition(&exposed, size)),
        recognition_reason: extras.report.is_none().then(|| NO_CANDIDATES.to_owned()),
        paths,
        sensitivity: sensitivity(log, size),
        weaker_matches: log.weaker_matches,
        views: View::ALL.into_iter().map(|view| (view, observed.value(view))).collect(),
    };
    let internal = internal_channels(frozen)
        .fold(TargetSet::default(), |union, channel| union.union(&log.channels[channel].found));
    Scored { session, exposed, internal, kinds }
}

fn visible(frozen: &Frozen) -> impl Iterator<Item = usize> + '_ {
    (0..frozen.contract.channels.len()).filter(|channel| frozen.is_visible(*channel))
}

fn internal_channels(frozen: &Frozen) -> impl Iterator<Item = usize> + '_ {
    (0..frozen.contract.channels.len()).filter(|channel| !frozen.is_visible(*channel))
}

/// Exposed on one channel; an internal channel exposes nothing.
fn visible_found(log: &SessionLog, frozen: &Frozen, channel: usize) -> TargetSet {
    if frozen.is_visible(channel) { log.channels[channel].found.clone() } else { TargetSet::default() }
}

/// Equation 7, with 0 for an empty set.
pub(super) fn loss(exposed: &TargetSet, outlet: &TargetSet) -> f64 {
    if exposed.is_empty() { 0.0 } else { exposed.without(outlet).len() as f64 / exposed.len() as f64 }
}

/// What the gaps could have exposed can only add to ECR. OLF is least if they all exposed at the outlet what they could, and
/// greatest if they all did so elsewhere.
fn bounds(log: &SessionLog, frozen: &Frozen, exposed: &TargetSet, outlet: Option<&TargetSet>) -> Bounds {
    let size = frozen.contract.targets.len().max(1) as f64;
    let expected = frozen.expected_outlet();
    let possible = |at_outlet: bool| {
        visible(frozen)
            .filter(|channel| (Some(*channel) == expected) == at_outlet)
            .fold(TargetSet::default(), |union, channel| union.union(&log.channels[channel].possible))
    };
    let (inside, outside) = (possible(true), possible(false));
    let most = exposed.union(&inside).union(&outside);
    let olf = outlet.map(|outlet| {
        let least = loss(&exposed.union(&inside), &outlet.union(&inside));
        [least, loss(&exposed.union(&outside), outlet)]
    });
    let coverage = visible(frozen).map(|place| {
        let channel = &log.channels[place];
        let ends = [&channel.found, &channel.found.union(&channel.possible)].map(|set| set.len() as f64 / size);
        (frozen.contract.channels[place].name.clone(), ends)
    });
    Bounds { ecr: [exposed.len() as f64 / size, most.len() as f64 / size], coverage: coverage.collect(), olf }
}

/// ECR when tiers up to each one count.
fn sensitivity(log: &SessionLog, size: usize) -> BTreeMap<String, f64> {
    let mut union = TargetSet::default();
    let mut shares = BTreeMap::new();
    for (tier, set) in TIERS.iter().zip(&log.tiers) {
        union.extend(set);
        shares.insert(tier_name(*tier).to_owned(), union.len() as f64 / size.max(1) as f64);
    }
    shares
}

/// The name used in files.
pub(super) fn tier_name(tier: crate::adjudicate::Tier) -> &'static str {
    use crate::adjudicate::Tier;
    match tier {
        Tier::Exact => "exact",
        Tier::Normalized => "normalized",
        Tier::Typed => "typed",
        Tier::Encoded => "encoded",
        Tier::Partial => "partial",
        Tier::Semantic => "semantic",
    }
}
