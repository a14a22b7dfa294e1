//! Chat messages in the spellings of several programs become observations.
//!
//! In: messages with tool calls. Out: [`Observation`]s on the channels `response` (what the assistant says), `rationale` (what
//! it says beside tool calls, and reasoning), `tool_call` (arguments) and `tool_return` (results). The request is the number
//! of the user's turn. What the system, the developer or the user says is input and no observation.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::payload::without_blanks;
use super::{Observation, Payload, Status};

/// One message of any role.
#[derive(Deserialize)]
pub(super) struct Message {
    #[serde(default)]
    role: String,
    #[serde(default)]
    content: Option<Box<RawValue>>,
    #[serde(default)]
    reasoning: Option<Box<RawValue>>,
    #[serde(default)]
    reasoning_content: Option<Box<RawValue>>,
    #[serde(default)]
    refusal: Option<String>,
    #[serde(default)]
    tool_calls: Option<Vec<Call>>,
    /// The older spelling of one call.
    #[serde(default)]
    function_call: Option<Box<RawValue>>,
    #[serde(default)]
    tool_call_id: Option<String>,
    /// The tool's name beside its result.
    #[serde(default)]
    function: Option<Value>,
    #[serde(default)]
    name: Option<Value>,
    #[serde(default)]
    error: Value,
}

/// A tool call: `function` is a name, or an object with `name` and `arguments`.
#[derive(Deserialize)]
struct Call {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    function: Option<Box<RawValue>>,
    #[serde(default)]
    arguments: Option<Box<RawValue>>,
    #[serde(default)]
    args: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Function {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    arguments: Option<Box<RawValue>>,
    #[serde(default)]
    args: Option<Box<RawValue>>,
}

/// One part of a content list.
#[derive(Deserialize)]
struct Part {
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    content: Option<String>,
    #[serde(default)]
    refusal: Option<String>,
    #[serde(default)]
    reasoning: Option<String>,
    #[serde(default)]
    thinking: Option<String>,
}

/// What is known of a session beside its messages.
pub(super) struct Session<'a> {
    pub id: String,
    pub contract_id: &'a str,
    pub pair_key: Option<Value>,
    pub condition: Option<String>,
    /// Kept with every observation, e.g. the model.
    pub extra: serde_json::Map<String, Value>,
    /// Long texts that messages refer to as `attachment://KEY`.
    pub attachments: BTreeMap<String, String>,
}

/// What a message leaves.
struct Left {
    channel: &'static str,
    payload: Payload,
    status: Status,
    tool: Option<String>,
    event_id: Option<String>,
}

impl Session<'_> {
    /// Every observation of the messages, in order.
    pub fn observe(&self, messages: &[Message]) -> Vec<Observation> {
        let names = call_names(messages);
        let mut observations = Vec::new();
        let mut request = 0;
        for message in messages {
            if message.role == "user" {
                request += 1;
            }
            for left in message.left(&names) {
                observations.push(self.observation(left, request.max(1), observations.len() as u64));
            }
        }
        observations
    }

    /// A gap on `response` after what is there: the run failed, or ended without an answer.
    pub fn gap(&self, observations: &[Observation], status: Status, reason: &str) -> Observation {
        let left = Left {
            channel: "response",
            payload: if reason.is_empty() { Payload::Absent } else { reason.into() },
            status,
            tool: None,
            event_id: None,
        };
        let request = observations.last().map_or(1, |last| last.request);
        self.observation(left, request, observations.len() as u64)
    }

    fn observation(&self, left: Left, request: u32, index: u64) -> Observation {
        Observation {
            session_id: self.id.clone(),
            contract_id: self.contract_id.to_owned(),
            request,
            index: Some(index),
            timestamp: None,
            channel: left.channel.to_owned(),
            payload: self.attached(left.payload),
            recipients: Vec::new(),
            status: left.status,
            event_id: left.event_id,
            tool: left.tool,
            schema_group: None,
            pair_key: self.pair_key.clone(),
            condition: self.condition.clone(),
            extra: self.extra.clone(),
        }
    }

    /// The payload with its attachments put back.
    fn attached(&self, payload: Payload) -> Payload {
        static REFERENCE: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new("attachment://([0-9A-Za-z_-]+)").ok());
        match (&payload, LazyLock::force(&REFERENCE)) {
            (Payload::Text(text), Some(pattern)) if !self.attachments.is_empty() && text.contains("attachment://") => {
                let put = |found: &regex::Captures<'_>| {
                    self.attachments.get(&found[1]).cloned().unwrap_or_else(|| found[0].to_owned())
                };
                pattern.replace_all(text, put).into_owned().into()
            }
            _ => payload,
        }
    }
}

/// The tool of each call id; ids that stand for two calls are of no use as event ids and map to nothing.
fn call_names(messages: &[Message]) -> BTreeMap<&str, Option<String>> {
    let mut names = BTreeMap::new();
    for call in messages.iter().filter_map(|message| message.tool_calls.as_ref()).flatten() {
        if let Some(id) = call.id.as_deref().filter(|id| !id.is_empty()) {
            let name = call.parts().0;
            names.entry(id).and_modify(|known| *known = None).or_insert(Some(name.unwrap_or_default()));
        }
    }
    names
}

