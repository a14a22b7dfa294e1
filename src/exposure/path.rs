//! C3: in which order internal evidence and visible exposure of a target came.
//!
//! In: the earliest events of a session by target, side and request. Out: [`PathKind`]s and [`Paths`]. Logs have no parent
//! ids, so this is order, not cause.
//! Source: ASLEval, section 3.3, "C3: path displacement".

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::clock::Earliest;
use super::log::{SessionLog, Side};

/// How a target's internal and visible appearances are ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PathKind {
    /// Internal first, and the request that first exposed it had it internally before.
    SameRequest,
    /// Internal first, in an earlier request only.
    CrossRequest,
    /// Visible first.
    VisibleFirst,
    /// Both at one time, with nothing to break the tie.
    Tied,
    /// Internal only, or visible only.
    OneSided,
    /// Its events share neither timestamps nor indices.
    Unordered,
}

/// Targets of each kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paths {
    /// Internal first, same request.
    pub same_request: u64,
    /// Internal first, across requests.
    pub cross_request: u64,
    /// Visible first.
    pub visible_first: u64,
    /// At one time.
    pub tied: u64,
    /// On one side only.
    pub one_sided: u64,
    /// Without an order.
    pub unordered: u64,
}

impl Paths {
    /// Counts one.
    pub fn add(&mut self, kind: PathKind) {
        *match kind {
            PathKind::SameRequest => &mut self.same_request,
            PathKind::CrossRequest => &mut self.cross_request,
            PathKind::VisibleFirst => &mut self.visible_first,
            PathKind::Tied => &mut self.tied,
            PathKind::OneSided => &mut self.one_sided,
            PathKind::Unordered => &mut self.unordered,
        } += 1;
    }

    /// Adds another session's.
    pub fn extend(&mut self, other: &Self) {
        self.same_request += other.same_request;
        self.cross_request += other.cross_request;
        self.visible_first += other.visible_first;
        self.tied += other.tied;
        self.one_sided += other.one_sided;
        self.unordered += other.unordered;
    }

    /// Targets that appeared on either side.
    pub fn total(&self) -> u64 {
        self.internal_first() + self.visible_first + self.remainder()
    }

    /// Internal first, in the same request or across requests.
    pub fn internal_first(&self) -> u64 {
        self.same_request + self.cross_request
    }

    /// Everything that is neither internal first nor visible first.
    pub fn remainder(&self) -> u64 {
        self.tied + self.one_sided + self.unordered
    }
}

/// Kind of every target that appeared on either side.
pub(super) fn kinds(session: &SessionLog) -> BTreeMap<usize, PathKind> {
    let mut targets: BTreeMap<usize, [BTreeMap<u32, Earliest>; 2]> = BTreeMap::new();
    for ((target, side, request), earliest) in &session.events {
        let sides = targets.entry(*target).or_default();
        sides[usize::from(*side == Side::Exposed)].insert(*request, *earliest);
    }
    targets.into_iter().map(|(target, [internal, visible])| (target, kind(&internal, &visible))).collect()
}

/// Joins by request; `internal` and `visible` have the earliest event of each request.
fn kind(internal: &BTreeMap<u32, Earliest>, visible: &BTreeMap<u32, Earliest>) -> PathKind {
    if internal.is_empty() || visible.is_empty() {
        return PathKind::OneSided;
    }
    let Some(order) = Earliest::shared_order(internal.values().chain(visible.values())) else {
        return PathKind::Unordered;
    };
    let first = |events: &BTreeMap<u32, Earliest>| {
        events.iter().map(|(request, event)| (*request, *event)).min_by(|a, b| a.1.compare(&b.1, order))
    };
    let (Some((_, internal_first)), Some((request, visible_first))) = (first(internal), first(visible)) else {
        return PathKind::OneSided;
    };
    match internal_first.compare(&visible_first, order) {
        Ordering::Greater => PathKind::VisibleFirst,
        Ordering::Equal => PathKind::Tied,
        Ordering::Less => {
            let before = |event: &Earliest| event.compare(&visible_first, order) == Ordering::Less;
            if internal.get(&request).is_some_and(before) { PathKind::SameRequest } else { PathKind::CrossRequest }
        }
    }
}
