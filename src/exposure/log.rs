//! What is kept of a session: sets of targets and earliest times, never a payload.
//!
//! In: filled by the [`Ledger`](super::Ledger). Out: read by [`super::session`] and [`super::path`].

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::clock::{Earliest, Moment};
use super::register::Frozen;
use super::set::TargetSet;
use crate::adjudicate::Tier;
use crate::observation::SchemaGroup;

/// The tiers, closest first; a session log has one set for each.
pub(super) const TIERS: [Tier; 6] =
    [Tier::Exact, Tier::Normalized, Tier::Typed, Tier::Encoded, Tier::Partial, Tier::Semantic];

/// Which side of the measurement boundary an event is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Side {
    /// Evaluator-only.
    Internal,
    /// A visible exit, to somebody unauthorised.
    Exposed,
}

/// What one channel carried in a session.
#[derive(Debug, Clone, Default)]
pub(super) struct ChannelLog {
    /// Scored observations.
    pub observations: u64,
    /// Observations that failed or are missing.
    pub gaps: u64,
    /// Targets in front of somebody unauthorised (U), or on an internal channel (L); headline tiers.
    pub found: TargetSet,
    /// What the gaps could have exposed.
    pub possible: TargetSet,
}

/// Everything a session's figures need.
#[derive(Debug, Clone)]
pub(super) struct SessionLog {
    pub contract: usize,
    /// What is resampled together with this session.
    pub cluster: Option<String>,
    /// In the order of the contract's channels.
    pub channels: Vec<ChannelLog>,
    /// Exposed by best tier: [`TIERS`] in order, cumulative only when summed up.
    pub tiers: [TargetSet; 6],
    /// Exposed by actions that were delivered.
    pub delivered: TargetSet,
    /// Visible appearances as the negative control counts them: with everyone authorised, and with nobody.
    pub control: [TargetSet; 2],
    /// Visible appearances, authorised or not.
    pub appeared: TargetSet,
    /// Earliest event by target, side and request.
    pub events: BTreeMap<(usize, Side, u32), Earliest>,
    /// Best schema group of each target that an observation with a group showed.
    pub groups: BTreeMap<usize, SchemaGroup>,
    /// Targets that each tool's internal observations showed.
    pub tools: BTreeMap<u32, TargetSet>,
    /// Matches of the weaker tiers, wherever they stand.
    pub weaker_matches: u64,
    pub clock: ClockLog,
}

/// Timestamps seen, to tell contradictions.
#[derive(Debug, Clone, Default)]
pub(super) struct ClockLog {
    zoned: bool,
    local: bool,
    /// First and last by request.
    requests: BTreeMap<u32, (Moment, Moment)>,
}

impl SessionLog {
    pub fn new(contract: usize, frozen: &Frozen) -> Self {
        Self {
            contract,
            cluster: None,
            channels: vec![ChannelLog::default(); frozen.contract.channels.len()],
            tiers: Default::default(),
            delivered: TargetSet::default(),
            control: Default::default(),
            appeared: TargetSet::default(),
            events: BTreeMap::new(),
            groups: BTreeMap::new(),
            tools: BTreeMap::new(),
            weaker_matches: 0,
            clock: ClockLog::default(),
        }
    }

    /// `E_vis`, headline tiers.
    pub fn exposed(&self, frozen: &Frozen) -> TargetSet {
        let visible = (0..self.channels.len()).filter(|channel| frozen.is_visible(*channel));
        visible.fold(TargetSet::default(), |union, channel| union.union(&self.channels[channel].found))
    }

    /// Observations that failed or are missing.
    pub fn unscored(&self) -> u64 {
        self.channels.iter().map(|channel| channel.gaps).sum()
    }
}

impl ClockLog {
    /// Enters a timestamp.
    pub fn note(&mut self, request: u32, moment: Moment) {
        if moment.zoned {
            self.zoned = true;
        } else {
            self.local = true;
        }
        let (first, last) = self.requests.entry(request).or_insert((moment, moment));
        if moment.compare(*first) == Some(Ordering::Less) {
            *first = moment;
        }
        if moment.compare(*last) == Some(Ordering::Greater) {
            *last = moment;
        }
    }

    /// Some timestamps have a zone, some have none.
    pub fn is_mixed(&self) -> bool {
        self.zoned && self.local
    }

    /// A later request has an earlier timestamp.
    pub fn turns_back(&self) -> bool {
        let requests: Vec<&(Moment, Moment)> = self.requests.values().collect();
        requests.windows(2).any(|pair| pair[1].0.compare(pair[0].1) == Some(Ordering::Less))
    }
}
