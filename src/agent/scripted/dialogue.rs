//! A conversation of either runtime as request and steps.

use serde_json::Value;

use crate::agent::{function, text};
use crate::endpoint::{ChatMessage, ChatRequest};

/// Whose conversation it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// Runtime R.
    Text,
    /// Runtime F.
    Function,
    /// Runtime F's call without tools.
    Last,
}

/// One call and its result, both as text.
#[derive(Debug, Clone, Copy)]
pub struct Step<'r> {
    pub tool: &'r str,
    pub arguments: &'r str,
    pub result: &'r str,
}

/// The current request and what was done for it.
#[derive(Debug)]
pub struct Dialogue<'r> {
    pub protocol: Protocol,
    pub request: &'r str,
    pub steps: Vec<Step<'r>>,
    /// The system's turn, and the schemas on offer.
    system: &'r str,
    schemas: &'r [Value],
}

fn said(message: &ChatMessage) -> &str {
    message.content.as_deref().unwrap_or_default()
}

impl<'r> Dialogue<'r> {
    /// Reads the conversation from its end.
    pub fn read(request: &'r ChatRequest) -> Self {
        let messages = &request.messages;
        let system = messages.first().filter(|message| message.role == "system").map(said).unwrap_or_default();
        let protocol = match (request.tools.is_empty(), system.contains(text::INPUT)) {
            (true, true) => Protocol::Text,
            (true, false) => Protocol::Last,
            (false, _) => Protocol::Function,
        };
        let asks = |message: &ChatMessage| {
            let text = said(message);
            message.role == "user"
                && match protocol {
                    Protocol::Text => text.starts_with(text::REQUEST),
                    Protocol::Function | Protocol::Last => text != function::FINAL,
                }
        };
        let start = messages.iter().rposition(asks);
        let asked = start.map_or("", |start| said(&messages[start]));
        let rest = start.map_or(&[][..], |start| &messages[start + 1..]);
        let steps = if protocol == Protocol::Text { text_steps(rest) } else { function_steps(rest) };
        let request_text = asked.strip_prefix(text::REQUEST).unwrap_or(asked);
        Self { protocol, request: request_text, steps, system, schemas: &request.tools }
    }

    /// Parameter names of a tool in their order; `None` if it is not on offer.
    pub fn parameters(&self, tool: &str) -> Option<Value> {
        if let Some(schema) = self.schemas.iter().find(|schema| schema["function"]["name"] == tool) {
            return Some(schema["function"]["parameters"]["properties"].clone());
        }
        let start = format!("- {tool}: ");
        let line = self.system.lines().find(|line| line.starts_with(&start))?;
        let (_, schema) = line.rsplit_once(" Input: ")?;
        serde_json::from_str::<Value>(schema).ok().map(|schema| schema["properties"].clone())
    }

    /// Names of all tools.
    pub fn tools(&self) -> Vec<String> {
        let offered = self.schemas.iter().filter_map(|schema| schema["function"]["name"].as_str());
        let listed = self.system.lines().filter_map(|line| Some(line.strip_prefix("- ")?.split_once(": ")?.0));
        offered.chain(listed).map(str::to_owned).collect()
    }
}

fn text_steps(messages: &[ChatMessage]) -> Vec<Step<'_>> {
    messages.chunks(2).filter_map(text_step).collect()
}

/// An action and its observation.
fn text_step(pair: &[ChatMessage]) -> Option<Step<'_>> {
    let [action, result] = pair else { return None };
    let (_, call) = said(action).split_once(text::ACTION)?;
    let (tool, arguments) = call.split_once(text::INPUT)?;
    let result = said(result).strip_prefix(text::OBSERVATION)?;
    Some(Step { tool: tool.trim(), arguments: arguments.trim(), result })
}

fn function_steps(messages: &[ChatMessage]) -> Vec<Step<'_>> {
    let mut steps = Vec::new();
    for (place, message) in messages.iter().enumerate() {
        for (call, result) in message.tool_calls.iter().zip(&messages[place + 1..]) {
            steps.push(Step { tool: &call.function.name, arguments: &call.function.arguments, result: said(result) });
        }
    }
    steps
}
