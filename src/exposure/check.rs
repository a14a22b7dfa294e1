//! What only the whole log can tell: names that lead nowhere, clocks that contradict themselves.
//!
//! In: a [`Ledger`] that has seen every observation. Out: counted warnings; no figure depends on them.

use std::collections::BTreeMap;

use super::ledger::Ledger;
use super::path::is_contradictory;
use super::register::Register;
use crate::observation::{Candidates, Identity};

impl Ledger<'_> {
    /// Warns of everything that is odd about the log.
    pub(super) fn check_log(&mut self, register: &Register, candidates: &[Candidates]) {
        self.check_clocks();
        self.check_actions();
        self.check_pairs();
        for row in candidates {
            if !self.sessions.contains_key(&row.session_id) {
                self.warnings.add("candidates of a session without observations are left out", &row.session_id);
            }
        }
        for (id, log) in &self.sessions {
            let frozen = register.get(log.contract);
            if frozen.expected_outlet().is_some_and(|outlet| !frozen.is_visible(outlet)) {
                self.warnings.add("expected outlets that are internal expose nothing: OLF is 1 with any exposure", id);
            }
            if log.unscored() > 0 {
                self.warnings.add("sessions with failed or missing observations are incomplete: see `bounds`", id);
            }
        }
    }

    fn check_clocks(&mut self) {
        for (id, session) in &self.sessions {
            if session.clock.is_mixed() {
                self.warnings.add(
                    "timestamps with and without a zone in one session cannot be compared: indices order its events, where known",
                    id,
                );
            }
            if session.clock.turns_back() {
                self.warnings
                    .add("timestamps run against the order of requests in a session: timestamps are followed", id);
            }
            if is_contradictory(session) {
                self.warnings
                    .add("timestamps and indices tell different paths in a session: timestamps are followed", id);
            }
        }
    }

    /// Actions of sessions, requests or channels that the log does not have show nothing, but may be a wrong file.
    fn check_actions(&mut self) {
        for (id, actions) in &self.deliveries {
            if !self.sessions.contains_key(id) {
                self.warnings.add("actions of a session without observations are left out", id);
                continue;
            }
            for _ in actions.values().filter(|action| action.delivered && !action.observed) {
                self.warnings
                    .add("delivered actions without an observation of their request and channel show nothing", id);
            }
        }
    }

    /// Sessions that cannot be in a contrast or in a cluster, though others are.
    fn check_pairs(&mut self) {
        let identities: BTreeMap<&String, &Identity> =
            self.sessions.keys().filter_map(|id| Some((id, self.checker.identity(id)?))).collect();
        let has_keys = identities.values().any(|identity| identity.pair_key.is_some());
        let has_conditions = identities.values().any(|identity| identity.condition.is_some());
        for (id, identity) in identities {
            match (&identity.condition, &identity.pair_key) {
                (Some(_), None) if has_keys => {
                    self.warnings.add("sessions with a condition but without a pair key are in no contrast", id);
                }
                (None, Some(_)) if has_conditions => {
                    self.warnings.add("sessions with a pair key but without a condition are in no contrast", id);
                }
                _ => {}
            }
        }
        if self.cluster_key.is_some() {
            for (id, _) in self.sessions.iter().filter(|(_, log)| log.cluster.is_none()) {
                self.warnings.add("sessions whose pair key lacks the cluster's key are resampled alone", id);
            }
        }
    }
}
