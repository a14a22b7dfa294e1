//! Evaluations made apart, compared by trace.
//!
//! In: the verdicts of several evaluations, each under a label. Out: a [`Comparison`]: every system's figures on its own rows,
//! contrasts over the traces that two systems share, and the traces that they do not.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::summary::{Summary, summarise};
use super::verdict::Verdict;
use crate::error::{Error, Fault, Result};
use crate::statistic::Resampling;

/// Systems of several evaluations side by side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Figures and contrasts.
    #[serde(flatten)]
    pub summary: Summary,
    /// Where each system's verdicts come from.
    pub sources: BTreeMap<String, Source>,
    /// Traces that only one of two systems answered.
    pub missing: Vec<Missing>,
}

/// The origin of one system's verdicts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// Label of the evaluation.
    pub evaluation: String,
    /// The system's name there.
    pub system: String,
}

/// Traces without a partner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// First system.
    pub a: String,
    /// Second system.
    pub b: String,
    /// Traces that only the first answered.
    pub only_a: Vec<String>,
    /// Traces that only the second answered.
    pub only_b: Vec<String>,
}

/// Compares evaluations by their own verdicts; rows of other judges are left out. A system's name that occurs in several of them is led by the label: `run-1/dpo`.
///
/// # Errors
/// Fewer than two systems, the same label twice, or a trace, system and seed twice in one evaluation.
pub fn compare(evaluations: &[(String, Vec<Verdict>)], resampling: Resampling) -> Result<Comparison> {
    let own = |(label, verdicts): &(String, Vec<Verdict>)| {
        (label.clone(), verdicts.iter().filter(|verdict| verdict.is_own()).cloned().collect())
    };
    let evaluations: Vec<(String, Vec<Verdict>)> = evaluations.iter().map(own).collect();
    check(&evaluations)?;
    let mut uses: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (label, verdicts) in &evaluations {
        for verdict in verdicts {
            uses.entry(&verdict.system).or_default().insert(label);
        }
    }
    let mut sources = BTreeMap::new();
    let mut renamed = Vec::new();
    for (label, verdicts) in &evaluations {
        for verdict in verdicts {
            let shared = uses.get(verdict.system.as_str()).is_some_and(|labels| labels.len() > 1);
            let name = if shared { format!("{label}/{}", verdict.system) } else { verdict.system.clone() };
            let source = Source { evaluation: label.clone(), system: verdict.system.clone() };
            sources.insert(name.clone(), source);
            renamed.push(Verdict { system: name, ..verdict.clone() });
        }
    }
    if sources.len() < 2 {
        return Err(Fault::new("a comparison needs two systems or more").got(sources.len()).into());
    }
    Ok(Comparison { missing: missing(&renamed), summary: summarise(&renamed, resampling), sources })
}

fn check(evaluations: &[(String, Vec<Verdict>)]) -> Result<()> {
    let mut faults = Vec::new();
    let mut labels = BTreeSet::new();
    for (label, verdicts) in evaluations {
        if !labels.insert(label) {
            faults.push(Fault::new("the same evaluation is given twice").at(label));
        }
        let mut seen = BTreeSet::new();
        for (row, verdict) in verdicts.iter().enumerate() {
            if !seen.insert((&verdict.trace_id, &verdict.system, verdict.seed)) {
                let what = format!("trace {}, system {} twice with the same seed", verdict.trace_id, verdict.system);
                faults.push(Fault::new(what).at(format!("{label}: verdicts row {}", row + 1)));
            }
        }
    }
    if faults.is_empty() { Ok(()) } else { Err(Error::Invalid(faults)) }
}

fn missing(verdicts: &[Verdict]) -> Vec<Missing> {
    let mut traces: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for verdict in verdicts {
        traces.entry(&verdict.system).or_default().insert(&verdict.trace_id);
    }
    let names: Vec<&str> = traces.keys().copied().collect();
    let only = |a: &str, b: &str| traces[a].difference(&traces[b]).map(|id| (*id).to_owned()).collect::<Vec<_>>();
    let mut missing = Vec::new();
    for (place, a) in names.iter().enumerate() {
        for b in &names[place + 1..] {
            let (only_a, only_b) = (only(a, b), only(b, a));
            if !only_a.is_empty() || !only_b.is_empty() {
                missing.push(Missing { a: (*a).to_owned(), b: (*b).to_owned(), only_a, only_b });
            }
        }
    }
    missing
}
