//! Chat-completions logs: one session a row, `messages` with `tool_calls` and tool results, the last answer in the messages
//! or in `response.choices`.
//!
//! In: a row. Out: a [`SessionLog`] without contracts: such a log does not say what is private.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::message::{Message, Session};
use super::{Context, SessionLog, Status};
use crate::error::Fault;
use crate::trace::Row;

#[derive(Deserialize)]
struct Record {
    #[serde(default)]
    session_id: Option<Value>,
    #[serde(default)]
    conversation_id: Option<Value>,
    #[serde(default)]
    thread_id: Option<Value>,
    #[serde(default)]
    id: Option<Value>,
    #[serde(default)]
    model: Option<String>,
    messages: Vec<Message>,
    #[serde(default)]
    response: Option<Box<RawValue>>,
    #[serde(default)]
    choices: Option<Vec<Choice>>,
    #[serde(default)]
    error: Value,
    #[serde(default)]
    condition: Option<String>,
    #[serde(default)]
    pair_key: Option<Value>,
}

#[derive(Deserialize)]
struct Response {
    #[serde(default)]
    choices: Option<Vec<Choice>>,
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    error: Value,
}

#[derive(Deserialize)]
struct Choice {
    message: Message,
}

/// Reads one row.
///
/// # Errors
/// A [`Fault`] that says what the row lacks.
pub fn parse(row: &Row<'_>, context: &Context<'_>) -> Result<SessionLog, Fault> {
    let record: Record = row.parse()?;
    let response: Option<Response> = record.response.and_then(|raw| serde_json::from_str(raw.get()).ok());
    let (answer, response_model, response_error) =
        response.map_or((None, None, Value::Null), |response| (response.choices, response.model, response.error));
    let mut messages = record.messages;
    // Of several sampled answers the first is the one that was sent.
    messages.extend(record.choices.or(answer).into_iter().flatten().next().map(|choice| choice.message));
    let ids = [record.session_id, record.conversation_id, record.thread_id, record.id];
    let id = ids.into_iter().flatten().find_map(|id| match id {
        Value::String(text) if !text.is_empty() => Some(text),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    });
    let mut extra = serde_json::Map::new();
    if let Some(model) = record.model.or(response_model).or_else(|| context.model.map(str::to_owned)) {
        extra.insert("model".to_owned(), model.into());
    }
    let session = Session {
        id: id.unwrap_or_else(|| format!("{}/{}", context.file, row.index)),
        contract_id: context.contract_id,
        pair_key: record.pair_key,
        condition: record.condition,
        extra,
        attachments: std::collections::BTreeMap::new(),
    };
    let mut observations = session.observe(&messages);
    if let Some(error) = [record.error, response_error].iter().find_map(error_text) {
        observations.push(session.gap(&observations, Status::Error, &error));
    } else if observations.is_empty() {
        observations.push(session.gap(&observations, Status::Missing, ""));
    }
    Ok(SessionLog { observations, ..SessionLog::default() })
}

/// The text of an error field; `None` if it says that nothing failed.
pub(super) fn error_text(error: &Value) -> Option<String> {
    match error {
        Value::Null | Value::Bool(false) => None,
        Value::String(text) if text.is_empty() => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.get("message").and_then(Value::as_str).map_or_else(|| other.to_string(), str::to_owned)),
    }
}
