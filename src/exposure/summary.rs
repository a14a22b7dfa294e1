//! Everything an analysis finds: `summary.json`.
//!
//! In: a [`Ledger`] that has seen every observation, and what probes reported. Out: [`Summary`].

use std::collections::BTreeMap;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::aggregate::{Group, ViewFigures, group};
use super::contrast::{Contrast, Unpaired, ambiguous_sessions, contrasts};
use super::files::Settings;
use super::ledger::{Counts, Ledger};
use super::path::PathFigures;
use super::recognition::Report;
use super::register::Register;
use super::semantic::SemanticReport;
use super::session::{Extras, Scored, Session, score};
use super::slice::{Case, SchemaFigures, ToolFigures, TypeFigures, by_schema, by_tool, by_type};
use super::view::View;
use super::warning::Warning;
use crate::adjudicate::Matcher;
use crate::error::Result;
use crate::observation::{Candidates, SchemaGroup};
use crate::statistic::Resampling;

/// The key of sessions without a condition when others have one.
const NO_CONDITION: &str = "(no condition)";

/// What an analysis finds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// One row a session, by id.
    pub sessions: Vec<Session>,
    /// Figures over sessions.
    pub aggregate: Aggregate,
    /// What was read.
    pub counts: Counts,
    /// Digest of each contract.
    pub contracts: BTreeMap<String, String>,
    /// Oddities of the input.
    pub warnings: Vec<Warning>,
    /// What a semantic verifier was asked; absent where there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub semantic: Option<SemanticReport>,
    /// Seed of resampling.
    pub seed: u64,
    /// Resamples behind each interval.
    pub resamples: usize,
}

/// Figures over sessions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Aggregate {
    /// By condition, or `all`.
    pub by_condition: BTreeMap<String, Group>,
    /// Over all sessions.
    pub overall: Group,
    /// The five views over all sessions.
    pub views: BTreeMap<View, ViewFigures>,
    /// Paired differences between conditions.
    pub contrasts: Vec<Contrast>,
    /// The same over pairs of sessions without gaps; empty where no session has any.
    #[serde(default)]
    pub contrasts_complete_only: Vec<Contrast>,
    /// Sessions without a partner.
    pub unpaired: Vec<Unpaired>,
    /// By schema group.
    pub schema_groups: BTreeMap<SchemaGroup, SchemaFigures>,
    /// Paths over all sessions.
    pub paths: PathFigures,
    /// By type of target.
    pub by_type: BTreeMap<String, TypeFigures>,
    /// By tool.
    pub by_tool: BTreeMap<String, ToolFigures>,
    /// The same appearances under other authorizations.
    pub negative_control: NegativeControl,
}

/// Share of the visible appearances that count as exposure when everyone is authorised, and when nobody is. It checks the scorer,
/// not the agent: anything but 0 and 1 is a fault of this program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NegativeControl {
    /// Everyone authorised: 0.
    pub authorized: Option<f64>,
    /// Nobody authorised: 1.
    pub unauthorized: Option<f64>,
    /// Targets that appeared on a visible channel, over all sessions.
    pub appearances: u64,
    /// Why the shares are absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Summary {
    /// The key of a session's condition in `by_condition`.
    pub fn condition_of<'a>(&self, session: &'a Session) -> &'a str {
        let by_condition = &self.aggregate.by_condition;
        let absent = if by_condition.len() == 1 && by_condition.contains_key("all") { "all" } else { NO_CONDITION };
        session.condition.as_deref().unwrap_or(absent)
    }
}

