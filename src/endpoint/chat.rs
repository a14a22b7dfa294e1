//! Requests and replies of the chat-completions protocol.
//!
//! In: messages, limits, tools. Out: the request's body, and the reading of a reply's.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{CallError, EndpointSettings, JsonMode, TokenLimitField};

/// One turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChatMessage {
    /// `system`, `user`, `assistant` or `tool`.
    pub role: String,
    /// What is said; absent in a turn that only calls tools.
    pub content: Option<String>,
    /// Tools that an assistant's turn calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// The call that a tool's turn answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
}

impl ChatMessage {
    /// A turn with text only.
    pub fn new(role: &str, content: impl Into<String>) -> Self {
        Self { role: role.to_owned(), content: Some(content.into()), tool_calls: Vec::new(), tool_call_id: None }
    }

    /// A system turn.
    pub fn system(content: impl Into<String>) -> Self {
        Self::new("system", content)
    }

    /// A user turn.
    pub fn user(content: impl Into<String>) -> Self {
        Self::new("user", content)
    }

    /// A tool's result.
    pub fn tool(call: &ToolCall, content: impl Into<String>) -> Self {
        Self { tool_call_id: Some(call.id.clone()), ..Self::new("tool", content) }
    }
}

/// One call of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Names the call in the tool's turn.
    #[serde(default)]
    pub id: String,
    /// Always `function`.
    #[serde(default = "function", rename = "type")]
    pub kind: String,
    /// What is called.
    pub function: ToolFunction,
}

fn function() -> String {
    "function".to_owned()
}

impl ToolCall {
    /// A call of a function.
    pub fn new(id: impl Into<String>, name: impl Into<String>, arguments: impl Into<String>) -> Self {
        let function = ToolFunction { name: name.into(), arguments: arguments.into() };
        Self { id: id.into(), kind: self::function(), function }
    }
}

/// A called function.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolFunction {
    /// Its name.
    pub name: String,
    /// Its arguments as JSON text, which the model wrote: it may be none.
    #[serde(default)]
    pub arguments: String,
}

/// What is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatRequest {
    /// The conversation.
    pub messages: Vec<ChatMessage>,
    /// Most tokens of the reply.
    pub token_limit: usize,
    /// 0 is greedy.
    pub temperature: f64,
    /// Share of the probability to draw from.
    pub top_p: Option<f64>,
    /// Seed of the draws, for servers that know it.
    pub seed: Option<u64>,
    /// Tool schemas on offer.
    pub tools: Vec<Value>,
    /// The reply is to be one JSON value of this schema.
    pub schema: Option<Value>,
}

impl ChatRequest {
    /// A greedy request without tools.
    pub fn greedy(messages: Vec<ChatMessage>, token_limit: usize) -> Self {
        Self { messages, token_limit, temperature: 0.0, top_p: None, seed: None, tools: Vec::new(), schema: None }
    }

    /// The same request for a reply that is one JSON value of a schema.
    #[must_use]
    pub fn for_json(self, schema: Value) -> Self {
        Self { schema: Some(schema), ..self }
    }

    /// The request's body: the same bytes for the same request.
    pub(super) fn body(&self, settings: &EndpointSettings) -> Vec<u8> {
        let mut body = Map::new();
        body.insert("model".to_owned(), json!(settings.model));
        body.insert("messages".to_owned(), json!(self.messages));
        match settings.token_limit_field {
            TokenLimitField::MaxTokens => {
                body.insert("max_tokens".to_owned(), json!(self.token_limit));
                body.insert("temperature".to_owned(), json!(self.temperature));
            }
            TokenLimitField::MaxCompletionTokens => {
                body.insert("max_completion_tokens".to_owned(), json!(self.token_limit));
            }
        }
        if let Some(top_p) = self.top_p {
            body.insert("top_p".to_owned(), json!(top_p));
        }
        if let Some(seed) = self.seed {
            // Many servers read it as a signed 32-bit number.
            body.insert("seed".to_owned(), json!(seed & 0x7fff_ffff));
        }
        if !self.tools.is_empty() {
            body.insert("tools".to_owned(), json!(self.tools));
        }
        if let Some(format) = self.schema.as_ref().and_then(|schema| response_format(settings.json_mode, schema)) {
            body.insert("response_format".to_owned(), format);
        }
        Value::Object(body).to_string().into_bytes()
    }
}

