//! C2: what a probe agent reported, against what was exposed.
//!
//! In: its candidate strings, the contract's targets found in them, and the exposed set. Out: [`Recognition`].
//! Source: ASLEval, section 3.3, "C2: recognition displacement".

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::register::Frozen;
use super::set::TargetSet;
use crate::adjudicate::{Matcher, normal_form};

/// Why a recognition is absent.
pub(super) const NO_CANDIDATES: &str = "no candidates were submitted";

/// A session's report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recognition {
    /// Candidate strings as given.
    pub candidates_raw: usize,
    /// Different ones after normalisation: the denominator of precision.
    pub candidates: usize,
    /// Those that name a target.
    pub correct: usize,
    /// Share of S that was reported.
    pub reported: f64,
    /// Share of S that was reported and is exposed.
    pub reported_exposed: f64,
    /// Share of the different candidates that name a target; absent without candidates.
    pub precision: Option<f64>,
    /// Share of the raw candidates that name a target.
    pub precision_raw: Option<f64>,
    /// Share of the different candidates that name an exposed target.
    pub precision_exposed: Option<f64>,
    /// 1 - precision.
    pub fdr: Option<f64>,
    /// ECR - reported.
    pub gap: f64,
    /// Share of the exposed targets that were not reported; 0 when none is exposed.
    pub missed: f64,
    /// Why something is absent.
    pub reason: Option<String>,
}

/// Targets found in the candidates.
#[derive(Debug, Clone, Default)]
pub(super) struct Report {
    raw: usize,
    /// Each different candidate: how often it was given and what it names.
    candidates: BTreeMap<String, (usize, TargetSet)>,
}

impl Report {
    /// Matches candidates against the targets of a contract, headline tiers only.
    pub fn of(candidates: &[String], frozen: &Frozen, matcher: &Matcher) -> Self {
        let mut report = Self::default();
        for candidate in candidates {
            let form = normal_form(candidate);
            if form.is_empty() {
                continue;
            }
            report.raw += 1;
            let (count, targets) = report.candidates.entry(form).or_default();
            *count += 1;
            let found = matcher.find(candidate);
            let named = found.iter().filter(|found| found.tier.is_headline());
            named.filter_map(|found| frozen.target(&found.target_id)).for_each(|target| targets.insert(target));
        }
        report
    }

    /// Targets of S that any candidate names.
    pub fn targets(&self) -> TargetSet {
        self.candidates.values().fold(TargetSet::default(), |union, (_, targets)| union.union(targets))
    }

    /// Compares the report with the exposed set of a session with `size` targets.
    pub fn recognition(&self, exposed: &TargetSet, size: usize) -> Recognition {
        let reported = self.targets();
        let confirmed = reported.both(exposed);
        let share = |part: usize, whole: usize| (whole > 0).then(|| part as f64 / whole as f64);
        let correct: Vec<usize> =
            self.candidates.values().filter(|(_, targets)| !targets.is_empty()).map(|(count, _)| *count).collect();
        let on_exposed = self.candidates.values().filter(|(_, targets)| !targets.both(exposed).is_empty()).count();
        let of_targets = |part: usize| part as f64 / size.max(1) as f64;
        let precision = share(correct.len(), self.candidates.len());
        Recognition {
            candidates_raw: self.raw,
            candidates: self.candidates.len(),
            correct: correct.len(),
            reported: of_targets(reported.len()),
            reported_exposed: of_targets(confirmed.len()),
            precision,
            precision_raw: share(correct.iter().sum(), self.raw),
            precision_exposed: share(on_exposed, self.candidates.len()),
            fdr: precision.map(|precision| 1.0 - precision),
            gap: of_targets(exposed.len()) - of_targets(reported.len()),
            missed: share(exposed.without(&reported).len(), exposed.len()).unwrap_or(0.0),
            reason: precision.is_none().then(|| NO_CANDIDATES.to_owned()),
        }
    }
}
