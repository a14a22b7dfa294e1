//! Figures over sessions: by condition, by view, as bounds.
//!
//! In: scored sessions. Out: [`Group`]s, means of per-session values with intervals over sessions.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::figure::{Answers, Figure, Question, Questions};
use super::log::TIERS;
use super::path::{PathFigures, Paths};
use super::recognition::{NO_CANDIDATES, Recognition};
use super::session::{Scored, Session, tier_name};
use super::view::View;
use crate::statistic::{Resampling, mean, wilson};

/// Before the names of questions to the sessions without gaps.
const COMPLETE: &str = "complete/";

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
    /// Why it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recognition_reason: Option<String>,
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
    /// Why the coverage or its interval is absent or degenerate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The same of `missed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed_reason: Option<String>,
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

/// Figures of the sessions without gaps.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CompleteOnly {
    /// Sessions without gaps.
    pub n: usize,
    /// ECR over them.
    pub ecr: Figure,
    /// OLF over them.
    pub olf: Figure,
    /// Those with an OLF above 0.
    pub olf_positive: usize,
    /// Coverage by channel over them.
    pub coverage: BTreeMap<String, Figure>,
    /// The five views over them.
    pub views: BTreeMap<View, ViewFigures>,
}

/// Means of the bounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GroupBounds {
    /// Of ECR.
    pub ecr: Option<[f64; 2]>,
    /// Of OLF.
    pub olf: Option<[f64; 2]>,
    /// Of the coverage of each visible channel.
    pub coverage: BTreeMap<String, [f64; 2]>,
}

/// Computes the figures of some sessions.
pub(super) fn group(sessions: &[&Scored], resampling: Resampling) -> Group {
    let mut questions = Questions::new(sessions);
    ask_exposure(&mut questions, sessions, "", |_| true);
    let complete = sessions.iter().filter(|scored| !scored.session.incomplete).count();
    if complete < sessions.len() {
        ask_exposure(&mut questions, sessions, COMPLETE, |scored| !scored.session.incomplete);
    }
    for channel in names(sessions, |session| &session.internal_coverage) {
        let name = format!("internal/{channel}");
        questions.ask(name, move |scored| scored.session.internal_coverage.get(&channel).copied());
    }
    for tier in TIERS.map(tier_name) {
        questions.ask(format!("tier/{tier}"), move |scored| scored.session.sensitivity.get(tier).copied());
    }
    ask_recognition(&mut questions);
    let mut answers = questions.answer(resampling);
    let loses = |scored: &&&Scored| scored.session.olf.is_some_and(|olf| olf > 0.0);
    let olf_positive = sessions.iter().filter(loses).count();
    let with_outlet = sessions.iter().filter(|scored| scored.session.olf.is_some()).count();
    let mut paths = Paths::default();
    for scored in sessions {
        paths.extend(&scored.session.paths);
    }
    let has_report = sessions.iter().any(|scored| scored.session.recognition.is_some());
    let mut group = Group {
        n: sessions.len(),
        complete,
        ecr: answers.take("ecr"),
        olf: answers.take("olf"),
        olf_positive,
        olf_positive_interval: wilson(olf_positive, with_outlet).map(|(low, high)| [low, high]),
        coverage: answers.take_all("coverage/"),
        internal_coverage: answers.take_all("internal/"),
        views: views(&mut answers, ""),
        recognition: has_report.then(|| RecognitionFigures {
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
        recognition_reason: (!has_report).then(|| NO_CANDIDATES.to_owned()),
        paths: PathFigures::new(paths),
        sensitivity: answers.take_all("tier/"),
        complete_only: CompleteOnly::default(),
        bounds: bounds(sessions),
    };
    group.complete_only = if complete < sessions.len() {
        let olf_positive = sessions.iter().filter(|scored| !scored.session.incomplete).filter(loses).count();
        CompleteOnly::new(complete, olf_positive, &mut answers)
    } else {
        CompleteOnly::same(&group)
    };
    group
}

/// Asks what is given with and without incomplete sessions: exposure, outlet loss, coverage by channel, the five views.
fn ask_exposure<'a>(
    questions: &mut Questions<'a>,
    sessions: &[&Scored],
    prefix: &str,
    counts: impl Fn(&Scored) -> bool + Copy + 'a,
) {
    let mut ask = |name: String, value: Question<'a>| {
        questions.ask(format!("{prefix}{name}"), move |scored| if counts(scored) { value(scored) } else { None });
    };
    ask("ecr".to_owned(), Box::new(|scored| Some(scored.session.ecr)));
    ask("olf".to_owned(), Box::new(|scored| scored.session.olf));
    for channel in names(sessions, |session| &session.coverage) {
        let name = format!("coverage/{channel}");
        ask(name, Box::new(move |scored| scored.session.coverage.get(&channel).copied()));
    }
    for view in View::ALL {
        ask(format!("{}/coverage", view.name()), Box::new(move |scored| scored.session.views.get(&view)?.coverage));
        ask(format!("{}/missed", view.name()), Box::new(move |scored| scored.session.views.get(&view)?.missed));
    }
}

fn views(answers: &mut Answers, prefix: &str) -> BTreeMap<View, ViewFigures> {
    let figures = |view: View| {
        let [coverage, missed] =
            ["coverage", "missed"].map(|of| answers.take(&format!("{prefix}{}/{of}", view.name())));
        (view, ViewFigures::new(coverage, &missed))
    };
    View::ALL.into_iter().map(figures).collect()
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
        coverage: names(sessions, |session| &session.coverage)
            .into_iter()
            .filter_map(|channel| {
                let of = |scored: &&Scored| scored.session.bounds.coverage.get(&channel).copied();
                let ends = ends(sessions.iter().filter_map(of).collect())?;
                Some((channel, ends))
            })
            .collect(),
    }
}

impl CompleteOnly {
    fn new(n: usize, olf_positive: usize, answers: &mut Answers) -> Self {
        Self {
            n,
            ecr: answers.take(&format!("{COMPLETE}ecr")),
            olf: answers.take(&format!("{COMPLETE}olf")),
            olf_positive,
            coverage: answers.take_all(&format!("{COMPLETE}coverage/")),
            views: views(answers, COMPLETE),
        }
    }

    /// Of a group without gaps.
    fn same(group: &Group) -> Self {
        Self {
            n: group.n,
            ecr: group.ecr.clone(),
            olf: group.olf.clone(),
            olf_positive: group.olf_positive,
            coverage: group.coverage.clone(),
            views: group.views.clone(),
        }
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
            missed_reason: missed.reason.clone(),
            n: coverage.n,
            reason: if coverage.n == 0 { Some("no session's log can answer it".to_owned()) } else { coverage.reason },
        }
    }
}
