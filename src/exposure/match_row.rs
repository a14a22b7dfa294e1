//! One row of `matches.jsonl`.

use super::register::{Authority, Frozen};
use crate::adjudicate::{Match, Tier};
use crate::contract::{Channel, Visibility};
use crate::observation::Observation;

/// A match in its place, as `matches.jsonl` has it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct MatchRow {
    /// The session.
    pub session_id: String,
    /// The same: the interface's list of fields has it so.
    pub session: String,
    /// Request number.
    pub request: u32,
    /// Event index, where known.
    pub index: Option<u64>,
    /// The event's id, where it has one.
    pub event_id: Option<String>,
    /// The channel.
    pub channel: String,
    /// Who sees it.
    pub visibility: Visibility,
    /// The target.
    pub target_id: String,
    /// The alias that matched; absent for the value itself.
    pub alias: Option<String>,
    /// How close it is.
    pub tier: Tier,
    /// A negation governs it.
    pub negated: bool,
    /// Bytes of the payload: of the string, or of any other value as it is written.
    pub span: [usize; 2],
    /// Whether every recipient may have it; absent on internal channels, which have none.
    pub authorized: Option<bool>,
    /// Whether it enters the headline figures: unauthorised, visible, of a headline tier.
    pub counted: bool,
}

impl MatchRow {
    /// The matches in one event, each with its authorization.
    pub(super) fn of_event(observation: &Observation, frozen: &Frozen, channel: usize, matches: &[Match]) -> Vec<Self> {
        let recipients = frozen.recipients(channel, &observation.recipients);
        let unauthorized = frozen.unauthorized(&recipients, Authority::Contract);
        let row = |found: &Match| {
            let exposed = frozen.target(&found.target_id).is_some_and(|target| unauthorized.contains(target));
            Self::new(observation, &frozen.contract.channels[channel], found, exposed)
        };
        matches.iter().map(row).collect()
    }

    fn new(observation: &Observation, channel: &Channel, found: &Match, unauthorized: bool) -> Self {
        let visible = channel.visibility != Visibility::Internal;
        Self {
            session_id: observation.session_id.clone(),
            session: observation.session_id.clone(),
            request: observation.request,
            index: observation.index,
            event_id: observation.event_id.clone(),
            channel: observation.channel.clone(),
            visibility: channel.visibility,
            target_id: found.target_id.clone(),
            alias: found.alias.clone(),
            tier: found.tier,
            negated: found.negated,
            span: [found.span.start, found.span.end],
            authorized: visible.then_some(!unauthorized),
            counted: visible && unauthorized && found.tier.is_headline(),
        }
    }
}
