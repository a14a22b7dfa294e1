//! C3: in which order internal evidence and visible exposure of a target came.
//!
//! In: the earliest events of a session by target, side and request. Out: [`PathKind`]s and [`Paths`]. Logs have no parent
//! ids, so this is order, not cause.
//! Source: ASLEval, section 3.3, "C3: path displacement".

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::clock::{Earliest, Order};
use super::log::{SessionLog, Side};

/// Said wherever paths are shown.
pub const ORDER_NOT_CAUSE: &str = "order in time, not cause: logs have no parent ids";

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

/// Paths with their shares; every kind is shown, so that nothing is dropped.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PathFigures {
    /// Counts by kind.
    #[serde(flatten)]
    pub counts: Paths,
    /// Targets that appeared on either side, over all sessions.
    pub entity_sessions: u64,
    /// Same request and across requests together.
    pub internal_first: u64,
    /// Tied, one-sided and unordered together.
    pub remainder: u64,
    /// Targets that appeared on both sides: the others have no order to speak of.
    pub two_sided: u64,
    /// Share of the two-sided that were internal first.
    pub internal_first_of_two_sided: Option<f64>,
    /// Why it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub internal_first_of_two_sided_reason: Option<String>,
    /// Share of each of the above in `entity_sessions`; empty when nothing appeared.
    pub shares: BTreeMap<String, f64>,
    /// What an order in time does not show.
    pub note: String,
}

impl PathFigures {
    /// Adds totals and shares to counts.
    pub(super) fn new(counts: Paths) -> Self {
        let total = counts.total();
        let two_sided = total - counts.one_sided;
        let parts = [
            ("same_request", counts.same_request),
            ("cross_request", counts.cross_request),
            ("internal_first", counts.internal_first()),
            ("visible_first", counts.visible_first),
            ("tied", counts.tied),
            ("one_sided", counts.one_sided),
            ("unordered", counts.unordered),
            ("remainder", counts.remainder()),
        ];
        let share = |(name, count): (&str, u64)| (total > 0).then(|| (name.to_owned(), count as f64 / total as f64));
        Self {
            counts,
            entity_sessions: total,
            internal_first: counts.internal_first(),
            remainder: counts.remainder(),
            two_sided,
            internal_first_of_two_sided: (two_sided > 0).then(|| counts.internal_first() as f64 / two_sided as f64),
            internal_first_of_two_sided_reason: (two_sided == 0).then(|| "no target appeared on both sides".to_owned()),
            shares: parts.into_iter().filter_map(share).collect(),
            note: ORDER_NOT_CAUSE.to_owned(),
        }
    }
}

/// Earliest events of one side by request.
type Appearances = BTreeMap<u32, Earliest>;

/// Kind of every target that appeared on either side.
pub(super) fn kinds(session: &SessionLog) -> BTreeMap<usize, PathKind> {
    by_target(session).into_iter().map(|(target, [internal, visible])| (target, kind(&internal, &visible))).collect()
}

/// Whether indices would give some target another kind than the timestamps that are followed.
pub(super) fn is_contradictory(session: &SessionLog) -> bool {
    by_target(session).values().any(|[internal, visible]| {
        let events = || internal.values().chain(visible.values());
        let indexed = events().all(Earliest::has_index);
        indexed && kind(internal, visible) != kind_in(internal, visible, Order::Index)
    })
}

fn by_target(session: &SessionLog) -> BTreeMap<usize, [Appearances; 2]> {
    let mut targets: BTreeMap<usize, [Appearances; 2]> = BTreeMap::new();
    for ((target, side, request), earliest) in &session.events {
        let sides = targets.entry(*target).or_default();
        sides[usize::from(*side == Side::Exposed)].insert(*request, *earliest);
    }
    targets
}

fn kind(internal: &Appearances, visible: &Appearances) -> PathKind {
    if internal.is_empty() || visible.is_empty() {
        return PathKind::OneSided;
    }
    let order = Earliest::shared_order(internal.values().chain(visible.values()));
    order.map_or(PathKind::Unordered, |order| kind_in(internal, visible, order))
}

/// Joins by request.
fn kind_in(internal: &Appearances, visible: &Appearances, order: Order) -> PathKind {
    let first = |events: &Appearances| {
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
