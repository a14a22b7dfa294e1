//! Run results of TOP-Bench's reference runner become `responses.jsonl`: what real models said.
//!
//! In: one row an id with the selected tools and the final response, or one object that maps ids to such rows. Out:
//! [`Response`]s, one a stage. A row without a second round and a `null` row become responses with `error` set, never empty
//! answers. The runner's keys are not documented: they are compared without spaces, underscores and case, under the names
//! below. A number as id is one of v2's (`topbench-v2/17`); any other id is taken as it stands. A `null` row has no id: its
//! place says nothing, since the runner resumes by position.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::openai::error_text;
use crate::error::Fault;
use crate::trace::{Row, Variant, plain};

const IDS: &[&str] = &["traceid", "trajectoryid", "scenarioinputid", "scenarioid", "sampleid", "id"];
const MODELS: &[&str] = &["model", "modelname", "agentmodel", "agent"];
const FIRST: &[&str] =
    &["round1", "firstround", "stage1", "toolselection", "selection", "selectedtoolids", "selectedtools"];
const SECOND: &[&str] =
    &["finalresponse", "finalanswer", "round2", "secondround", "stage2", "response", "answer", "output"];
const ERRORS: &[&str] = &["error", "errormessage", "exception"];
/// What a round's object may call its text.
const TEXTS: &[&str] = &["content", "response", "raw", "rawresponse", "text", "finalresponse", "answer", "output"];

/// What one model said at one stage, as in `responses.jsonl`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Response {
    /// The trace; `null` where the source has only a `null` row.
    pub trace_id: Option<String>,
    /// The model.
    pub model: String,
    /// 1: tool selection, 2: final response.
    pub stage: u8,
    /// What it said, as it stands.
    pub content: Option<String>,
    /// Why there is nothing, or what failed.
    pub error: Option<String>,
}

/// What is known beside the rows.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    /// The model, where rows do not name it.
    pub model: &'a str,
    /// The variant of the traces that were answered.
    pub variant: Variant,
}

/// Reads one row: one or two responses, or those of a whole object of ids.
///
/// # Errors
/// A [`Fault`] for a row that is no object or has no id.
pub fn parse(row: &Row<'_>, run: &Run<'_>) -> Result<Vec<Response>, Fault> {
    if row.text == "null" {
        return Ok(vec![run.failed(None, "the run left no result for this row")]);
    }
    let members: BTreeMap<String, &RawValue> =
        serde_json::from_str(row.text).map_err(|_| Fault::new("a run result must be an object or null"))?;
    let fields = fields_of(&members);
    if IDS.iter().any(|id| fields.contains_key(*id)) || fields.contains_key("metadata") {
        return run.responses(&fields, None);
    }
    let mut responses = Vec::new();
    for (id, value) in &members {
        let trace_id = run.trace_id(&Value::String(id.clone()));
        match serde_json::from_str::<BTreeMap<String, &RawValue>>(value.get()) {
            Ok(inner) => responses.extend(run.responses(&fields_of(&inner), trace_id)?),
            Err(_) if value.get() == "null" => {
                responses.push(run.failed(trace_id, "the run left no result for this id"));
            }
            Err(_) => {
                return Err(Fault::new("the row has no id").expected(format!("one of: {}", IDS.join(", "))));
            }
        }
    }
    Ok(responses)
}

fn fields_of(members: &BTreeMap<String, &RawValue>) -> BTreeMap<String, Value> {
    members
        .iter()
        .filter_map(|(key, value)| Some((plain(key), serde_json::from_str::<Value>(value.get()).ok()?)))
        .collect()
}

impl Run<'_> {
    /// `known` is the id where the row itself has none.
    fn responses(&self, fields: &BTreeMap<String, Value>, known: Option<String>) -> Result<Vec<Response>, Fault> {
        let get = |names: &[&str]| names.iter().find_map(|name| fields.get(*name).filter(|value| !value.is_null()));
        let inner =
            fields.get("metadata").and_then(|metadata| metadata.get("id").or_else(|| metadata.get("Trajectory ID")));
        let Some(trace_id) = get(IDS).or(inner).and_then(|id| self.trace_id(id)).or(known) else {
            return Err(Fault::new("the row has no id").expected(format!("one of: {}", IDS.join(", "))));
        };
        let model = get(MODELS).and_then(Value::as_str).unwrap_or(self.model).to_owned();
        let error = get(ERRORS).and_then(error_text);
        let stage = |stage: u8, value: Option<&Value>| {
            let content = value.and_then(content);
            let absent = content.is_none().then(|| format!("the run has no round {stage}"));
            // An error belongs to the round that is not there; beside a whole second round it belongs to that.
            let error = if content.is_none() || stage == 2 { error.clone().or(absent) } else { None };
            Response { trace_id: Some(trace_id.clone()), model: model.clone(), stage, content, error }
        };
        let first = get(FIRST);
        let mut responses = Vec::new();
        if first.is_some() {
            responses.push(stage(1, first));
        }
        responses.push(stage(2, get(SECOND)));
        Ok(responses)
    }

    fn failed(&self, trace_id: Option<String>, reason: &str) -> Response {
        Response { trace_id, model: self.model.to_owned(), stage: 2, content: None, error: Some(reason.to_owned()) }
    }

    fn trace_id(&self, id: &Value) -> Option<String> {
        let text = match id {
            Value::Number(number) => number.to_string(),
            Value::String(text) if !text.trim().is_empty() => text.trim().to_owned(),
            _ => return None,
        };
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        Some(if is_number { format!("topbench-v2/{text}{}", self.variant.suffix()) } else { text })
    }
}

/// The text of a round: a string, an object's text, or the selection as JSON.
fn content(round: &Value) -> Option<String> {
    match round {
        Value::String(text) => Some(text.clone()).filter(|text| !text.trim().is_empty()),
        Value::Array(ids) => Some(serde_json::json!({"selected_tool_ids": ids}).to_string()),
        Value::Object(fields) => {
            let text = fields.iter().find(|(key, value)| TEXTS.contains(&plain(key).as_str()) && value.is_string());
            match text {
                Some((_, text)) => content(text),
                None if fields.keys().any(|key| plain(key) == "error") => None,
                None => Some(round.to_string()).filter(|_| !fields.is_empty()),
            }
        }
        _ => None,
    }
}
