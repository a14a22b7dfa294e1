//! The edge of the analysis: files in, files out, a batch of rows at a time.
//!
//! In: `contracts.jsonl`, `observations.jsonl`, perhaps `candidates.jsonl` and `actions.jsonl`. Out: `matches.jsonl`, the frozen
//! `contracts.jsonl` and `summary.json`. Payloads are dropped as soon as they are searched, so memory follows the number of
//! sessions, not of observations.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;

use super::event::EventView;
use super::ledger::{Admission, Ledger};
use super::match_row::MatchRow;
use super::payload;
use super::register::{Frozen, Register};
use super::release::{LabelComparison, LabelLedger};
use super::semantic::{Searched, Semantic};
use super::summary::Summary;
use crate::adjudicate::{Match, Matcher};
use crate::contract::Contract;
use crate::error::{Error, Fault, Result};
use crate::observation::{Action, Candidates, Observation, Status};
use crate::run::atomic::{self, Pending};
use crate::run::{interrupt, jsonl};
use crate::statistic::Resampling;

/// Compiled matchers that are kept; a log whose sessions all have targets of their own needs each only for a while.
const KEPT_MATCHERS: usize = 512;

/// Faults that one message names.
const SHOWN_FAULTS: usize = 10;

/// Where everything is.
#[derive(Debug, Clone)]
pub struct Files {
    /// Contracts.
    pub contracts: Vec<PathBuf>,
    /// Observations.
    pub observations: Vec<PathBuf>,
    /// What probes reported.
    pub candidates: Vec<PathBuf>,
    /// Which actions were delivered.
    pub actions: Vec<PathBuf>,
    /// Folder for the outputs.
    pub out: PathBuf,
}

/// How to analyse.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// Resamples and seed.
    pub resampling: Resampling,
    /// The key within `pair_key` whose sessions are resampled together.
    pub cluster: Option<String>,
    /// The channel of the final answer, where its name does not tell.
    pub answer_channel: Option<String>,
}

/// Analyses session logs and writes what it finds. A verifier adds matches of its own tier, which no headline figure counts.
///
/// # Errors
/// Unreadable or invalid inputs, naming the rows; an unwritable folder.
pub fn analyse(files: &Files, settings: &Settings, mut verifier: Option<&mut Semantic<'_>>) -> Result<Summary> {
    let register = read_register(&files.contracts)?;
    if let Some(name) = &settings.answer_channel {
        check_answer_channel(&register, name)?;
    }
    let actions: Vec<Action> = read_all(&files.actions)?;
    let candidates: Vec<Candidates> = read_all(&files.candidates)?;
    let mut ledger = Ledger::new(&register, &actions, settings.cluster.as_deref());
    let mut matchers = Matchers::default();
    let mut matches = Pending::create(&files.out.join("matches.jsonl"))?;
    for path in &files.observations {
        let place = path.display().to_string();
        jsonl::read_batches(path, |rows| {
            interrupt::check()?;
            let admitted = admit(&mut ledger, rows, &place)?;
            for row in record(&mut ledger, (&register, &mut matchers), &admitted, verifier.as_deref_mut())? {
                matches.row(&row)?;
            }
            Ok(())
        })?;
    }
    let mut summary = ledger.finish(&register, &candidates, settings)?;
    summary.semantic = verifier.map(|verifier| verifier.report());
    matches.commit()?;
    jsonl::write(&files.out.join("contracts.jsonl"), register.iter().map(|frozen| &frozen.contract))?;
    let json = serde_json::to_vec_pretty(&summary).map_err(|error| Error::Failed(error.to_string()))?;
    atomic::write(&files.out.join("summary.json"), &json)?;
    Ok(summary)
}

/// A name that no contract knows would leave the view of the final answer empty.
fn check_answer_channel(register: &Register, name: &str) -> Result<()> {
    let is_visible = |frozen: &Frozen| frozen.channel(name).is_some_and(|channel| frozen.is_visible(channel));
    if register.iter().any(is_visible) {
        return Ok(());
    }
    Err(Fault::new("no contract declares this as a visible channel").at("--answer-channel").got(name).into())
}