fn response_format(mode: JsonMode, schema: &Value) -> Option<Value> {
    match mode {
        JsonMode::Prompt => None,
        JsonMode::Object => Some(json!({"type": "json_object"})),
        JsonMode::Schema => {
            Some(json!({"type": "json_schema", "json_schema": {"name": "answer", "strict": true, "schema": schema}}))
        }
        JsonMode::ObjectSchema => Some(json!({"type": "json_object", "schema": schema})),
    }
}

/// How a reply ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplyEnd {
    /// The model ended its turn.
    Stop,
    /// Cut at the token limit.
    Length,
    /// The model calls tools.
    ToolCalls,
    /// The endpoint withheld text.
    Filtered,
    /// The endpoint does not say, or says something unknown.
    Unknown,
}

/// What came back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChatReply {
    /// The text, if any.
    pub content: Option<String>,
    /// Tools that the reply calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// How it ended.
    pub end: ReplyEnd,
    /// Tokens of the prompt as the endpoint counted them.
    pub prompt_tokens: Option<u64>,
    /// Tokens of the reply as the endpoint counted them.
    pub completion_tokens: Option<u64>,
}

impl ChatReply {
    /// The text of a reply that is whole.
    ///
    /// # Errors
    /// The reply was cut, filtered, does not say how it ended, or holds no text.
    pub fn whole(&self) -> Result<&str, CallError> {
        match (self.end, self.content.as_deref()) {
            (ReplyEnd::Length, _) => Err(CallError::Truncated),
            (ReplyEnd::Filtered, _) => Err(CallError::Filtered),
            (ReplyEnd::Unknown, _) => Err(CallError::Incomplete("it does not say how it ended")),
            (_, None) => Err(CallError::Incomplete("no text")),
            (ReplyEnd::Stop | ReplyEnd::ToolCalls, Some(text)) => Ok(text),
        }
    }

    /// Reads the body of a successful response.
    pub(super) fn read(body: &[u8]) -> Result<Self, CallError> {
        let value: Value = serde_json::from_slice(body).map_err(|_| CallError::NotJson)?;
        let form = |what| move || CallError::WrongForm(what);
        let choice = value.get("choices").and_then(|choices| choices.get(0)).ok_or_else(form("no choice"))?;
        let message = choice.get("message").and_then(Value::as_object).ok_or_else(form("no message"))?;
        let tool_calls = match message.get("tool_calls") {
            None | Some(Value::Null) => Vec::new(),
            Some(calls) => Vec::deserialize(calls).map_err(|_| CallError::WrongForm("unreadable tool calls"))?,
        };
        let tokens = |name: &str| value.get("usage").and_then(|usage| usage.get(name)).and_then(Value::as_u64);
        Ok(Self {
            content: content(message.get("content"))?,
            tool_calls,
            end: end(choice.get("finish_reason")),
            prompt_tokens: tokens("prompt_tokens"),
            completion_tokens: tokens("completion_tokens"),
        })
    }
}

/// Text, nothing, or a list of parts whose texts are joined.
fn content(value: Option<&Value>) -> Result<Option<String>, CallError> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(Value::Array(parts)) => {
            let texts: Option<String> = parts.iter().map(|part| part.get("text").and_then(Value::as_str)).collect();
            texts.map(Some).ok_or(CallError::WrongForm("a part of the content is no text"))
        }
        Some(_) => Err(CallError::WrongForm("the content is no text")),
    }
}

fn end(reason: Option<&Value>) -> ReplyEnd {
    match reason.and_then(Value::as_str) {
        Some("stop") => ReplyEnd::Stop,
        Some("length") => ReplyEnd::Length,
        Some("tool_calls" | "function_call") => ReplyEnd::ToolCalls,
        Some("content_filter") => ReplyEnd::Filtered,
        _ => ReplyEnd::Unknown,
    }
}