impl Ledger<'_> {
    /// Figures of everything recorded.
    ///
    /// # Errors
    /// Targets that cannot be compiled.
    pub fn finish(mut self, register: &Register, candidates: &[Candidates], settings: &Settings) -> Result<Summary> {
        let resampling = settings.resampling;
        self.check_log(register, candidates);
        let reports = self.reports(register, candidates)?;
        let scored: Vec<Scored> = self
            .sessions
            .iter()
            .map(|(id, log)| {
                let frozen = register.get(log.contract);
                let extras = Extras {
                    identity: self.checker.identity(id),
                    report: reports.get(id.as_str()),
                    has_actions: self.deliveries.contains_key(id),
                    answer_channel: settings.answer_channel.as_deref(),
                };
                score(id, log, frozen, &extras)
            })
            .collect();
        let all: Vec<&Scored> = scored.iter().collect();
        for id in ambiguous_sessions(&all) {
            self.warnings.add("sessions of one condition with one pair key are in no contrast", id);
        }
        let aggregate = self.aggregate(register, &scored, resampling);
        Ok(Summary {
            sessions: scored.into_iter().map(|scored| scored.session).collect(),
            aggregate,
            counts: self.counts,
            contracts: register.digests(),
            warnings: self.warnings.finish(),
            semantic: None,
            seed: resampling.seed.0,
            resamples: resampling.resamples,
        })
    }

    /// The report of each session; several rows of one session are one report.
    fn reports(&mut self, register: &Register, candidates: &[Candidates]) -> Result<BTreeMap<String, Report>> {
        let mut joined: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for row in candidates {
            if joined.contains_key(row.session_id.as_str()) {
                self.warnings
                    .add("several rows of candidates for one session are taken as one report", &row.session_id);
            }
            joined.entry(&row.session_id).or_default().extend(row.candidates.iter().cloned());
        }
        let report = |(id, candidates): (&str, Vec<String>)| {
            let Some(log) = self.sessions.get(id) else { return Ok(None) };
            let frozen = register.get(log.contract);
            let matcher = Matcher::new(&frozen.contract)?;
            Ok(Some((id.to_owned(), Report::of(&candidates, frozen, &matcher))))
        };
        let reports: Result<Vec<Option<(String, Report)>>> = joined.into_par_iter().map(report).collect();
        Ok(reports?.into_iter().flatten().collect())
    }

    fn aggregate(&self, register: &Register, scored: &[Scored], resampling: Resampling) -> Aggregate {
        let all: Vec<&Scored> = scored.iter().collect();
        let has_conditions = scored.iter().any(|scored| scored.session.condition.is_some());
        let mut conditions: BTreeMap<&str, Vec<&Scored>> = BTreeMap::new();
        for one in scored {
            let absent = if has_conditions { NO_CONDITION } else { "all" };
            conditions.entry(one.session.condition.as_deref().unwrap_or(absent)).or_default().push(one);
        }
        let overall = group(&all, resampling);
        let by_condition = if has_conditions {
            conditions.into_iter().map(|(name, sessions)| (name.to_owned(), group(&sessions, resampling))).collect()
        } else {
            conditions.into_keys().map(|name| (name.to_owned(), overall.clone())).collect()
        };
        let (differences, unpaired) = contrasts(&all, resampling);
        let complete: Vec<&Scored> = all.iter().copied().filter(|scored| !scored.session.incomplete).collect();
        let has_gaps = complete.len() < all.len();
        let cases: Vec<Case<'_>> = scored
            .iter()
            .zip(self.sessions.values())
            .map(|(scored, log)| Case { scored, log, frozen: register.get(log.contract) })
            .collect();
        Aggregate {
            by_condition,
            views: overall.views.clone(),
            paths: overall.paths.clone(),
            overall,
            contrasts: differences,
            contrasts_complete_only: if has_gaps { contrasts(&complete, resampling).0 } else { Vec::new() },
            unpaired,
            schema_groups: by_schema(&cases, resampling),
            by_type: by_type(&cases, resampling),
            by_tool: by_tool(&cases, &self.tool_names, resampling),
            negative_control: self.negative_control(),
        }
    }

    fn negative_control(&self) -> NegativeControl {
        let mut counts = [0_u64; 3];
        for log in self.sessions.values() {
            let sets = [&log.control[0], &log.control[1], &log.appeared];
            counts.iter_mut().zip(sets).for_each(|(count, set)| *count += set.len() as u64);
        }
        let [everyone, nobody, appearances] = counts;
        let share = |part: u64| (appearances > 0).then(|| part as f64 / appearances as f64);
        NegativeControl {
            authorized: share(everyone),
            unauthorized: share(nobody),
            appearances,
            reason: (appearances == 0).then(|| "no target appeared on a visible channel".to_owned()),
        }
    }
}