impl Call {
    /// Name and arguments, the latter as written.
    fn parts(&self) -> (Option<String>, Option<String>) {
        let arguments = self.arguments.as_deref().or(self.args.as_deref());
        let Some(function) = self.function.as_deref().map(RawValue::get) else { return (None, text_of(arguments)) };
        if function.starts_with('"') {
            return (serde_json::from_str(function).ok(), text_of(arguments));
        }
        match serde_json::from_str::<Function>(function) {
            Ok(function) => (function.name.clone(), function.arguments().or_else(|| text_of(arguments))),
            Err(_) => (None, text_of(arguments)),
        }
    }
}

impl Function {
    fn arguments(&self) -> Option<String> {
        text_of(self.arguments.as_deref().or(self.args.as_deref()))
    }
}

impl Part {
    fn is_reasoning(&self) -> bool {
        self.kind.contains("reasoning") || self.kind.contains("thinking")
    }

    /// Its text, whatever it is called.
    fn into_text(self) -> Option<String> {
        let said = [self.text, self.content, self.refusal, self.reasoning, self.thinking];
        said.into_iter().flatten().find(|text| !text.is_empty())
    }
}

/// A string's content, or any other value but null as it is written, without the blanks of a printer.
fn text_of(raw: Option<&RawValue>) -> Option<String> {
    let raw = raw?.get();
    match raw.as_bytes().first() {
        Some(b'n') => None,
        Some(b'"') => serde_json::from_str(raw).ok(),
        _ => Some(without_blanks(raw)),
    }
}

impl Message {
    /// Texts said aloud, and reasoning.
    fn spoken(&self) -> (Option<String>, Vec<String>) {
        let reasoning = text_of(self.reasoning.as_deref()).or_else(|| text_of(self.reasoning_content.as_deref()));
        let mut reasoning: Vec<String> = reasoning.into_iter().collect();
        let raw = self.content.as_deref();
        let parts =
            raw.filter(|raw| raw.get().starts_with('[')).map(|raw| serde_json::from_str::<Vec<Part>>(raw.get()));
        let mut said = match parts {
            Some(Ok(parts)) => {
                let mut texts = Vec::new();
                for part in parts {
                    let texts = if part.is_reasoning() { &mut reasoning } else { &mut texts };
                    texts.extend(part.into_text());
                }
                (!texts.is_empty()).then(|| texts.join("\n"))
            }
            Some(Err(_)) | None => text_of(raw),
        };
        if said.as_deref().is_none_or(str::is_empty) {
            said.clone_from(&self.refusal);
        }
        reasoning.retain(|text| !text.trim().is_empty());
        (said.filter(|text| !text.trim().is_empty()), reasoning)
    }

    fn left(&self, names: &BTreeMap<&str, Option<String>>) -> Vec<Left> {
        match self.role.as_str() {
            "assistant" | "model" => self.of_assistant(names),
            "tool" | "function" => vec![self.of_tool(names)],
            _ => Vec::new(),
        }
    }

    fn of_assistant(&self, names: &BTreeMap<&str, Option<String>>) -> Vec<Left> {
        let plain = |channel, text: String| Left {
            channel,
            payload: text.into(),
            status: Status::Ok,
            tool: None,
            event_id: None,
        };
        let (said, reasoning) = self.spoken();
        let mut left: Vec<Left> = reasoning.into_iter().map(|text| plain("rationale", text)).collect();
        let calls = self.tool_calls.as_deref().unwrap_or_default();
        let has_calls = !calls.is_empty() || self.function_call.as_deref().is_some_and(|call| call.get() != "null");
        match said {
            Some(text) => left.push(plain(if has_calls { "rationale" } else { "response" }, text)),
            None if has_calls => {}
            None => {
                left.push(Left {
                    payload: Payload::Absent,
                    status: Status::Missing,
                    ..plain("response", String::new())
                });
            }
        }
        for call in calls {
            let (tool, arguments) = call.parts();
            let id = call.id.as_deref().filter(|id| names.get(id).is_some_and(Option::is_some));
            left.push(Left::call(tool, arguments, id.map(str::to_owned)));
        }
        if let Some(Ok(call)) = self.function_call.as_deref().map(|call| serde_json::from_str::<Function>(call.get())) {
            left.push(Left::call(call.name.clone(), call.arguments(), None));
        }
        left
    }

    fn of_tool(&self, names: &BTreeMap<&str, Option<String>>) -> Left {
        let names_of_tool = [&self.function, &self.name];
        let name = names_of_tool.into_iter().flatten().find_map(Value::as_str).map(str::to_owned);
        let known = self.tool_call_id.as_deref().and_then(|id| Some((id, names.get(id)?.clone()?)));
        let (said, _) = self.spoken();
        let has_failed = match &self.error {
            Value::Null | Value::Bool(false) => false,
            Value::String(text) => !text.is_empty(),
            _ => true,
        };
        let status = match (&said, has_failed) {
            (_, true) => Status::Error,
            (None, false) => Status::Missing,
            (Some(_), false) => Status::Ok,
        };
        Left {
            channel: "tool_return",
            payload: said.map_or(Payload::Absent, Payload::from),
            status,
            tool: name.or_else(|| known.as_ref().map(|(_, name)| name.clone())),
            event_id: known.map(|(id, _)| format!("{id}/return")),
        }
    }
}

impl Left {
    fn call(tool: Option<String>, arguments: Option<String>, event_id: Option<String>) -> Self {
        let status = if arguments.is_some() { Status::Ok } else { Status::Missing };
        Self { channel: "tool_call", payload: arguments.map_or(Payload::Absent, Payload::from), status, tool, event_id }
    }
}
