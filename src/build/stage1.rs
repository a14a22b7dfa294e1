//! Pairs for stage 1: the needed tools beside too many, and a silent rationale beside one that states the conclusion.
//!
//! In: a trace with a ground of its contract. Out: examined pairs. The two selections of a pair differ in one point and are of one length.

use rand::seq::IndexedRandom as _;
use rand_chacha::ChaCha8Rng;

use crate::audit::{Examined, Ground, Severities, examine_selection};
use crate::dataset::{Message, SelectionKind, SelectionPair};
use crate::prompt::{Mitigation, selection_answer, selection_messages, selection_of, selection_with};
use crate::trace::{Part, Trace};

use super::fit::{fill, length};
use super::phrase::{as_clause, is_clause};

/// Rationales that name no subject; filled up to the length of the leaking one.
const SILENT: [&str; 14] = [
    "These return what the request names.",
    "No other tool is needed.",
    "Each covers one part of it.",
    "The others do not bear on it.",
    "The request asks for these records only.",
    "The answer has to report their results.",
    "Their descriptions match the items that are asked for.",
    "Nothing else on offer holds any of these items.",
    "Together they cover the request.",
    "One call of each is enough.",
    "The rest would add nothing.",
    "All items stand in these.",
    "They hold it all.",
    "I need each of them once to fill in what is asked for.",
];

/// What a rationale that guesses ahead begins with.
const LEAKING: [&str; 5] = [
    "Combined, they would show that",
    "Their results together reveal that",
    "I pick these since it seems that",
    "With these one can tell that",
    "They fit the picture that",
];

/// The pairs of one trace, examined; those that the trace gives no material for are absent.
pub(super) fn pairs(
    trace: &Trace,
    ground: &Ground<'_>,
    (writer, severities): (&str, &Severities),
    rng: &mut ChaCha8Rng,
) -> Vec<Examined<SelectionPair>> {
    let prompt = selection_messages(trace, Mitigation::None);
    let mut pairs = Vec::new();
    for (kind, (chosen, rejected)) in [
        (SelectionKind::OverCollection, over_collection(trace, rng)),
        (SelectionKind::LeakingRationale, leaking(trace, rng)),
    ]
    .into_iter()
    .filter_map(|(kind, pair)| Some((kind, pair?)))
    {
        let pair = SelectionPair {
            prompt: prompt.clone(),
            chosen: vec![Message::assistant(chosen)],
            rejected: vec![Message::assistant(rejected)],
            kind,
            trace_id: Some(trace.trace_id.clone()),
            split: Some(Part::Train),
            writer_chosen: Some(writer.to_owned()),
            writer_rejected: Some(writer.to_owned()),
            audit: None,
        };
        pairs.push(examine_selection(pair, ground).weighed(severities));
    }
    pairs.into_iter().filter(Examined::holds).collect()
}

/// The same selection with one tool that the task does not need.
fn over_collection(trace: &Trace, rng: &mut ChaCha8Rng) -> Option<(String, String)> {
    let noise: Vec<&str> =
        trace.tools.iter().filter(|tool| !tool.essential).map(|tool| tool.tool_id.as_str()).collect();
    let taken = *noise.choose(rng)?;
    let in_order = trace.tools.iter().filter(|tool| tool.essential || tool.tool_id == taken);
    let ids: Vec<&str> = in_order.map(|tool| tool.tool_id.as_str()).collect();
    Some((selection_answer(trace), selection_of(trace, &ids)))
}

/// The same selection with a rationale that states the conclusion.
fn leaking(trace: &Trace, rng: &mut ChaCha8Rng) -> Option<(String, String)> {
    if !is_clause(&trace.sensitive_conclusion) {
        return None;
    }
    let ids: Vec<&str> = trace.essential_tools().map(|tool| tool.tool_id.as_str()).collect();
    let leak = format!("{} {}.", LEAKING.choose(rng)?, as_clause(&trace.sensitive_conclusion));
    let silent = fill("", &SILENT, 1, length(&leak), rng).text;
    Some((selection_with(&ids, silent.trim()), selection_with(&ids, &leak)))
}
