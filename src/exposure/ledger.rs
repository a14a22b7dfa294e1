//! Observations become session logs, one at a time: nothing of a payload is kept.
//!
//! In: each [`Observation`] with the matches in its payload. Out: per session, which targets appeared where, to whom and when
//! ([`SessionLog`]). Sets and earliest times only, so the order of rows cannot matter and a repeated row changes nothing.
//! Source: ASLEval, equations 2 to 5.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher as _, RandomState};

use super::clock::{Earliest, Event, Moment};
use super::log::{SessionLog, Side};
use super::match_row::MatchRow;
use super::register::{Authority, Frozen, Register};
use super::set::TargetSet;
use super::warning::Warnings;
use crate::adjudicate::Match;
use crate::error::Fault;
use crate::observation::{Action, ActionStatus, Observation, Status};

const UNREADABLE: &str = "timestamps that cannot be read are taken as absent";
const MIXED: &str =
    "timestamps with and without a zone in one session cannot be compared: indices order its events, where known";
const HUGE: &str = "payloads over 2 MiB are searched in windows, in which escapes of JSON are not decoded";
const TURNED: &str = "timestamps run against the order of requests in a session: timestamps are followed";

/// Counts over all rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Counts {
    /// Rows that were read.
    pub rows: u64,
    /// Rows that repeat an event.
    pub duplicates: u64,
    /// Rows that failed or are missing.
    pub unscored: u64,
    /// Matches of the headline tiers.
    pub matches: u64,
    /// Matches of the weaker tiers.
    pub weaker_matches: u64,
}

/// Actions of each session: whether any action of a request and channel was delivered.
type Deliveries = HashMap<String, BTreeMap<(u32, String), bool>>;

/// An observation that passed its checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admission {
    /// Place of the contract in the register.
    pub contract: usize,
    /// Place of the channel in the contract.
    pub channel: usize,
}

/// Collects observations.
pub struct Ledger<'a> {
    register: &'a Register,
    /// The key within `pair_key` by which sessions are clustered.
    cluster_key: Option<String>,
    pub(super) sessions: BTreeMap<String, SessionLog>,
    pub(super) deliveries: Deliveries,
    pub(super) tool_names: Vec<String>,
    tools: HashMap<String, u32>,
    /// Digests of event ids and of what the events say.
    seen: HashMap<u64, u64>,
    hasher: RandomState,
    pub(super) counts: Counts,
    pub(super) warnings: Warnings,
}

impl<'a> Ledger<'a> {
    /// An empty ledger; actions are known beforehand, since each is looked up when its observation comes.
    pub fn new(register: &'a Register, actions: &[Action], cluster_key: Option<&str>) -> Self {
        let mut deliveries: Deliveries = HashMap::new();
        for action in actions {
            let session = deliveries.entry(action.session_id.clone()).or_default();
            *session.entry((action.request, action.channel.clone())).or_default() |=
                action.status == ActionStatus::Delivered;
        }
        Self {
            register,
            cluster_key: cluster_key.map(str::to_owned),
            sessions: BTreeMap::new(),
            deliveries,
            tool_names: Vec::new(),
            tools: HashMap::new(),
            seen: HashMap::new(),
            hasher: RandomState::new(),
            counts: Counts::default(),
            warnings: Warnings::default(),
        }
    }

    /// Checks an observation against its contract and its session; `None` for an event that was seen before.
    ///
    /// # Errors
    /// No such contract, an undeclared channel, a request outside the budget, an event id with two contents, or a session with
    /// two contracts, conditions or pair keys. `place` names the row.
    pub fn admit(&mut self, observation: &Observation, place: &str) -> Result<Option<Admission>, Fault> {
        self.counts.rows += 1;
        let contract = self.register.place(&observation.contract_id).ok_or_else(|| {
            Fault::new(format!("session {}: no contract with this `contract_id`", observation.session_id))
                .at(place)
                .got(&observation.contract_id)
                .hint("give every contract of the log with --contracts")
        })?;
        let frozen = self.register.get(contract);
        check_digest(observation, frozen, place)?;
        let channel = check_channel(observation, frozen, place)?;
        self.check_session(observation, contract, place)?;
        if self.is_repeated(observation, place)? {
            self.counts.duplicates += 1;
            return Ok(None);
        }
        Ok(Some(Admission { contract, channel }))
    }

