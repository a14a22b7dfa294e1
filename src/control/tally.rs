//! What deriving the contracts of many traces gave, counted trace by trace.
//!
//! In: a trace with its [`Derived`]. Out: [`Tally`]. Flat in memory: reasons are kept for the first [`MOST_REASONS`] traces.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Control, ControlCounts, SubsetCounts, TraceSubsets, control, every_target, subsets};
use crate::contract::{Contract, Derived, Gap, TargetKind};
use crate::error::Result;
use crate::trace::{Flag, Trace};

/// Reasons that are kept one by one; all are counted.
const MOST_REASONS: usize = 1_000;

/// Yields of deriving contracts.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Tally {
    /// Traces.
    pub traces: usize,
    /// Contracts.
    pub contracts: usize,
    /// Contracts with a label beyond the conclusion itself.
    pub with_label: usize,
    /// Contracts with a grounded clue.
    pub with_clue: usize,
    /// Contracts with either.
    pub with_label_or_clue: usize,
    /// Contracts with a clue that the requester may not have.
    pub with_private_clue: usize,
    /// Contracts with required values.
    pub with_required: usize,
    /// Traces whose criteria demand what they forbid.
    pub conflicts: usize,
    /// Their ids, the first of them.
    pub conflicting: Vec<String>,
    /// Targets.
    pub targets: usize,
    /// Targets by role, those that decide alone first.
    pub by_role: BTreeMap<&'static str, RoleCount>,
    /// Required values.
    pub required_values: usize,
    /// Traces by what their prose does not give.
    pub gaps: BTreeMap<Gap, usize>,
    /// Traces without a contract, or with something missing, and why: the first of them.
    pub reasons: Vec<TraceReason>,
}

/// Targets of one role.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct RoleCount {
    /// Those that decide a leak alone.
    pub strong: usize,
    /// Those that never do.
    pub weak: usize,
}

/// Why a trace gave less.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TraceReason {
    /// The trace.
    pub trace_id: String,
    /// In words, without any sensitive value.
    pub reason: String,
}

/// Further checks of the contracts, on request.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Checks {
    /// Subset audit by the number of tools in the support.
    pub subsets: BTreeMap<usize, SubsetCounts>,
    /// Authorisation control, with every target on every visible channel.
    pub control: ControlCounts,
}

impl Tally {
    /// The tally of one trace.
    pub fn of(derived: &Derived) -> Self {
        let mut tally = Self::default();
        tally.add(derived);
        tally
    }

    /// Adds the tally of the traces that come next.
    pub fn merge(&mut self, next: Self) {
        self.traces += next.traces;
        self.contracts += next.contracts;
        self.with_label += next.with_label;
        self.with_clue += next.with_clue;
        self.with_label_or_clue += next.with_label_or_clue;
        self.with_private_clue += next.with_private_clue;
        self.with_required += next.with_required;
        self.conflicts += next.conflicts;
        self.targets += next.targets;
        self.required_values += next.required_values;
        let left = MOST_REASONS.saturating_sub(self.conflicting.len());
        self.conflicting.extend(next.conflicting.into_iter().take(left));
        for (role, RoleCount { strong, weak }) in next.by_role {
            let count = self.by_role.entry(role).or_default();
            count.strong += strong;
            count.weak += weak;
        }
        for (gap, count) in next.gaps {
            *self.gaps.entry(gap).or_default() += count;
        }
        let left = MOST_REASONS.saturating_sub(self.reasons.len());
        self.reasons.extend(next.reasons.into_iter().take(left));
    }

    fn add(&mut self, derived: &Derived) {
        self.traces += 1;
        if derived.flags.contains(&Flag::Conflict) {
            self.conflicts += 1;
            if self.conflicting.len() < MOST_REASONS {
                self.conflicting.push(derived.trace_id.clone());
            }
        }
        match &derived.contract {
            Ok(contract) => self.add_contract(contract),
            Err(reason) => self.note(&derived.trace_id, format!("no contract: {reason}")),
        }
        for gap in &derived.gaps {
            *self.gaps.entry(*gap).or_default() += 1;
            self.note(&derived.trace_id, gap.reason().to_owned());
        }
    }