/// The events of some sessions, in order, with their matches marked: a second pass over the observations. The verifier of the
/// first pass is not asked again.
///
/// # Errors
/// As [`analyse`].
pub fn events(
    files: &Files,
    sessions: &BTreeSet<String>,
    verifier: Option<&mut Semantic<'_>>,
) -> Result<BTreeMap<String, Vec<EventView>>> {
    let mut events: BTreeMap<String, Vec<EventView>> = BTreeMap::new();
    again(
        files,
        verifier,
        |id| sessions.contains(id),
        |observation, frozen, admission, matches| {
            let rows = MatchRow::of_event(observation, frozen, admission.channel, matches);
            let visibility = frozen.contract.channels[admission.channel].visibility;
            let event = EventView::new(observation, visibility, observation.payload.text(), &rows);
            events.entry(observation.session_id.clone()).or_default().push(event);
        },
    )?;
    for events in events.values_mut() {
        EventView::sort(events);
    }
    Ok(events)
}

/// Compares a release's own labels with the matches, and writes `label-agreement.json` and `label-disagreements.jsonl`.
///
/// # Errors
/// As [`analyse`].
pub fn compare_labels(files: &Files, labels: &Path) -> Result<LabelComparison> {
    let mut ledger = LabelLedger::new(jsonl::read(labels)?);
    again(
        files,
        None,
        |_| true,
        |observation, frozen, _, matches| {
            ledger.compare(observation, &frozen.contract, observation.payload.text(), matches);
        },
    )?;
    let comparison = ledger.finish();
    jsonl::write(&files.out.join("label-disagreements.jsonl"), &ledger.disagreements)?;
    let json = serde_json::to_vec_pretty(&comparison).map_err(|error| Error::Failed(error.to_string()))?;
    atomic::write(&files.out.join("label-agreement.json"), &json)?;
    Ok(comparison)
}

