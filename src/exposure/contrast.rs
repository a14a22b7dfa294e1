//! Differences between conditions, paired by item and seed.
//!
//! In: sessions with a condition and a pair key. Out: a [`Contrast`] for every pair of conditions and metric, and the sessions
//! that have no partner. Source: ASLEval's paired contrasts with exact sign-flip tests.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::session::{Scored, Session};
use crate::statistic::{Column, Method, Resampling, holm, sign_flip};

/// One metric of two conditions: a - b, where a is the later by name (`guard-on` less `guard-off`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Contrast {
    /// `ecr`, `olf`, or `coverage.` and a channel.
    pub metric: String,
    /// The channel of a coverage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// First condition.
    pub a: String,
    /// Second condition.
    pub b: String,
    /// Keys that both have a value for.
    pub pairs: usize,
    /// Pairs that are not equal.
    pub nonzero: usize,
    /// Pairs with a session that has gaps.
    pub incomplete: usize,
    /// Partners of which one has no value, such as the OLF of a contract without outlet: in no pair.
    #[serde(default)]
    pub without_value: usize,
    /// Mean of a - b.
    pub difference: Option<f64>,
    /// Lower end of its 95% interval.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// Two-sided p of the sign-flip test.
    pub p: Option<f64>,
    /// The same as a fraction.
    pub p_fraction: Option<String>,
    /// Holm's correction over all contrasts shown.
    pub p_holm: Option<f64>,
    /// How p was found.
    pub method: Option<Method>,
    /// Why something is absent or degenerate.
    pub reason: Option<String>,
}

/// Pair keys that only one of two conditions has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unpaired {
    /// First condition.
    pub a: String,
    /// Second condition.
    pub b: String,
    /// Sessions of the first without a partner.
    pub only_a: Vec<String>,
    /// Sessions of the second without a partner.
    pub only_b: Vec<String>,
    /// Pair keys that several sessions of one condition share: which of them is the partner is not said, so none is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ambiguous: Vec<String>,
}

/// What a metric is of a session.
enum Metric<'a> {
    Ecr,
    Olf,
    Coverage(&'a str),
}

impl Metric<'_> {
    fn value(&self, session: &Session) -> Option<f64> {
        match self {
            Self::Ecr => Some(session.ecr),
            Self::Olf => session.olf,
            Self::Coverage(channel) => session.coverage.get(*channel).copied(),
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Ecr => "ecr".to_owned(),
            Self::Olf => "olf".to_owned(),
            Self::Coverage(channel) => format!("coverage.{channel}"),
        }
    }
}

/// Sessions of one condition by pair key.
#[derive(Default)]
struct Keyed<'a> {
    /// Keys of one session.
    sessions: BTreeMap<&'a str, &'a Scored>,
    /// Keys of several.
    ambiguous: BTreeSet<&'a str>,
}

/// Every pair of conditions, every metric; none without pair keys.
pub(super) fn contrasts(sessions: &[&Scored], resampling: Resampling) -> (Vec<Contrast>, Vec<Unpaired>) {
    let conditions = by_condition(sessions);
    let channels: BTreeSet<&str> =
        sessions.iter().flat_map(|scored| scored.session.coverage.keys().map(String::as_str)).collect();
    let metrics: Vec<Metric<'_>> =
        [Metric::Ecr, Metric::Olf].into_iter().chain(channels.into_iter().map(Metric::Coverage)).collect();
    let (mut contrasts, mut unpaired) = (Vec::new(), Vec::new());
    if conditions.values().all(|keyed| keyed.sessions.is_empty() && keyed.ambiguous.is_empty()) {
        return (contrasts, unpaired);
    }
    let named: Vec<(&str, Keyed<'_>)> = conditions.into_iter().rev().collect();
    for (place, (a, first)) in named.iter().enumerate() {
        for (b, second) in &named[place + 1..] {
            contrasts.extend(metrics.iter().map(|metric| contrast(metric, (a, first), (b, second), resampling)));
            unpaired.extend(without_partner((a, first), (b, second)));
        }
    }
    let shown: Vec<usize> = (0..contrasts.len()).filter(|place| contrasts[*place].p.is_some()).collect();
    let p: Vec<f64> = shown.iter().filter_map(|place| contrasts[*place].p).collect();
    for (place, adjusted) in shown.into_iter().zip(holm(&p)) {
        contrasts[place].p_holm = Some(adjusted);
    }
    (contrasts, unpaired)
}

fn by_condition<'a>(sessions: &[&'a Scored]) -> BTreeMap<&'a str, Keyed<'a>> {
    let mut conditions: BTreeMap<&str, Keyed<'_>> = BTreeMap::new();
    for &scored in sessions {
        let Some(condition) = scored.session.condition.as_deref() else { continue };
        let keyed = conditions.entry(condition).or_default();
        let Some(key) = scored.session.pair_key.as_deref() else { continue };
        if keyed.ambiguous.contains(key) || keyed.sessions.insert(key, scored).is_some() {
            keyed.sessions.remove(key);
            keyed.ambiguous.insert(key);
        }
    }
    conditions
}

