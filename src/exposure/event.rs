//! Events to look at: what was said, with every match marked.
//!
//! In: an [`Observation`] and the matches in its payload. Out: an [`EventView`], whose text is cut to what surrounds matches.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::clock::Moment;
use super::match_row::MatchRow;
use crate::adjudicate::Tier;
use crate::contract::Visibility;
use crate::observation::{Observation, SchemaGroup, Status};

/// Bytes shown on each side of a match.
const AROUND: usize = 160;

/// Bytes shown of a payload without a match.
const PLAIN: usize = 320;

/// One event of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EventView {
    /// Request number.
    pub request: u32,
    /// Event index.
    pub index: Option<u64>,
    /// Its timestamp as logged.
    pub timestamp: Option<String>,
    /// The channel.
    pub channel: String,
    /// Who sees it.
    pub visibility: Visibility,
    /// To, cc and bcc of the event itself.
    pub recipients: Vec<String>,
    /// Whether it was seen whole.
    pub status: Status,
    /// The tool.
    pub tool: Option<String>,
    /// The schema group.
    pub schema_group: Option<SchemaGroup>,
    /// The text in order.
    pub pieces: Vec<Piece>,
    /// The matches that pieces refer to.
    pub hits: Vec<Hit>,
}

/// A stretch of a payload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// Its text; empty where something was cut.
    pub text: String,
    /// Places in [`EventView::hits`] of the matches that cover it.
    pub hits: Vec<usize>,
    /// Bytes that were cut here.
    pub cut: usize,
}

/// A match.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hit {
    /// The target.
    pub target_id: String,
    /// The alias that matched; absent for the value itself.
    pub alias: Option<String>,
    /// How close it is.
    pub tier: Tier,
    /// A negation governs it.
    pub negated: bool,
    /// Whether every recipient may have it; absent on internal channels.
    pub authorized: Option<bool>,
    /// Whether it enters the headline figures.
    pub counted: bool,
}

impl EventView {
    /// Marks the matches in a payload's text.
    pub fn new(observation: &Observation, visibility: Visibility, text: &str, matches: &[MatchRow]) -> Self {
        let fitting: Vec<&MatchRow> = matches
            .iter()
            .filter(|found| text.get(found.span[0]..found.span[1]).is_some_and(|part| !part.is_empty()))
            .collect();
        Self {
            request: observation.request,
            index: observation.index,
            timestamp: observation.timestamp.clone(),
            channel: observation.channel.clone(),
            visibility,
            recipients: observation.recipients.clone(),
            status: observation.status,
            tool: observation.tool.clone(),
            schema_group: observation.schema_group,
            pieces: pieces(text, &fitting),
            hits: fitting.into_iter().map(Hit::of).collect(),
        }
    }

    /// Puts the events of a session in order: by timestamp and index where all have them, else by index, else by request.
    pub fn sort(events: &mut [Self]) {
        let moments: Vec<Option<Moment>> =
            events.iter().map(|event| event.timestamp.as_deref().and_then(Moment::parse)).collect();
        let one_clock = |zoned: bool| moments.iter().all(|moment| moment.is_some_and(|moment| moment.zoned == zoned));
        let timed = one_clock(true) || one_clock(false);
        let indexed = events.iter().all(|event| event.index.is_some());
        events.sort_by(|a, b| {
            let by_time = || {
                let moment = |event: &Self| event.timestamp.as_deref().and_then(Moment::parse);
                moment(a).zip(moment(b)).and_then(|(a, b)| a.compare(b)).unwrap_or(Ordering::Equal)
            };
            match (timed, indexed) {
                (true, _) => by_time().then(a.index.cmp(&b.index)),
                (false, true) => a.index.cmp(&b.index),
                (false, false) => a.request.cmp(&b.request),
            }
        });
    }
}

impl Hit {
    fn of(found: &MatchRow) -> Self {
        Self {
            target_id: found.target_id.clone(),
            alias: found.alias.clone(),
            tier: found.tier,
            negated: found.negated,
            authorized: found.authorized,
            counted: found.counted,
        }
    }
}

/// Cuts the text at every start and end of a match, and drops what is far from all of them.
fn pieces(text: &str, matches: &[&MatchRow]) -> Vec<Piece> {
    let mut cuts: BTreeSet<usize> = BTreeSet::from([0, text.len()]);
    if matches.is_empty() {
        cuts.insert(text.floor_char_boundary(PLAIN));
    }
    for found in matches {
        let [start, end] = found.span;
        cuts.extend([start, end]);
        cuts.insert(text.ceil_char_boundary(start.saturating_sub(AROUND)));
        cuts.insert(text.floor_char_boundary((end + AROUND).min(text.len())));
    }
    let cuts: Vec<usize> = cuts.into_iter().collect();
    let is_near = |from: usize, to: usize| {
        matches.is_empty() && to <= PLAIN
            || matches.iter().any(|found| from + AROUND >= found.span[0] && to <= found.span[1] + AROUND)
    };
    let mut pieces: Vec<Piece> = Vec::new();
    for window in cuts.windows(2) {
        let (from, to) = (window[0], window[1]);
        if is_near(from, to) {
            let covers = |found: &&MatchRow| found.span[0] <= from && to <= found.span[1];
            let hits = (0..matches.len()).filter(|place| covers(&matches[*place])).collect();
            pieces.push(Piece { text: text[from..to].to_owned(), hits, cut: 0 });
        } else if let Some(last) = pieces.last_mut().filter(|last| last.cut > 0) {
            last.cut += to - from;
        } else {
            pieces.push(Piece { text: String::new(), hits: Vec::new(), cut: to - from });
        }
    }
    pieces
}