/// A second pass over the observations of the sessions that `wanted` names.
fn again(
    files: &Files,
    mut verifier: Option<&mut Semantic<'_>>,
    wanted: impl Fn(&str) -> bool,
    mut take: impl FnMut(&Observation, &Frozen, Admission, &[Match]),
) -> Result<()> {
    let register = read_register(&files.contracts)?;
    let mut ledger = Ledger::new(&register, &[], None);
    let mut matchers = Matchers::default();
    for path in &files.observations {
        let place = path.display().to_string();
        jsonl::read_batches(path, |mut rows: Vec<(usize, Observation)>| {
            interrupt::check()?;
            rows.retain(|(_, observation)| wanted(&observation.session_id));
            let admitted = admit(&mut ledger, rows, &place)?;
            for run in runs(&admitted) {
                let found = search(&register, &mut matchers, run, verifier.as_deref_mut())?;
                for ((observation, admission), found) in run.iter().zip(found) {
                    take(observation, register.get(admission.contract), *admission, &found.matches);
                }
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Reads and freezes contracts.
///
/// # Errors
/// As [`Register::new`].
pub fn read_register(paths: &[PathBuf]) -> Result<Register> {
    Register::new(read_all::<Contract>(paths)?)
}

fn read_all<T: serde::de::DeserializeOwned>(paths: &[PathBuf]) -> Result<Vec<T>> {
    let mut rows = Vec::new();
    for path in paths {
        rows.extend(jsonl::read::<T>(path)?);
    }
    Ok(rows)
}

/// The rows that are to be searched, or the faults of the batch.
fn admit(
    ledger: &mut Ledger<'_>,
    rows: Vec<(usize, Observation)>,
    place: &str,
) -> Result<Vec<(Observation, Admission)>> {
    let mut admitted = Vec::with_capacity(rows.len());
    let mut faults: Vec<Fault> = Vec::new();
    for (line, observation) in rows {
        match ledger.admit(&observation) {
            Ok(Some(admission)) => admitted.push((observation, admission)),
            Err(fault) if faults.len() < SHOWN_FAULTS => faults.push(fault.at(format!("{place}:{line}"))),
            Ok(None) | Err(_) => {}
        }
    }
    if faults.is_empty() { Ok(admitted) } else { Err(Error::Invalid(faults)) }
}

/// Searches the payloads of a batch in parallel, then enters them in order.
fn record(
    ledger: &mut Ledger<'_>,
    (register, matchers): (&Register, &mut Matchers),
    admitted: &[(Observation, Admission)],
    mut verifier: Option<&mut Semantic<'_>>,
) -> Result<Vec<MatchRow>> {
    let mut rows = Vec::new();
    for run in runs(admitted) {
        let found = search(register, matchers, run, verifier.as_deref_mut())?;
        for ((observation, admission), found) in run.iter().zip(found) {
            if found.huge {
                ledger.note_huge(&observation.session_id);
            }
            ledger.record(observation, *admission, &found.matches, &mut rows);
        }
    }
    Ok(rows)
}

/// What a payload shows.
struct Found {
    matches: Vec<Match>,
    huge: bool,
}

/// Searches payloads in parallel, those of gaps not at all, and asks the verifier about what is open.
fn search(
    register: &Register,
    matchers: &mut Matchers,
    run: &[(Observation, Admission)],
    verifier: Option<&mut Semantic<'_>>,
) -> Result<Vec<Found>> {
    let ready = matchers.ready(register, run)?;
    let one = |(observation, admission): &(Observation, Admission)| {
        if observation.status != Status::Ok {
            return Ok(Found { matches: Vec::new(), huge: false });
        }
        let text = observation.payload.text();
        let key = register.get(admission.contract).targets_key.as_str();
        let matcher = ready.get(key).ok_or_else(|| Error::Failed("a contract has no matcher".to_owned()))?;
        Ok(Found { matches: payload::find(matcher, text), huge: payload::is_huge(text) })
    };
    let mut found: Vec<Found> = run.par_iter().map(one).collect::<Result<_>>()?;
    if let Some(verifier) = verifier {
        ask(verifier, register, &ready, run, &mut found)?;
    }
    Ok(found)
}

/// Adds the verifier's matches.
fn ask(
    verifier: &mut Semantic<'_>,
    register: &Register,
    ready: &HashMap<String, Arc<Matcher>>,
    run: &[(Observation, Admission)],
    found: &mut [Found],
) -> Result<()> {
    let mut places = Vec::new();
    let mut searched = Vec::new();
    for (place, (observation, admission)) in run.iter().enumerate() {
        let frozen = register.get(admission.contract);
        let Some(matcher) = ready.get(frozen.targets_key.as_str()) else { continue };
        if observation.status == Status::Ok {
            places.push(place);
            let text = observation.payload.text();
            searched.push(Searched { frozen, matcher, channel: &observation.channel, text });
        }
    }
    for (place, matches) in places.into_iter().zip(verifier.matches(&searched)?) {
        found[place].matches.extend(matches);
    }
    Ok(())
}

/// Cuts rows so that no part needs more matchers than are kept.
fn runs(admitted: &[(Observation, Admission)]) -> Vec<&[(Observation, Admission)]> {
    let mut runs = Vec::new();
    let mut start = 0;
    let mut contracts = HashSet::new();
    for (place, (_, admission)) in admitted.iter().enumerate() {
        contracts.insert(admission.contract);
        if contracts.len() > KEPT_MATCHERS {
            runs.push(&admitted[start..place]);
            start = place;
            contracts.clear();
            contracts.insert(admission.contract);
        }
    }
    runs.push(&admitted[start..]);
    runs
}

/// Compiled matchers by the digest of their targets.
#[derive(Default)]
pub(super) struct Matchers(HashMap<String, Arc<Matcher>>);

impl Matchers {
    /// The matchers of these rows, compiled in parallel where they are new.
    fn ready(
        &mut self,
        register: &Register,
        rows: &[(Observation, Admission)],
    ) -> Result<HashMap<String, Arc<Matcher>>> {
        let mut wanted: HashMap<&str, usize> = HashMap::new();
        for (_, admission) in rows {
            wanted.entry(register.get(admission.contract).targets_key.as_str()).or_insert(admission.contract);
        }
        let missing: Vec<(&str, usize)> =
            wanted.iter().filter(|(key, _)| !self.0.contains_key(**key)).map(|(key, place)| (*key, *place)).collect();
        if self.0.len() + missing.len() > KEPT_MATCHERS {
            self.0.retain(|key, _| wanted.contains_key(key.as_str()));
        }
        let compiled: Result<Vec<(String, Arc<Matcher>)>> = missing
            .into_par_iter()
            .map(|(key, place)| Ok((key.to_owned(), Arc::new(Matcher::new(&register.get(place).contract)?))))
            .collect();
        self.0.extend(compiled?);
        Ok(wanted.keys().filter_map(|key| Some(((*key).to_owned(), Arc::clone(self.0.get(*key)?)))).collect())
    }
}
