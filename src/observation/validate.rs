//! Whether observations can be judged by the contracts they name: the one check, for logs of any size.
//!
//! In: observations, one at a time, each with its contract. Out: the place of its channel, or a [`Fault`]. Of what came before
//! only what must stay the same is kept: a few words a session, two digests an event id.
//! Source: ASLEval, section 3.1 (arXiv 2609.18864): 1 <= t <= B; an undeclared channel is an error, never silently internal.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher as _, RandomState};

use serde_json::Value;

use super::{Observation, Status};
use crate::contract::Contract;
use crate::error::{Error, Fault, Result};

/// Faults told at once; a file with more has one cause.
const MOST_FAULTS: usize = 10;

/// What all rows of a session share.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identity {
    /// The contract.
    pub contract_id: String,
    /// The condition, where any row names one.
    pub condition: Option<String>,
    /// Canonical JSON of the pair key, where any row has one.
    pub pair_key: Option<String>,
}

/// Checks observations one at a time.
#[derive(Debug, Default)]
pub struct Checker {
    sessions: HashMap<String, Identity>,
    /// Digests of session and event id, and of what the event says.
    events: HashMap<u64, u64>,
    hasher: RandomState,
}

impl Checker {
    /// Checks a row: its contract is given and the one it was logged under, its channel declared, its request between 1 and the
    /// budget, its session of one contract, condition and pair key, its event id new. The place of the channel in the
    /// contract; `None` for an event that came before with the same content.
    ///
    /// # Errors
    /// A [`Fault`] without place. Payloads are never part of it.
    pub fn admit(&mut self, contract: Option<&Contract>, observation: &Observation) -> Result<Option<usize>, Fault> {
        let contract = contract.ok_or_else(|| {
            Fault::new(format!("session {}: no contract with this `contract_id` is given", observation.session_id))
                .got(&observation.contract_id)
                .hint("give every contract of the log")
        })?;
        let channel = check(contract, observation)?;
        self.check_session(observation)?;
        Ok((!self.is_repeated(observation)?).then_some(channel))
    }

    /// What is known of a session.
    pub fn identity(&self, session_id: &str) -> Option<&Identity> {
        self.sessions.get(session_id)
    }

    fn check_session(&mut self, observation: &Observation) -> Result<(), Fault> {
        let id = observation.session_id.as_str();
        if !self.sessions.contains_key(id) {
            let identity = Identity { contract_id: observation.contract_id.clone(), ..Identity::default() };
            self.sessions.insert(id.to_owned(), identity);
        }
        let Some(known) = self.sessions.get_mut(id) else { return Ok(()) };
        if known.contract_id != observation.contract_id {
            return Err(two_values("contract_id", id, &observation.contract_id));
        }
        agree(&mut known.condition, observation.condition.clone(), "condition", id)?;
        let pair_key = observation.pair_key.as_ref().filter(|key| !key.is_null()).map(canonical);
        agree(&mut known.pair_key, pair_key, "pair_key", id)
    }

    /// The same id with the same content is one event; with another it is a fault.
    fn is_repeated(&mut self, observation: &Observation) -> Result<bool, Fault> {
        let Some(event) = &observation.event_id else { return Ok(false) };
        let content = self.hasher.hash_one((
            (&observation.channel, observation.request, observation.index, &observation.timestamp),
            (&observation.recipients, observation.status, observation.payload.key()),
            (&observation.tool, observation.schema_group),
        ));
        match self.events.entry(self.hasher.hash_one((&observation.session_id, event))) {
            Entry::Vacant(entry) => {
                entry.insert(content);
                Ok(false)
            }
            Entry::Occupied(entry) if *entry.get() == content => Ok(true),
            Entry::Occupied(_) => {
                Err(Fault::new(format!("session {}: one `event_id` with two contents", observation.session_id))
                    .got(event)
                    .hint("one event has one payload; give different events different ids"))
            }
        }
    }
}

