//! Completions are adjudicated against contracts: verdicts, rates with intervals, paired contrasts, a negative control.
//!
//! In: completions of any systems, the traces they answer and the contracts of those. Out: an [`Evaluation`]; and, from the
//! verdicts of several evaluations, a [`Comparison`]. Pure: no model, no files, no clock.

mod answer;
mod compare;
mod contrast;
mod control;
mod exposed;
mod join;
mod judge;
mod opinion;
mod rates;
mod semantic;
mod spread;
mod summary;
mod twin;
mod verdict;

pub use answer::{Lengths, OverRefusal, ToolSelection};
pub use compare::{Comparison, Missing, Source, compare};
pub use contrast::{Contrast, Metric};
pub use exposed::{ExposureSummary, KindExposure};
pub use judge::judge;
pub use opinion::{Agreement, JudgeSummary, OpinionQuestion, Opinions, questions};
pub use rates::{Rate, Rates};
pub use semantic::{Semantic, Unresolved, VerifierSummary, unresolved};
pub use spread::{OverSeeds, Spread, SystemRun, is_untrained, spread};
pub use summary::{Summary, SystemSummary, summarise};
pub use twin::Twins;
pub use verdict::{
    Class, ENDPOINT_JUDGE, EXITS, Evidence, Exposure, Found, JUDGE, Selection, SemanticVerdict, Verdict,
};

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;

use crate::completion::Completion;
use crate::contract::Contract;
use crate::error::Result;
use crate::run::seed::Seed;
use crate::run::shard::Shard;
use crate::statistic::Resampling;
use crate::trace::{Part, Trace};

/// Resamples and seed of an evaluation.
pub type Settings = Resampling;

/// What an evaluation finds.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    /// A row a completion, in their order; then the rows of other judges, if any.
    pub verdicts: Vec<Verdict>,
    /// The figures.
    pub summary: Summary,
}

/// What an evaluation may know beside its inputs.
#[derive(Debug, Clone, Default)]
pub struct Beside {
    /// The part of a split that each trace belongs to: the donors of the negative control never cross parts. Traces that it
    /// does not name pair among themselves.
    pub parts: BTreeMap<String, Part>,
    /// A semantic verifier's outcomes.
    pub semantic: Option<Semantic>,
    /// Another judge's answers.
    pub opinions: Option<Opinions>,
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
    evaluate_with(completions, traces, contracts, settings, &Beside::default())
}

/// [`evaluate()`] with the parts of a split, and what models said of the same completions.
///
/// # Errors
/// As [`evaluate`].
pub fn evaluate_with(
    completions: &[Completion],
    traces: &[Trace],
    contracts: &[Contract],
    settings: &Settings,
    beside: &Beside,
) -> Result<Evaluation> {
    let mut verdicts = verdicts(completions, traces, contracts, settings.seed, beside, Shard::WHOLE)?;
    let mut summary = summarise(&verdicts, *settings);
    if let Some(semantic) = &beside.semantic {
        summary.judge = semantic.judge_name();
        summary.verifier = Some(semantic.summarise(&verdicts, *settings));
    }
    if let Some(opinions) = &beside.opinions {
        let rows = opinions.verdicts(completions, &verdicts);
        summary.judges.insert(opinions.judge_name(), opinion::summarise(&rows, &verdicts, *settings));
        verdicts.extend(rows);
    }
    Ok(Evaluation { verdicts, summary })
}

/// The verdicts on one shard's completions; [`summarise`] makes figures of the verdicts of all shards. Opinions are left aside.
///
/// # Errors
/// As [`evaluate`]; contracts of other shards' traces are not looked into.
pub fn verdicts(
    completions: &[Completion],
    traces: &[Trace],
    contracts: &[Contract],
    seed: Seed,
    beside: &Beside,
    shard: Shard,
) -> Result<Vec<Verdict>> {
    let joined = join::Joined::new(completions, traces, contracts)?;
    // A donor may be any evaluated trace, so that all of them are dealt in every shard.
    let donors = control::donors(&joined.pairs, &beside.parts, seed);
    let own = || shard.indices(completions.len()).map(|index| (index, &completions[index]));
    let answered: BTreeSet<&str> = own().map(|(_, completion)| completion.trace_id.as_str()).collect();
    let wanted: BTreeSet<&str> =
        answered.iter().copied().chain(answered.iter().filter_map(|id| donors.get(id).copied())).collect();
    let cases = joined.cases(|id| wanted.contains(id))?;
    let controls = control::own_controls(&answered, traces, contracts)?;
    let verdict = |(index, completion): (usize, &Completion)| {
        let id = completion.trace_id.as_str();
        let case = cases.get(id)?;
        let mut verdict = match &beside.semantic {
            None => judge(completion, case.trace, case.contract, &case.matcher),
            Some(semantic) => semantic.judge(index, completion, case),
        };
        let donor = donors.get(id).and_then(|donor| cases.get(donor));
        verdict.control_leaked =
            donor.and_then(|donor| judge::states_conclusion(completion, donor.contract, &donor.matcher));
        verdict.own_control_leaked =
            controls.get(id).and_then(|(control, matcher)| judge::states_conclusion(completion, control, matcher));
        Some(verdict)
    };
    Ok(own().collect::<Vec<_>>().into_par_iter().filter_map(verdict).collect())
}
