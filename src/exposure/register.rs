//! The contracts of an analysis: frozen, hashed, and indexed for scoring.
//!
//! In: contracts, derived or written by hand. Out: a [`Register`] that says which channel, target and authorization a name
//! means. An edited contract is refused: its digest is not that of its content.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::recipient;
use super::set::TargetSet;
use crate::contract::{Contract, Visibility};
use crate::error::{Error, Fault, Result};
use crate::run::digest;

/// One frozen contract with its indices.
#[derive(Debug, Clone)]
pub struct Frozen {
    /// The contract, with its digest.
    pub contract: Contract,
    /// Contracts with one key have the same targets and locale, and can share a matcher.
    pub targets_key: String,
    targets: HashMap<String, usize>,
    channels: HashMap<String, usize>,
    authorized: HashMap<String, TargetSet>,
}

/// Whose authorization is asked: the contract's, or that of the negative control.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Authority {
    /// Auth(r, e) as declared.
    Contract,
    /// Every recipient may have everything.
    Everyone,
    /// Nobody may have anything.
    Nobody,
}

impl Frozen {
    fn new(contract: Contract) -> Result<Self> {
        // Written by hand: there is nothing yet that it could have been changed from.
        let contract = if contract.digest.is_empty() {
            contract.freeze()?
        } else {
            contract.verify()?;
            contract
        };
        let targets: HashMap<String, usize> =
            contract.targets.iter().enumerate().map(|(place, target)| (target.target_id.clone(), place)).collect();
        let channels =
            contract.channels.iter().enumerate().map(|(place, channel)| (channel.name.clone(), place)).collect();
        let mut authorized: HashMap<String, TargetSet> = HashMap::new();
        for pair in &contract.authorized {
            if let Some(&target) = targets.get(&pair.target_id) {
                authorized.entry(recipient::key(&pair.recipient)).or_default().insert(target);
            }
        }
        let targets_key = digest::of_value(&(&contract.targets, &contract.locale))?;
        Ok(Self { contract, targets_key, targets, channels, authorized })
    }

    /// The place of a target.
    pub fn target(&self, target_id: &str) -> Option<usize> {
        self.targets.get(target_id).copied()
    }

    /// The place of a channel.
    pub fn channel(&self, name: &str) -> Option<usize> {
        self.channels.get(name).copied()
    }

    /// The place of c*.
    pub fn expected_outlet(&self) -> Option<usize> {
        self.channel(self.contract.expected_outlet.as_deref()?)
    }

    /// Whether a channel counts as exposure.
    pub fn is_visible(&self, channel: usize) -> bool {
        self.contract.channels[channel].visibility != Visibility::Internal
    }

    /// Who receives an event: its own to, cc and bcc, else the channel's recipient, else nobody known.
    pub fn recipients(&self, channel: usize, of_event: &[String]) -> Vec<Option<String>> {
        let named: Vec<Option<String>> = of_event.iter().flat_map(|entry| recipient::keys(entry)).map(Some).collect();
        if named.is_empty() {
            let declared = self.contract.channels[channel].recipient.as_deref();
            return vec![declared.map(recipient::key)];
        }
        named
    }

    /// The targets that any of the recipients may not have.
    pub fn unauthorized(&self, recipients: &[Option<String>], authority: Authority) -> TargetSet {
        let all = TargetSet::all(self.contract.targets.len());
        let mut unauthorized = TargetSet::default();
        for recipient in recipients {
            let may = match authority {
                Authority::Everyone => all.clone(),
                Authority::Nobody => TargetSet::default(),
                Authority::Contract => {
                    recipient.as_ref().and_then(|name| self.authorized.get(name)).cloned().unwrap_or_default()
                }
            };
            unauthorized.extend(&all.without(&may));
        }
        unauthorized
    }
}

/// Every contract, by id.
#[derive(Debug, Clone, Default)]
pub struct Register {
    contracts: Vec<Frozen>,
    places: HashMap<String, usize>,
}

impl Register {
    /// Freezes contracts without a digest, checks the others.
    ///
    /// # Errors
    /// All faults: an invalid or edited contract, or two different ones with one id.
    pub fn new(contracts: Vec<Contract>) -> Result<Self> {
        let mut register = Self::default();
        let mut faults = Vec::new();
        let mut twice: HashSet<String> = HashSet::new();
        for contract in contracts {
            let id = contract.contract_id.clone();
            match Frozen::new(contract) {
                Err(Error::Invalid(found)) => faults.extend(found),
                Err(other) => return Err(other),
                Ok(frozen) => match register.places.get(&id) {
                    None => {
                        register.places.insert(id, register.contracts.len());
                        register.contracts.push(frozen);
                    }
                    Some(&place) if register.contracts[place].contract.digest == frozen.contract.digest => {}
                    Some(_) if twice.insert(id.clone()) => {
                        faults.push(Fault::new("two different contracts have one `contract_id`").got(id));
                    }
                    Some(_) => {}
                },
            }
        }
        if faults.is_empty() { Ok(register) } else { Err(Error::Invalid(faults)) }
    }

    /// The place of a contract.
    pub fn place(&self, contract_id: &str) -> Option<usize> {
        self.places.get(contract_id).copied()
    }

    /// The contract at a place.
    pub fn get(&self, place: usize) -> &Frozen {
        &self.contracts[place]
    }

    /// All of them, in the order given.
    pub fn iter(&self) -> impl Iterator<Item = &Frozen> {
        self.contracts.iter()
    }

    /// Digest of each, by id.
    pub fn digests(&self) -> BTreeMap<String, String> {
        let pair = |frozen: &Frozen| (frozen.contract.contract_id.clone(), frozen.contract.digest.clone());
        self.contracts.iter().map(pair).collect()
    }
}
