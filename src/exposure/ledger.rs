//! Observations become session logs, one at a time: nothing of a payload is kept.
//!
//! In: each [`Observation`] with the matches in its payload. Out: per session, which targets appeared where, to whom and when
//! ([`SessionLog`]). Sets and earliest times only, so the order of rows cannot matter and a repeated row changes nothing.
//! Source: ASLEval, equations 2 to 5.

use std::collections::{BTreeMap, HashMap};

use super::clock::{Earliest, Event, Moment};
use super::log::{SessionLog, Side};
use super::match_row::MatchRow;
use super::register::{Authority, Register};
use super::set::TargetSet;
use super::warning::Warnings;
use crate::adjudicate::Match;
use crate::error::Fault;
use crate::observation::{Action, ActionStatus, Checker, Observation, Status};

const UNREADABLE: &str = "timestamps that cannot be read are taken as absent";
const HUGE: &str = "payloads over 2 MiB are searched in windows, in which escapes of JSON are not decoded";

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

/// What became of the actions of one request and channel.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Delivery {
    /// Any of them was delivered.
    pub delivered: bool,
    /// The log has an observation of this request and channel.
    pub observed: bool,
}

/// Actions of each session by request and channel.
type Deliveries = HashMap<String, BTreeMap<(u32, String), Delivery>>;

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
    pub(super) checker: Checker,
    /// The key within `pair_key` by which sessions are clustered.
    pub(super) cluster_key: Option<String>,
    pub(super) sessions: BTreeMap<String, SessionLog>,
    pub(super) deliveries: Deliveries,
    pub(super) tool_names: Vec<String>,
    tools: HashMap<String, u32>,
    pub(super) counts: Counts,
    pub(super) warnings: Warnings,
}

impl<'a> Ledger<'a> {
    /// An empty ledger; actions are known beforehand, since each is looked up when its observation comes.
    pub fn new(register: &'a Register, actions: &[Action], cluster_key: Option<&str>) -> Self {
        let mut deliveries: Deliveries = HashMap::new();
        for action in actions {
            let session = deliveries.entry(action.session_id.clone()).or_default();
            session.entry((action.request, action.channel.clone())).or_default().delivered |=
                action.status == ActionStatus::Delivered;
        }
        Self {
            register,
            checker: Checker::default(),
            cluster_key: cluster_key.map(str::to_owned),
            sessions: BTreeMap::new(),
            deliveries,
            tool_names: Vec::new(),
            tools: HashMap::new(),
            counts: Counts::default(),
            warnings: Warnings::default(),
        }
    }

    /// Checks an observation ([`Checker::admit`]); `None` for an event that was seen before.
    ///
    /// # Errors
    /// As [`Checker::admit`].
    pub fn admit(&mut self, observation: &Observation) -> Result<Option<Admission>, Fault> {
        self.counts.rows += 1;
        let contract = self.register.place(&observation.contract_id);
        let channel = self.checker.admit(contract.map(|place| &self.register.get(place).contract), observation)?;
        if let Some(contract) = contract {
            self.note_session(observation, contract);
        }
        let admission = contract.zip(channel).map(|(contract, channel)| Admission { contract, channel });
        self.counts.duplicates += u64::from(admission.is_none());
        Ok(admission)
    }

    fn note_session(&mut self, observation: &Observation, contract: usize) {
        let id = observation.session_id.as_str();
        if !self.sessions.contains_key(id) {
            self.sessions.insert(id.to_owned(), SessionLog::new(contract, self.register.get(contract)));
        }
        let (Some(session), Some(key)) = (self.sessions.get_mut(id), &self.cluster_key) else { return };
        if session.cluster.is_none() {
            let value = observation.pair_key.as_ref().and_then(|pair_key| pair_key.get(key));
            let value = value.filter(|value| !value.is_null());
            session.cluster = value.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
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
        let delivered = self.note_delivery(observation);
        if observation.status == Status::Ok {
            self.score((observation, admission, delivered), matches, rows);
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

    /// Whether the observation's action was delivered.
    fn note_delivery(&mut self, observation: &Observation) -> bool {
        let Some(actions) = self.deliveries.get_mut(&observation.session_id) else { return false };
        let Some(action) = actions.get_mut(&(observation.request, observation.channel.clone())) else { return false };
        action.observed = true;
        action.delivered
    }

    fn score(
        &mut self,
        (observation, at, delivered): (&Observation, Admission, bool),
        matches: &[Match],
        rows: &mut Vec<MatchRow>,
    ) {
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
            if delivered {
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
