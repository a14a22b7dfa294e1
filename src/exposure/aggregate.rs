//! Figures over sessions: by condition, by view, as bounds.
//!
//! In: scored sessions. Out: [`Group`]s, means of per-session values with intervals over sessions.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::figure::{Figure, Questions};
use super::log::TIERS;
use super::path::Paths;
use super::recognition::Recognition;
use super::session::{Scored, Session, tier_name};
use super::view::View;
use crate::statistic::{Resampling, mean, wilson};

/// Said wherever paths are shown.
pub const ORDER_NOT_CAUSE: &str = "order in time, not cause: logs have no parent ids";

/// Figures of a set of sessions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// Sessions.
    pub n: usize,
    /// Sessions without gaps.
    pub complete: usize,
    /// Exposure coverage rate.
    pub ecr: Figure,
    /// Outlet-loss fraction, over the sessions that declare an outlet.
    pub olf: Figure,
    /// Sessions with an OLF above 0.
    pub olf_positive: usize,
    /// Wilson's interval of their share.
    pub olf_positive_interval: Option<[f64; 2]>,
    /// Coverage by channel, over the sessions whose contract declares it.
    pub coverage: BTreeMap<String, Figure>,
    /// What each internal channel carried: evidence of the path, never exposure.
    pub internal_coverage: BTreeMap<String, Figure>,
    /// The five views.
    pub views: BTreeMap<View, ViewFigures>,
    /// What probes reported; absent when no session has a report.
    pub recognition: Option<RecognitionFigures>,
    /// Paths of all targets that appeared.
    pub paths: PathFigures,
    /// ECR when tiers up to each one count; `normalized` is the headline.
    pub sensitivity: BTreeMap<String, Figure>,
    /// The same figures over the sessions without gaps.
    pub complete_only: CompleteOnly,
    /// Mean of the least and of the greatest values that the gaps leave open.
    pub bounds: GroupBounds,
}

/// A view over sessions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ViewFigures {
    /// Mean share of S that it shows.
    pub coverage: Option<f64>,
    /// Mean of the per-session shares of the union that it does not show.
    pub missed: Option<f64>,
    /// Sessions whose log can answer it.
    pub n: usize,
    /// 95% interval of `coverage`.
    pub coverage_interval: Option<[f64; 2]>,
    /// 95% interval of `missed`.
    pub missed_interval: Option<[f64; 2]>,
    /// Why something is absent or degenerate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Recognition over sessions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecognitionFigures {
    /// ECR over the sessions that have a report.
    pub confirmed: Figure,
    /// Share of S reported.
    pub reported: Figure,
    /// Share of S reported and exposed.
    pub reported_exposed: Figure,
    /// Different candidates that name a target.
    pub precision: Figure,
    /// The same of raw candidates.
    pub precision_raw: Figure,
    /// Different candidates that name an exposed target.
    pub precision_exposed: Figure,
    /// 1 - precision.
    pub fdr: Figure,
    /// Confirmed less reported.
    pub gap: Figure,
    /// Exposed targets that were not reported.
    pub missed: Figure,
}

/// Paths with their shares; every kind is shown, so that nothing is dropped.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PathFigures {
    /// Counts by kind.
    #[serde(flatten)]
    pub counts: Paths,
    /// Targets that appeared on either side, over all sessions.
    pub entity_sessions: u64,
    /// Same request and across requests together.
    pub internal_first: u64,
    /// Tied, one-sided and unordered together.
    pub remainder: u64,
    /// Targets that appeared on both sides: the others have no order to speak of.
    pub two_sided: u64,
    /// Share of the two-sided that were internal first.
    pub internal_first_of_two_sided: Option<f64>,
    /// Share of each of the above in `entity_sessions`; empty when nothing appeared.
    pub shares: BTreeMap<String, f64>,
    /// What an order in time does not show.
    pub note: String,
}

/// Figures of the sessions without gaps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CompleteOnly {
    /// Sessions without gaps.
    pub n: usize,
    /// ECR over them.
    pub ecr: Figure,
    /// OLF over them.
    pub olf: Figure,
}

/// Means of the bounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GroupBounds {
    /// Of ECR.
    pub ecr: Option<[f64; 2]>,
    /// Of OLF.
    pub olf: Option<[f64; 2]>,
}