/// What a row says must be what earlier ones said; a row may say nothing.
fn agree(known: &mut Option<String>, said: Option<String>, field: &str, session: &str) -> Result<(), Fault> {
    match (known.as_ref(), said) {
        (Some(known), Some(said)) if *known != said => Err(two_values(field, session, &said)),
        (None, said) => {
            *known = said;
            Ok(())
        }
        _ => Ok(()),
    }
}

fn two_values(field: &str, session: &str, got: &str) -> Fault {
    Fault::new(format!("session {session} has two values of `{field}`")).got(got)
}

/// One text for equal keys, whatever the order of their fields.
fn canonical(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let sorted: BTreeMap<&String, String> = map.iter().map(|(key, value)| (key, canonical(value))).collect();
            let fields: Vec<String> =
                sorted.iter().map(|(key, value)| format!("{}:{value}", serde_json::json!(key))).collect();
            format!("{{{}}}", fields.join(","))
        }
        other => other.to_string(),
    }
}

/// Whether the contract can judge the observation: it is the one that the row was logged under, the request is within its
/// budget, the channel declared. The channel's place.
pub(super) fn check(contract: &Contract, observation: &Observation) -> Result<usize, Fault> {
    check_digest(contract, observation)?;
    if observation.request == 0 || observation.request > contract.budget {
        return Err(Fault::new("`request` is outside the contract's budget")
            .got(observation.request)
            .expected(format!("1 to {}", contract.budget)));
    }
    contract.channels.iter().position(|channel| channel.name == observation.channel).ok_or_else(|| {
        let declared: Vec<&str> = contract.channels.iter().map(|channel| channel.name.as_str()).collect();
        Fault::new("`channel` is not declared by the contract")
            .got(&observation.channel)
            .expected(format!("one of: {}", declared.join(", ")))
            .hint("declare it in the contract, as `internal` if nobody outside sees it")
    })
}

/// A log may say under which contract it was made: one that was edited since is refused.
fn check_digest(contract: &Contract, observation: &Observation) -> Result<(), Fault> {
    let logged = observation.extra.get("contract_digest").and_then(Value::as_str);
    match logged.filter(|logged| *logged != contract.digest) {
        None => Ok(()),
        Some(logged) => Err(Fault::new(format!(
            "session {}: the contract was edited after this observation",
            observation.session_id
        ))
        .got(&contract.digest)
        .expected(logged)
        .hint("judge the log by the contract that was frozen before it")),
    }
}

/// Observations that their contracts can judge.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// In the order given, each event once.
    pub observations: Vec<Observation>,
    /// Rows left out because the same event came before.
    pub duplicates: usize,
    /// Rows of each status, in the order ok, error, missing.
    pub by_status: BTreeMap<Status, usize>,
}

/// Passes rows that are all at hand through a [`Checker`]. `place` names their file in errors; rows count from 1.
///
/// # Errors
/// A [`Fault`] that names the row for each of the first ten bad rows.
pub fn validate(contracts: &[Contract], observations: Vec<Observation>, place: &str) -> Result<Checked> {
    let by_id: HashMap<&str, &Contract> =
        contracts.iter().map(|contract| (contract.contract_id.as_str(), contract)).collect();
    let mut checker = Checker::default();
    let mut faults = Vec::new();
    let mut checked = Checked { observations: Vec::new(), duplicates: 0, by_status: BTreeMap::new() };
    for (index, observation) in observations.into_iter().enumerate() {
        match checker.admit(by_id.get(observation.contract_id.as_str()).copied(), &observation) {
            Ok(Some(_)) => checked.keep(observation),
            Ok(None) => checked.duplicates += 1,
            Err(fault) => faults.push(fault.at(format!("{place}:{}", index + 1))),
        }
        if faults.len() == MOST_FAULTS {
            break;
        }
    }
    if faults.is_empty() { Ok(checked) } else { Err(Error::Invalid(faults)) }
}

impl Checked {
    fn keep(&mut self, observation: Observation) {
        *self.by_status.entry(observation.status).or_default() += 1;
        self.observations.push(observation);
    }
}
