//! Whether observations can be judged by the contracts they name.
//!
//! In: contracts and observations. Out: [`Checked`] observations, each event once, with counts. Pure.
//! Source: ASLEval, section 3.1 (arXiv 2609.18864): 1 <= t <= B; an undeclared channel is an error, never silently internal.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::{Observation, Status};
use crate::contract::Contract;
use crate::error::{Error, Fault, Result};

/// Faults told at once; a file with more has one cause.
const MOST_FAULTS: usize = 10;

/// Observations that their contracts can judge.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// In the order given, each event once.
    pub observations: Vec<Observation>,
    /// Rows left out because the same event, with the same payload, came before.
    pub duplicates: usize,
    /// Rows of each status, in the order ok, error, missing.
    pub by_status: BTreeMap<Status, usize>,
}

/// Checks every row: its contract is given, its channel declared, its request between 1 and the budget, and an event id
/// that came before in the session came with the same payload (such a row is left out and counted). `place` names the
/// rows' file in errors; rows count from 1.
///
/// # Errors
/// A [`Fault`] that names the row for each of the first ten bad rows. Payloads are never part of it.
pub fn validate(contracts: &[Contract], observations: Vec<Observation>, place: &str) -> Result<Checked> {
    let by_id: BTreeMap<&str, &Contract> =
        contracts.iter().map(|contract| (contract.contract_id.as_str(), contract)).collect();
    let mut faults = Vec::new();
    let mut first_of: BTreeMap<(String, String), (usize, usize)> = BTreeMap::new();
    let mut checked = Checked { observations: Vec::new(), duplicates: 0, by_status: BTreeMap::new() };
    for (index, observation) in observations.into_iter().enumerate() {
        let row = index + 1;
        let contract = by_id
            .get(observation.contract_id.as_str())
            .ok_or_else(|| Fault::new("`contract_id` is of no contract given").got(&observation.contract_id));
        if let Err(fault) = contract.and_then(|contract| check(contract, &observation)) {
            faults.push(fault.at(format!("{place}:{row}")));
        } else if let Some(event_id) = &observation.event_id {
            match first_of.entry((observation.session_id.clone(), event_id.clone())) {
                Entry::Vacant(entry) => {
                    entry.insert((row, checked.observations.len()));
                    checked.keep(observation);
                }
                Entry::Occupied(entry) if is_same(&checked.observations[entry.get().1], &observation) => {
                    checked.duplicates += 1;
                }
                Entry::Occupied(entry) => faults.push(
                    Fault::new(format!("`event_id` of row {} again, with another payload or channel", entry.get().0))
                        .at(format!("{place}:{row}"))
                        .got(event_id)
                        .hint("one event has one payload; give different events different ids"),
                ),
            }
        } else {
            checked.keep(observation);
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

/// The same event seen twice: recorded at the same request, on the same channel, with the same payload and recipients.
fn is_same(one: &Observation, other: &Observation) -> bool {
    one.payload == other.payload
        && one.channel == other.channel
        && one.request == other.request
        && one.recipients == other.recipients
        && one.status == other.status
        && one.contract_id == other.contract_id
}

/// Whether the contract can judge the observation: its request is within the budget, its channel is declared.
pub(super) fn check(contract: &Contract, observation: &Observation) -> Result<(), Fault> {
    if observation.request == 0 || observation.request > contract.budget {
        return Err(Fault::new("`request` is outside the contract's budget")
            .got(observation.request)
            .expected(format!("1 to {}", contract.budget)));
    }
    if contract.channel(&observation.channel).is_none() {
        let declared = contract.channels.iter().map(|channel| channel.name.as_str()).collect::<Vec<_>>().join(", ");
        return Err(Fault::new("`channel` is not declared by the contract")
            .got(&observation.channel)
            .expected(format!("one of: {declared}")));
    }
    Ok(())
}