/// Computes the figures of some sessions.
pub(super) fn group(sessions: &[&Scored], resampling: Resampling) -> Group {
    let mut questions = Questions::new(sessions);
    questions.ask("ecr", |scored| Some(scored.session.ecr));
    questions.ask("olf", |scored| scored.session.olf);
    questions.ask("complete/ecr", |scored| (!scored.session.incomplete).then_some(scored.session.ecr));
    questions.ask("complete/olf", |scored| scored.session.olf.filter(|_| !scored.session.incomplete));
    for channel in names(sessions, |session| &session.coverage) {
        let name = format!("coverage/{channel}");
        questions.ask(name, move |scored| scored.session.coverage.get(&channel).copied());
    }
    for channel in names(sessions, |session| &session.internal_coverage) {
        let name = format!("internal/{channel}");
        questions.ask(name, move |scored| scored.session.internal_coverage.get(&channel).copied());
    }
    for view in View::ALL {
        let value = move |scored: &Scored| scored.session.views.get(&view).cloned();
        questions.ask(format!("{}/coverage", view.name()), move |scored| value(scored)?.coverage);
        questions.ask(format!("{}/missed", view.name()), move |scored| value(scored)?.missed);
    }
    for tier in TIERS.map(tier_name) {
        questions.ask(format!("tier/{tier}"), move |scored| scored.session.sensitivity.get(tier).copied());
    }
    ask_recognition(&mut questions);
    let mut answers = questions.answer(resampling);
    let olf_positive = sessions.iter().filter(|scored| scored.session.olf.is_some_and(|olf| olf > 0.0)).count();
    let with_outlet = sessions.iter().filter(|scored| scored.session.olf.is_some()).count();
    let mut paths = Paths::default();
    for scored in sessions {
        paths.extend(&scored.session.paths);
    }
    let complete = sessions.iter().filter(|scored| !scored.session.incomplete).count();
    Group {
        n: sessions.len(),
        complete,
        ecr: answers.take("ecr"),
        olf: answers.take("olf"),
        olf_positive,
        olf_positive_interval: wilson(olf_positive, with_outlet).map(|(low, high)| [low, high]),
        coverage: answers.take_all("coverage/"),
        internal_coverage: answers.take_all("internal/"),
        views: View::ALL
            .into_iter()
            .map(|view| {
                let [coverage, missed] =
                    ["coverage", "missed"].map(|of| answers.take(&format!("{}/{of}", view.name())));
                (view, ViewFigures::new(coverage, &missed))
            })
            .collect(),
        recognition: sessions.iter().any(|scored| scored.session.recognition.is_some()).then(|| RecognitionFigures {
            confirmed: answers.take("recognition/confirmed"),
            reported: answers.take("recognition/reported"),
            reported_exposed: answers.take("recognition/reported_exposed"),
            precision: answers.take("recognition/precision"),
            precision_raw: answers.take("recognition/precision_raw"),
            precision_exposed: answers.take("recognition/precision_exposed"),
            fdr: answers.take("recognition/fdr"),
            gap: answers.take("recognition/gap"),
            missed: answers.take("recognition/missed"),
        }),
        paths: PathFigures::new(paths),
        sensitivity: answers.take_all("tier/"),
        complete_only: CompleteOnly {
            n: complete,
            ecr: answers.take("complete/ecr"),
            olf: answers.take("complete/olf"),
        },
        bounds: bounds(sessions),
    }
}

fn names(sessions: &[&Scored], of: impl Fn(&Session) -> &BTreeMap<String, f64>) -> BTreeSet<String> {
    sessions.iter().flat_map(|scored| of(&scored.session).keys().cloned()).collect()
}

fn ask_recognition(questions: &mut Questions<'_>) {
    type Part = fn(&Recognition) -> Option<f64>;
    let parts: [(&str, Part); 8] = [
        ("reported", |found| Some(found.reported)),
        ("reported_exposed", |found| Some(found.reported_exposed)),
        ("precision", |found| found.precision),
        ("precision_raw", |found| found.precision_raw),
        ("precision_exposed", |found| found.precision_exposed),
        ("fdr", |found| found.fdr),
        ("gap", |found| Some(found.gap)),
        ("missed", |found| Some(found.missed)),
    ];
    for (name, part) in parts {
        questions.ask(format!("recognition/{name}"), move |scored| part(scored.session.recognition.as_ref()?));
    }
    questions.ask("recognition/confirmed", |scored| scored.session.recognition.as_ref().map(|_| scored.session.ecr));
}

fn bounds(sessions: &[&Scored]) -> GroupBounds {
    let ends = |values: Vec<[f64; 2]>| {
        let end = |side: usize| mean(&values.iter().map(|value| value[side]).collect::<Vec<_>>());
        Some([end(0)?, end(1)?])
    };
    GroupBounds {
        ecr: ends(sessions.iter().map(|scored| scored.session.bounds.ecr).collect()),
        olf: ends(sessions.iter().filter_map(|scored| scored.session.bounds.olf).collect()),
    }
}

impl ViewFigures {
    fn new(coverage: Figure, missed: &Figure) -> Self {
        let interval = |figure: &Figure| Some([figure.low?, figure.high?]);
        Self {
            coverage_interval: interval(&coverage),
            missed_interval: interval(missed),
            coverage: coverage.mean,
            missed: missed.mean,
            n: coverage.n,
            reason: if coverage.n == 0 { Some("no session's log can answer it".to_owned()) } else { coverage.reason },
        }
    }
}

impl PathFigures {
    fn new(counts: Paths) -> Self {
        let total = counts.total();
        let two_sided = total - counts.one_sided;
        let parts = [
            ("same_request", counts.same_request),
            ("cross_request", counts.cross_request),
            ("internal_first", counts.internal_first()),
            ("visible_first", counts.visible_first),
            ("tied", counts.tied),
            ("one_sided", counts.one_sided),
            ("unordered", counts.unordered),
            ("remainder", counts.remainder()),
        ];
        let share = |(name, count): (&str, u64)| (total > 0).then(|| (name.to_owned(), count as f64 / total as f64));
        Self {
            counts,
            entity_sessions: total,
            internal_first: counts.internal_first(),
            remainder: counts.remainder(),
            two_sided,
            internal_first_of_two_sided: (two_sided > 0).then(|| counts.internal_first() as f64 / two_sided as f64),
            shares: parts.into_iter().filter_map(share).collect(),
            note: ORDER_NOT_CAUSE.to_owned(),
        }
    }
}
