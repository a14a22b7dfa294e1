//! What is still open after matching.

use std::collections::BTreeSet;

use crate::adjudicate::Matcher;
use crate::contract::{Contract, Target, Visibility};

/// A text on a visible channel and the targets that matching left open there.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation<'a> {
    /// The text.
    pub payload: &'a str,
    /// Targets that the channel's recipient may not have and that have no headline match in the text.
    pub unresolved: Vec<&'a Target>,
}

impl<'a> Observation<'a> {
    /// The open question about a text; `None` when nothing is open: an internal channel, a text without words, or every
    /// target found or authorised. Weak targets are not asked about: in other words they are any common word.
    pub fn new(contract: &'a Contract, matcher: &Matcher, channel: &str, payload: &'a str) -> Option<Self> {
        let declared = contract.channel(channel);
        if declared.is_some_and(|channel| channel.visibility == Visibility::Internal)
            || !payload.chars().any(char::is_alphanumeric)
        {
            return None;
        }
        let recipient = declared.and_then(|channel| channel.recipient.as_deref());
        let found = matcher.find(payload);
        let resolved: BTreeSet<&str> =
            found.iter().filter(|found| found.tier.is_headline()).map(|found| found.target_id.as_str()).collect();
        let is_open = |target: &&Target| {
            !target.weak
                && !resolved.contains(target.target_id.as_str())
                && !recipient.is_some_and(|recipient| contract.authorizes(recipient, &target.target_id))
        };
        let unresolved: Vec<&Target> = contract.targets.iter().filter(is_open).collect();
        (!unresolved.is_empty()).then_some(Self { payload, unresolved })
    }
}