    fn check_session(&mut self, observation: &Observation, contract: usize, place: &str) -> Result<(), Fault> {
        let frozen = self.register.get(contract);
        let id = observation.session_id.as_str();
        if !self.sessions.contains_key(id) {
            self.sessions.insert(id.to_owned(), SessionLog::new(contract, frozen));
        }
        let Some(session) = self.sessions.get_mut(id) else { return Ok(()) };
        if session.contract != contract {
            return Err(two_values("contract_id", id, place).got(&observation.contract_id));
        }
        if let Some(condition) = &observation.condition {
            match &session.condition {
                None => session.condition = Some(condition.clone()),
                Some(known) if known == condition => {}
                Some(_) => return Err(two_values("condition", id, place).got(condition)),
            }
        }
        let Some(pair_key) = observation.pair_key.as_ref().filter(|key| !key.is_null()) else { return Ok(()) };
        let canonical = canonical(pair_key);
        if let Some(known) = &session.pair_key {
            return if *known == canonical { Ok(()) } else { Err(two_values("pair_key", id, place).got(canonical)) };
        }
        session.pair_key = Some(canonical);
        let value = self.cluster_key.as_ref().and_then(|key| pair_key.get(key));
        session.cluster = value.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        Ok(())
    }

    /// The same id with the same content is one event; with another it is a fault.
    fn is_repeated(&mut self, observation: &Observation, place: &str) -> Result<bool, Fault> {
        let Some(event) = &observation.event_id else { return Ok(false) };
        let content = self.hasher.hash_one((
            &observation.channel,
            observation.request,
            observation.index,
            &observation.timestamp,
            &observation.recipients,
            observation.status,
            observation.payload.to_string(),
        ));
        match self.seen.entry(self.hasher.hash_one((&observation.session_id, event))) {
            Entry::Vacant(entry) => {
                entry.insert(content);
                Ok(false)
            }
            Entry::Occupied(entry) if *entry.get() == content => Ok(true),
            Entry::Occupied(_) => {
                Err(Fault::new(format!("session {}: one `event_id` with two contents", observation.session_id))
                    .at(place)
                    .got(event))
            }
        }
    }

    /// Enters an admitted observation; the rows of its matches go to `rows`.
    pub fn record(
        &mut self,
        observation: &Observation,
        admission: Admission,
        matches: &[Match],
        rows: &mut Vec<MatchRow>,
    ) {
        self.note_time(observation);
        if observation.status == Status::Ok {
            self.score(observation, admission, matches, rows);
        } else {
            self.note_gap(observation, admission);
        }
    }

    /// A gap is neither safe nor exposed: what it could have exposed enters the bounds only.
    fn note_gap(&mut self, observation: &Observation, admission: Admission) {
        self.counts.unscored += 1;
        let frozen = self.register.get(admission.contract);
        let Some(session) = self.sessions.get_mut(&observation.session_id) else { return };
        let channel = &mut session.channels[admission.channel];
        channel.gaps += 1;
        if frozen.is_visible(admission.channel) {
            let recipients = frozen.recipients(admission.channel, &observation.recipients);
            channel.possible.extend(&frozen.unauthorized(&recipients, Authority::Contract));
        }
    }

    fn score(&mut self, observation: &Observation, at: Admission, matches: &[Match], rows: &mut Vec<MatchRow>) {
        let frozen = self.register.get(at.contract);
        let tool = observation.tool.as_deref().map(|name| tool_number(&mut self.tools, &mut self.tool_names, name));
        let Some(session) = self.sessions.get_mut(&observation.session_id) else { return };
        session.channels[at.channel].observations += 1;
        if matches.is_empty() {
            return;
        }
        let visible = frozen.is_visible(at.channel);
        let recipients = frozen.recipients(at.channel, &observation.recipients);
        let unauthorized = frozen.unauthorized(&recipients, Authority::Contract);
        let mut headline = TargetSet::default();
        let found = MatchRow::of_event(observation, frozen, at.channel, matches);
        for row in &found {
            let Some(target) = frozen.target(&row.target_id) else { continue };
            if row.tier.is_headline() {
                self.counts.matches += 1;
                headline.insert(target);
            } else {
                self.counts.weaker_matches += 1;
                session.weaker_matches += 1;
            }
            if row.authorized == Some(false) {
                session.tiers[row.tier as usize].insert(target);
            }
        }
        rows.extend(found);
        let counted = if visible { headline.both(&unauthorized) } else { headline.clone() };
        session.channels[at.channel].found.extend(&counted);
        let event =
            Event { moment: observation.timestamp.as_deref().and_then(Moment::parse), index: observation.index };
        let side = if visible { Side::Exposed } else { Side::Internal };
        for target in counted.iter() {
            let earliest = Earliest::of(event);
            session
                .events
                .entry((target, side, observation.request))
                .and_modify(|known| *known = known.merge(earliest))
                .or_insert(earliest);
            if let Some(group) = observation.schema_group {
                let best = session.groups.entry(target).or_insert(group);
                *best = group.min(*best);
            }
        }
        if visible {
            session.appeared.extend(&headline);
            for (control, authority) in session.control.iter_mut().zip([Authority::Everyone, Authority::Nobody]) {
                control.extend(&headline.both(&frozen.unauthorized(&recipients, authority)));
            }
            let key = (observation.request, observation.channel.clone());
            let delivered = self.deliveries.get(&observation.session_id).and_then(|actions| actions.get(&key));
            if delivered == Some(&true) {
                session.delivered.extend(&counted);
            }
        } else if let Some(tool) = tool {
            session.tools.entry(tool).or_default().extend(&headline);
        }
    }

