//! Completions are adjudicated against contracts: verdicts, rates with intervals, paired contrasts, a negative control.
//!
//! In: completions of any systems, the traces they answer and the contracts of those. Out: an [`Evaluation`]; and, from the
//! verdicts of several evaluations, a [`Comparison`]. Pure: no model, no files, no clock.

mod compare;
mod contrast;
mod control;
mod join;
mod rates;
mod summary;
mod verdict;

pub use compare::{Comparison, Missing, Source, compare};
pub use contrast::{Contrast, Metric};
pub use rates::{Rate, Rates};
pub use summary::{ExposureSummary, Summary, SystemSummary, ToolSelection, summarise};
pub use verdict::{Class, EXITS, Evidence, Exposure, Found, JUDGE, Selection, Verdict, judge};

use std::collections::BTreeMap;

use rayon::prelude::*;

use crate::completion::Completion;
use crate::contract::Contract;
use crate::dataset::Part;
use crate::error::Result;
use crate::statistic::Resampling;
use crate::trace::Trace;

/// Resamples and seed of an evaluation.
pub type Settings = Resampling;

/// What an evaluation finds.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    /// A row a completion, in their order.
    pub verdicts: Vec<Verdict>,
    /// The figures.
    pub summary: Summary,
}

/// Judges every completion and summarises.
///
/// # Errors
/// All of: rows of the same trace, system and seed; completions of unknown traces; traces without a contract, with two, or with
/// one that was changed after it was frozen. Each names the row.
pub fn evaluate(
    completions: &[Completion],
    traces: &[Trace],
    contracts: &[Contract],
    settings: &Settings,
) -> Result<Evaluation> {
    evaluate_parts(completions, traces, contracts, &BTreeMap::new(), settings)
}

/// [`evaluate()`] where the evaluated traces belong to several parts of a split: the donors of the negative control never cross
/// them. Traces that `parts` does not name pair among themselves.
///
/// # Errors
/// As [`evaluate()`].
pub fn evaluate_parts(
    completions: &[Completion],
    traces: &[Trace],
    contracts: &[Contract],
    parts: &BTreeMap<String, Part>,
    settings: &Settings,
) -> Result<Evaluation> {
    let cases = join::join(completions, traces, contracts)?;
    let donors = control::donors(&cases, parts, settings.seed);
    let verdict = |completion: &Completion| {
        let id = completion.trace_id.as_str();
        let case = cases.get(id)?;
        let mut verdict = judge(completion, case.trace, case.contract, &case.matcher);
        let donor = donors.get(id).and_then(|donor| cases.get(donor));
        verdict.control_leaked =
            donor.and_then(|donor| verdict::states_conclusion(completion, donor.contract, &donor.matcher));
        Some(verdict)
    };
    let verdicts: Vec<Verdict> = completions.par_iter().filter_map(verdict).collect();
    let summary = summarise(&verdicts, *settings);
    Ok(Evaluation { verdicts, summary })
}
