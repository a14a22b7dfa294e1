//! Figures of parts of the targets: by schema group, by type, by the tool that returned them.
//!
//! In: scored sessions with their logs. Out: per-session rates, then means over sessions.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::figure::{Figure, Questions};
use super::log::SessionLog;
use super::path::PathKind;
use super::register::Frozen;
use super::session::Scored;
use super::set::TargetSet;
use crate::observation::SchemaGroup;
use crate::statistic::Resampling;

/// A scored session with what it was scored from.
pub(super) struct Case<'a> {
    pub scored: &'a Scored,
    pub log: &'a SessionLog,
    pub frozen: &'a Frozen,
}

/// Targets of one schema group. A target is in the best group of the observations that showed it; one that no observation
/// with a group showed is in none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SchemaFigures {
    /// Sessions with a target in the group.
    pub n: usize,
    /// Targets, over all sessions.
    pub entity_sessions: u64,
    /// Share that appeared internally.
    pub internal: Figure,
    /// Share that is exposed.
    pub visible: Figure,
    /// Share that is both.
    pub overlap: Figure,
    /// Share that appeared internally first.
    pub internal_first: Figure,
    /// Of those: in the request that exposed it.
    pub same_request: Figure,
    /// Of those: in an earlier request only.
    pub cross_request: Figure,
    /// Share that was exposed first.
    pub visible_first: Figure,
}

/// Targets of one type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TypeFigures {
    /// Targets, over all sessions.
    pub entity_sessions: u64,
    /// Those exposed.
    pub exposed: u64,
    /// Mean of the per-session shares.
    pub ecr: Figure,
}

/// Targets that one tool's internal observations showed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolFigures {
    /// Targets, over all sessions.
    pub entity_sessions: u64,
    /// Those exposed.
    pub exposed: u64,
    /// Mean of the per-session shares of the tool's targets that are exposed.
    pub overlap: Figure,
}

/// One row a schema group that occurs.
pub(super) fn by_schema(cases: &[Case<'_>], resampling: Resampling) -> BTreeMap<SchemaGroup, SchemaFigures> {
    let groups = [SchemaGroup::Match, SchemaGroup::Partial, SchemaGroup::None];
    groups.into_iter().filter_map(|group| Some((group, schema(group, cases, resampling)?))).collect()
}

fn schema(group: SchemaGroup, cases: &[Case<'_>], resampling: Resampling) -> Option<SchemaFigures> {
    let members: BTreeMap<&str, TargetSet> = cases
        .iter()
        .map(|case| {
            let members = case.log.groups.iter().filter(|(_, own)| **own == group).map(|(target, _)| *target).collect();
            (case.scored.session.session_id.as_str(), members)
        })
        .collect();
    let sessions: Vec<&Scored> = cases.iter().map(|case| case.scored).collect();
    let of = |scored: &Scored| members.get(scored.session.session_id.as_str()).filter(|set| !set.is_empty());
    let entity_sessions = members.values().map(|set| set.len() as u64).sum();
    let n = members.values().filter(|set| !set.is_empty()).count();
    let share = |part: usize, whole: &TargetSet| Some(part as f64 / whole.len() as f64);
    let path = |scored: &Scored, kinds: &[PathKind]| {
        let set = of(scored)?;
        let is_kind = |target: &usize| scored.kinds.get(target).is_some_and(|kind| kinds.contains(kind));
        share(set.iter().filter(is_kind).count(), set)
    };
    let mut questions = Questions::new(&sessions);
    questions.ask("internal", |scored| of(scored).and_then(|set| share(set.both(&scored.internal).len(), set)));
    questions.ask("visible", |scored| of(scored).and_then(|set| share(set.both(&scored.exposed).len(), set)));
    questions.ask("overlap", |scored| {
        of(scored).and_then(|set| share(set.both(&scored.internal).both(&scored.exposed).len(), set))
    });
    questions.ask("internal_first", |scored| path(scored, &[PathKind::SameRequest, PathKind::CrossRequest]));
    questions.ask("same_request", |scored| path(scored, &[PathKind::SameRequest]));
    questions.ask("cross_request", |scored| path(scored, &[PathKind::CrossRequest]));
    questions.ask("visible_first", |scored| path(scored, &[PathKind::VisibleFirst]));
    if n == 0 {
        return None;
    }
    let mut answers = questions.answer(resampling);
    Some(SchemaFigures {
        n,
        entity_sessions,
        internal: answers.take("internal"),
        visible: answers.take("visible"),
        overlap: answers.take("overlap"),
        internal_first: answers.take("internal_first"),
        same_request: answers.take("same_request"),
        cross_request: answers.take("cross_request"),
        visible_first: answers.take("visible_first"),
    })
}

/// One row a type of target.
pub(super) fn by_type(cases: &[Case<'_>], resampling: Resampling) -> BTreeMap<String, TypeFigures> {
    let parts = parts(cases, |case| {
        let mut types: BTreeMap<String, TargetSet> = BTreeMap::new();
        for (place, target) in case.frozen.contract.targets.iter().enumerate() {
            let name = serde_json::to_value(target.kind).ok().and_then(|name| name.as_str().map(str::to_owned));
            types.entry(name.unwrap_or_default()).or_default().insert(place);
        }
        types
    });
    shares(cases, &parts, resampling)
        .into_iter()
        .map(|(name, (entity_sessions, exposed, ecr))| (name, TypeFigures { entity_sessions, exposed, ecr }))
        .collect()
}

/// One row a tool.
pub(super) fn by_tool(cases: &[Case<'_>], names: &[String], resampling: Resampling) -> BTreeMap<String, ToolFigures> {
    let parts = parts(cases, |case| {
        let named = |(number, set): (&u32, &TargetSet)| Some((names.get(*number as usize)?.clone(), set.clone()));
        case.log.tools.iter().filter_map(named).collect()
    });
    shares(cases, &parts, resampling)
        .into_iter()
        .map(|(name, (entity_sessions, exposed, overlap))| (name, ToolFigures { entity_sessions, exposed, overlap }))
        .collect()
}

/// Named parts of each session's targets, `[session][name]`.
type Parts<'a> = BTreeMap<&'a str, BTreeMap<String, TargetSet>>;

fn parts<'a>(cases: &[Case<'a>], of: impl Fn(&Case<'a>) -> BTreeMap<String, TargetSet>) -> Parts<'a> {
    cases.iter().map(|case| (case.scored.session.session_id.as_str(), of(case))).collect()
}

/// Targets, exposed ones, and the mean share of each part.
fn shares(cases: &[Case<'_>], parts: &Parts<'_>, resampling: Resampling) -> BTreeMap<String, (u64, u64, Figure)> {
    let sessions: Vec<&Scored> = cases.iter().map(|case| case.scored).collect();
    let mut counts: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for scored in &sessions {
        for (name, set) in &parts[scored.session.session_id.as_str()] {
            let (targets, exposed) = counts.entry(name).or_default();
            *targets += set.len() as u64;
            *exposed += set.both(&scored.exposed).len() as u64;
        }
    }
    let mut questions = Questions::new(&sessions);
    for name in counts.keys() {
        questions.ask(*name, move |scored| {
            let set = parts.get(scored.session.session_id.as_str())?.get(*name).filter(|set| !set.is_empty())?;
            Some(set.both(&scored.exposed).len() as f64 / set.len() as f64)
        });
    }
    let mut answers = questions.answer(resampling);
    counts
        .into_iter()
        .map(|(name, (targets, exposed))| (name.to_owned(), (targets, exposed, answers.take(name))))
        .collect()
}