    fn note(&mut self, trace_id: &str, reason: String) {
        if self.reasons.len() < MOST_REASONS {
            self.reasons.push(TraceReason { trace_id: trace_id.to_owned(), reason });
        }
    }

    fn add_contract(&mut self, contract: &Contract) {
        let has_label = contract
            .targets
            .iter()
            .any(|target| target.kind == TargetKind::Label && target.provenance.field.as_deref() != Some("conclusion"));
        let clues = || contract.targets.iter().filter(|target| target.kind == TargetKind::Clue);
        let is_private = |id: &str| !contract.authorized.iter().any(|pair| pair.target_id == id);
        let has_clue = clues().next().is_some();
        self.contracts += 1;
        self.with_label += usize::from(has_label);
        self.with_clue += usize::from(has_clue);
        self.with_label_or_clue += usize::from(has_label || has_clue);
        self.with_private_clue += usize::from(clues().any(|clue| is_private(&clue.target_id)));
        self.with_required += usize::from(!contract.required.is_empty());
        self.targets += contract.targets.len();
        self.required_values += contract.required.len();
        for target in &contract.targets {
            let Some(role) = target.provenance.role else { continue };
            let count = self.by_role.entry(role.name()).or_default();
            if target.weak {
                count.weak += 1;
            } else {
                count.strong += 1;
            }
        }
    }

    /// The figures as lines for people.
    pub fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = [
            ("with a derived label", self.with_label),
            ("with a grounded clue", self.with_clue),
            ("with either", self.with_label_or_clue),
            ("with a clue the requester may not have", self.with_private_clue),
            ("with required values", self.with_required),
            ("demanding what they forbid", self.conflicts),
        ]
        .map(|(name, count)| {
            format!("  {count:>7}  {:>5.1}%  {name}", 100.0 * count as f64 / self.traces.max(1) as f64)
        })
        .into();
        lines.push(format!("  {:>7}          targets, {} required values", self.targets, self.required_values));
        for (role, RoleCount { strong, weak }) in &self.by_role {
            lines.push(format!("  {:>7}          {role}: {strong} decide alone, {weak} never", strong + weak));
        }
        lines
    }
}

/// The checks of one contract.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Checked {
    /// Its authorisation control.
    pub control: Control,
    /// Its subset audit, where there is one.
    pub subsets: Option<TraceSubsets>,
}

impl Checked {
    /// Checks a contract.
    ///
    /// # Errors
    /// A contract that does not validate.
    pub fn of(trace: &Trace, contract: &Contract) -> Result<Self> {
        Ok(Self { control: control(contract, &every_target(contract))?, subsets: subsets(trace, contract)? })
    }
}

impl Checks {
    /// Counts one contract.
    pub fn add(&mut self, checked: &Checked) {
        self.control.add(&checked.control);
        if let Some(found) = &checked.subsets {
            self.subsets.entry(found.support.len()).or_default().add(found);
        }
    }

    /// The figures as lines for people.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec!["proper subsets of the support that already carry a target:".to_owned()];
        for (size, counts) in &self.subsets {
            lines.push(format!(
                "  support of {size}: {} traces, {} with a label in some proper subset, {} in a single tool",
                counts.traces, counts.traces_with_label, counts.traces_with_label_in_one_tool
            ));
            for (tools, count) in &counts.by_size {
                lines.push(format!(
                    "    {tools} of {size} tools: {} subsets, {} with a label, {} counting common words, {} with a fragment",
                    count.subsets, count.with_label, count.with_any_label, count.with_fragment
                ));
            }
        }
        let control = &self.control;
        lines.push(match control.exposures() {
            Some((everybody, nobody)) => format!(
                "control over {} contracts, {} of {} targets found: exposure {everybody} with everybody authorised, \
                 {nobody} with nobody",
                control.contracts, control.appeared, control.targets
            ),
            None => "control: no target appears".to_owned(),
        });
        lines
    }
}