/// Keys that are in no contrast, since several sessions of a condition share them.
pub(super) fn ambiguous_sessions<'a>(sessions: &[&'a Scored]) -> Vec<&'a str> {
    let conditions = by_condition(sessions);
    let is_ambiguous = |scored: &&&'a Scored| {
        let named = scored.session.condition.as_deref().zip(scored.session.pair_key.as_deref());
        named.is_some_and(|(condition, key)| conditions[condition].ambiguous.contains(key))
    };
    sessions.iter().filter(is_ambiguous).map(|scored| scored.session.session_id.as_str()).collect()
}

fn contrast(
    metric: &Metric<'_>,
    (a, first): (&str, &Keyed<'_>),
    (b, second): (&str, &Keyed<'_>),
    resampling: Resampling,
) -> Contrast {
    let mut pairs: Vec<(&Scored, f64)> = Vec::new();
    let (mut incomplete, mut without_value) = (0, 0);
    for (key, one) in &first.sessions {
        let Some(other) = second.sessions.get(key) else { continue };
        let Some((x, y)) = metric.value(&one.session).zip(metric.value(&other.session)) else {
            without_value += 1;
            continue;
        };
        incomplete += usize::from(one.session.incomplete || other.session.incomplete);
        pairs.push((one, x - y));
    }
    let differences: Vec<f64> = pairs.iter().map(|(_, difference)| *difference).collect();
    let (places, clusters) = super::figure::clusters(&pairs.iter().map(|(scored, _)| *scored).collect::<Vec<_>>());
    let values = places.into_iter().zip(&differences).map(|(place, difference)| (place, Some(*difference)));
    let estimate = resampling.means("pairs", clusters, &[Column::of(clusters, values)]).pop().unwrap_or_default();
    let test = (!pairs.is_empty()).then(|| sign_flip(&differences, resampling));
    Contrast {
        metric: metric.name(),
        channel: if let Metric::Coverage(channel) = metric { Some((*channel).to_owned()) } else { None },
        a: a.to_owned(),
        b: b.to_owned(),
        pairs: pairs.len(),
        nonzero: test.as_ref().map_or(0, |test| test.nonzero),
        incomplete,
        without_value,
        difference: estimate.value,
        low: estimate.low,
        high: estimate.high,
        p: test.as_ref().map(|test| test.p),
        p_fraction: test.as_ref().and_then(|test| test.p_fraction.clone()),
        p_holm: None,
        method: test.map(|test| test.method),
        reason: if pairs.is_empty() { Some("no pair key has a value in both".to_owned()) } else { estimate.reason },
    }
}

fn without_partner((a, first): (&str, &Keyed<'_>), (b, second): (&str, &Keyed<'_>)) -> Option<Unpaired> {
    let only = |these: &Keyed<'_>, those: &Keyed<'_>| -> Vec<String> {
        let has = |key: &str| those.sessions.contains_key(key) || those.ambiguous.contains(key);
        let alone = these.sessions.iter().filter(|(key, _)| !has(key));
        alone.map(|(_, scored)| scored.session.session_id.clone()).collect()
    };
    let (only_a, only_b) = (only(first, second), only(second, first));
    let ambiguous: Vec<String> = first.ambiguous.union(&second.ambiguous).map(|key| (*key).to_owned()).collect();
    let says_something = !only_a.is_empty() || !only_b.is_empty() || !ambiguous.is_empty();
    says_something.then(|| Unpaired { a: a.to_owned(), b: b.to_owned(), only_a, only_b, ambiguous })
}
