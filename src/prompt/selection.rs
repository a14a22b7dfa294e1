//! Stage 1's answer: the text a model is trained to give, and the strict reading of what a model gave.
//!
//! In: a reply and the trace whose tools were on offer. Out: [`Selection`], or the [`SelectionFault`] that names why there
//! is none. Mentioning an id is not selecting it: only the list `selected_tool_ids` of a JSON object counts.

use std::collections::HashSet;

use serde::Deserialize;

use super::object::{FirstObject, first_object};
use crate::run::digest;
use crate::trace::Trace;

/// What a stage-1 reply selects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// Ids on offer, without duplicates, in the order of the reply. Empty: the reply selects no tool.
    pub selected_tool_ids: Vec<String>,
    /// Why, in the model's words: a visible exit, so it is adjudicated too.
    pub rationale: Option<String>,
    /// What the tools on offer cannot do.
    pub missing_capability: Option<String>,
    /// Ids in the list that are not on offer, as given, without duplicates. They select nothing.
    pub unknown_tool_ids: Vec<String>,
}

/// Why a reply is no selection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectionFault {
    /// No JSON object in the reply.
    #[error("the reply holds no JSON object")]
    NoObject,
    /// The object is not closed: the reply was cut.
    #[error("the reply ends within its JSON object")]
    Truncated,
    /// The object has no `selected_tool_ids`.
    #[error("the JSON object has no `selected_tool_ids`")]
    NoList,
    /// `selected_tool_ids` is not a list of strings, or a key is given twice.
    #[error("the JSON object does not have the expected form, with `selected_tool_ids` a list of strings")]
    WrongForm,
    /// Every id in the list is unknown.
    #[error("none of the selected ids is on offer: {}", .0.join(", "))]
    OnlyUnknown(Vec<String>),
}

#[derive(Deserialize)]
struct Reply {
    selected_tool_ids: Option<Vec<String>>,
    #[serde(default)]
    rationale: Option<serde_json::Value>,
    #[serde(default)]
    missing_capability_if_any: Option<serde_json::Value>,
}

/// Reads a stage-1 reply: plain JSON, fenced JSON, or the first JSON object within prose.
///
/// # Errors
/// [`SelectionFault`]; a reply without a usable list never reads as an empty selection.
pub fn read_selection(text: &str, offered: &Trace) -> Result<Selection, SelectionFault> {
    let object = match first_object(text) {
        FirstObject::Whole(object) => object,
        FirstObject::Open => return Err(SelectionFault::Truncated),
        FirstObject::Absent => return Err(SelectionFault::NoObject),
    };
    let reply: Reply = serde_json::from_str(object).map_err(|_| SelectionFault::WrongForm)?;
    let ids = reply.selected_tool_ids.ok_or(SelectionFault::NoList)?;
    let mut selection = Selection {
        rationale: reply.rationale.and_then(plain_text),
        missing_capability: reply.missing_capability_if_any.and_then(plain_text),
        ..Selection::default()
    };
    let mut seen = HashSet::new();
    for id in ids.iter().map(|id| id.trim()).filter(|id| seen.insert(*id)) {
        let list = match offered.tool(id) {
            Some(_) => &mut selection.selected_tool_ids,
            None => &mut selection.unknown_tool_ids,
        };
        list.push(id.to_owned());
    }
    if selection.selected_tool_ids.is_empty() && !selection.unknown_tool_ids.is_empty() {
        return Err(SelectionFault::OnlyUnknown(selection.unknown_tool_ids));
    }
    Ok(selection)
}

/// Text of a field that should be a string or null; other values keep their JSON form rather than being lost.
fn plain_text(value: serde_json::Value) -> Option<String> {
    match value {
        serde_json::Value::Null => None,
        serde_json::Value::String(text) if text.trim().is_empty() => None,
        serde_json::Value::String(text) => Some(text.trim().to_owned()),
        other => Some(other.to_string()),
    }
}

/// Rationales name no subject, so that they cannot leak one.
const RATIONALES: [&str; 6] = [
    "These tools return the records that the request names.",
    "The request asks for what these tools return; the others do not bear on it.",
    "Each of these covers one part of the request.",
    "Together these cover the request, and no other tool is needed for it.",
    "These are the tools whose results the answer has to report.",
    "The answer needs the results of these tools only.",
];

/// The target text of stage 1: the essential tools, as strict JSON, with a rationale that says nothing about the user.
pub fn selection_answer(trace: &Trace) -> String {
    let ids: Vec<&str> = trace.essential_tools().map(|tool| tool.tool_id.as_str()).collect();
    selection_of(trace, &ids)
}

/// As [`selection_answer`], with these tools.
pub fn selection_of(trace: &Trace, ids: &[&str]) -> String {
    let pick = digest::of_bytes(trace.trace_id.as_bytes()).bytes().map(usize::from).sum::<usize>() % RATIONALES.len();
    selection_with(ids, RATIONALES[pick])
}

/// A selection of these tools for this reason, as strict JSON.
pub fn selection_with(ids: &[&str], rationale: &str) -> String {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let ids: Vec<String> = ids.iter().map(|id| quoted(id)).collect();
    let (ids, rationale) = (ids.join(", "), quoted(rationale));
    format!("{{\"selected_tool_ids\": [{ids}], \"rationale\": {rationale}, \"missing_capability_if_any\": null}}")
}