    fn note_time(&mut self, observation: &Observation) {
        let Some(text) = &observation.timestamp else { return };
        match (Moment::parse(text), self.sessions.get_mut(&observation.session_id)) {
            (Some(moment), Some(session)) => session.clock.note(observation.request, moment),
            (None, _) => self.warnings.add(UNREADABLE, &observation.session_id),
            (_, None) => {}
        }
    }

    /// Notes a payload that was searched in windows.
    pub(super) fn note_huge(&mut self, session: &str) {
        self.warnings.add(HUGE, session);
    }

    /// Warns of sessions whose clocks contradict themselves.
    pub(super) fn check_clocks(&mut self) {
        for (id, session) in &self.sessions {
            if session.clock.is_mixed() {
                self.warnings.add(MIXED, id);
            }
            if session.clock.turns_back() {
                self.warnings.add(TURNED, id);
            }
        }
    }
}

/// A log may say under which contract it was made: one that was edited since is refused.
fn check_digest(observation: &Observation, frozen: &Frozen, place: &str) -> Result<(), Fault> {
    let Some(logged) = observation.extra.get("contract_digest").and_then(serde_json::Value::as_str) else {
        return Ok(());
    };
    if logged == frozen.contract.digest {
        return Ok(());
    }
    Err(Fault::new(format!("session {}: the contract was edited after this observation", observation.session_id))
        .at(place)
        .got(&frozen.contract.digest)
        .expected(logged)
        .hint("judge the log by the contract that was frozen before it"))
}

fn check_channel(observation: &Observation, frozen: &Frozen, place: &str) -> Result<usize, Fault> {
    let budget = frozen.contract.budget;
    if observation.request == 0 || observation.request > budget {
        return Err(Fault::new(format!("session {}: `request` is outside the budget", observation.session_id))
            .at(place)
            .got(observation.request)
            .expected(format!("1 to {budget}")));
    }
    frozen.channel(&observation.channel).ok_or_else(|| {
        let declared: Vec<&str> = frozen.contract.channels.iter().map(|channel| channel.name.as_str()).collect();
        Fault::new(format!("session {}: the contract declares no such channel", observation.session_id))
            .at(place)
            .got(&observation.channel)
            .expected(format!("one of: {}", declared.join(", ")))
            .hint("declare it in the contract, as `internal` if nobody outside sees it")
    })
}

fn two_values(field: &str, session: &str, place: &str) -> Fault {
    Fault::new(format!("session {session} has two values of `{field}`")).at(place)
}

fn tool_number(numbers: &mut HashMap<String, u32>, names: &mut Vec<String>, name: &str) -> u32 {
    if let Some(number) = numbers.get(name) {
        return *number;
    }
    let number = u32::try_from(names.len()).unwrap_or(u32::MAX);
    numbers.insert(name.to_owned(), number);
    names.push(name.to_owned());
    number
}

/// One text for equal keys, whatever the order of their fields.
fn canonical(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Object(map) => {
            let sorted: BTreeMap<&String, String> = map.iter().map(|(key, value)| (key, canonical(value))).collect();
            let fields: Vec<String> =
                sorted.iter().map(|(key, value)| format!("{}:{value}", serde_json::json!(key))).collect();
            format!("{{{}}}", fields.join(","))
        }
        other => other.to_string(),
    }
}
