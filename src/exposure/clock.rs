//! When events happened, as far as the log tells.
//!
//! In: timestamps and event indices. Out: [`Order`]ed earliest appearances. Timestamps with a zone are compared as instants;
//! those without one only with each other; indices break ties and stand in where timestamps are missing.

use std::cmp::Ordering;

/// A point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Nanoseconds since 1970 (years 1678 to 2262), of the log's own clock where the zone is unknown.
    nanoseconds: i64,
    /// Whether the zone was written.
    pub zoned: bool,
}

impl Moment {
    /// Reads RFC 3339 with or without a zone.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if let Ok(instant) = text.parse::<jiff::Timestamp>() {
            return Some(Self { nanoseconds: i64::try_from(instant.as_nanosecond()).ok()?, zoned: true });
        }
        let civil: jiff::civil::DateTime = text.parse().ok()?;
        let instant = jiff::tz::TimeZone::UTC.to_timestamp(civil).ok()?;
        Some(Self { nanoseconds: i64::try_from(instant.as_nanosecond()).ok()?, zoned: false })
    }

    /// Which comes first, where that can be told.
    pub fn compare(self, other: Self) -> Option<Ordering> {
        (self.zoned == other.zoned).then(|| self.nanoseconds.cmp(&other.nanoseconds))
    }
}

/// What one event tells of its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// Its timestamp.
    pub moment: Option<Moment>,
    /// Its index in the session.
    pub index: Option<u64>,
}

/// A timestamp with the index that breaks its ties.
type Stamp = (i64, Option<u64>);

/// The earliest of some events, under each order that could apply to all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Earliest {
    /// By timestamps with a zone; absent as soon as an event has none.
    zoned: Option<Stamp>,
    /// By timestamps without a zone.
    local: Option<Stamp>,
    /// By index.
    index: Option<u64>,
}

/// The order that applies to a set of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Timestamps with a zone, then index.
    Zoned,
    /// Timestamps without one, then index.
    Local,
    /// Index alone.
    Index,
}

impl Earliest {
    /// Of one event.
    pub fn of(event: Event) -> Self {
        let stamp = |zoned: bool| {
            event.moment.filter(|moment| moment.zoned == zoned).map(|moment| (moment.nanoseconds, event.index))
        };
        Self { zoned: stamp(true), local: stamp(false), index: event.index }
    }

    /// Of two sets of events.
    #[must_use]
    pub fn merge(self, other: Self) -> Self {
        Self {
            zoned: self.zoned.zip(other.zoned).map(|(a, b)| earlier(a, b)),
            local: self.local.zip(other.local).map(|(a, b)| earlier(a, b)),
            index: self.index.zip(other.index).map(|(a, b)| a.min(b)),
        }
    }

    /// Whether every event has an index.
    pub fn has_index(&self) -> bool {
        self.index.is_some()
    }

    /// The order that all events of these sets share, if any.
    pub fn shared_order<'a>(sets: impl Iterator<Item = &'a Self>) -> Option<Order> {
        let merged = sets.copied().reduce(Self::merge)?;
        if merged.zoned.is_some() {
            return Some(Order::Zoned);
        }
        if merged.local.is_some() {
            return Some(Order::Local);
        }
        merged.index.map(|_| Order::Index)
    }

    /// Which set starts first; equal where it cannot be told, such as one timestamp for both and no index.
    pub fn compare(&self, other: &Self, order: Order) -> Ordering {
        let by_stamp = |a: Option<Stamp>, b: Option<Stamp>| a.zip(b).map_or(Ordering::Equal, |(a, b)| compare(a, b));
        match order {
            Order::Zoned => by_stamp(self.zoned, other.zoned),
            Order::Local => by_stamp(self.local, other.local),
            Order::Index => self.index.cmp(&other.index),
        }
    }
}

fn compare(a: Stamp, b: Stamp) -> Ordering {
    a.0.cmp(&b.0).then_with(|| a.1.zip(b.1).map_or(Ordering::Equal, |(a, b)| a.cmp(&b)))
}

/// Of two at one time the one with the lower index; without an index the tie stays.
fn earlier(a: Stamp, b: Stamp) -> Stamp {
    match a.0.cmp(&b.0) {
        Ordering::Less => a,
        Ordering::Greater => b,
        Ordering::Equal => (a.0, a.1.zip(b.1).map(|(a, b)| a.min(b))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(timestamp: &str, index: Option<u64>) -> Earliest {
        Earliest::of(Event { moment: Moment::parse(timestamp), index })
    }

    #[test]
    fn zones_are_compared_as_instants_and_never_with_times_without_zone() {
        let (berlin, utc) = (event("2026-01-01T01:30:00+02:00", None), event("2026-01-01T00:00:00Z", None));
        let order = Earliest::shared_order([berlin, utc].iter()).unwrap();
        assert_eq!((order, berlin.compare(&utc, order)), (Order::Zoned, Ordering::Less));
        let local = event("2026-01-01T00:00:00.248481", None);
        assert_eq!(Earliest::shared_order([local, utc].iter()), None);
        assert_eq!(Earliest::shared_order([local, local].iter()), Some(Order::Local));
        assert_eq!(Moment::parse("yesterday"), None);
    }

    #[test]
    fn indices_break_ties_and_stand_in_for_missing_timestamps() {
        let (a, b) = (event("2026-01-01T00:00:00Z", Some(1)), event("2026-01-01T00:00:00Z", Some(2)));
        assert_eq!(a.compare(&b, Order::Zoned), Ordering::Less);
        let bare = event("", Some(0));
        assert_eq!(Earliest::shared_order([a, bare].iter()), Some(Order::Index));
        assert_eq!(a.compare(&bare, Order::Index), Ordering::Greater);
        assert_eq!(Earliest::shared_order([a, event("", None)].iter()), None);
    }
}
