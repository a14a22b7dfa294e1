//! Tool calling by the endpoint's own means: the trace's tools are offered as functions, and a call returns what the trace has
//! for that tool, whatever its arguments.
//!
//! Tools that are called are the selection; text beside calls is read as the rationale, since whoever watches the agent sees it.

use serde_json::{Value, json};

use super::endpoint_agent::{EndpointAgent, fail, text_of};
use super::protocol::end;
use crate::completion::Completion;
use crate::endpoint::{CallError, ChatMessage, ChatRequest, ToolCall};
use crate::trace::Trace;
use crate::workspace::{function_name, function_schema};

/// Replies before the answer: an agent that calls for ever has none.
const MOST_ROUNDS: usize = 8;

const SYSTEM: &str = "Do what the user asks. Call the tools that the request needs, and only those; then answer from their results, \
    with every detail that the request asks for.";

impl EndpointAgent<'_> {
    /// Calls tools until the model answers.
    pub(super) fn answer_by_calling_tools(&self, trace: &Trace) -> Result<Completion, CallError> {
        let mut completion = self.blank(trace);
        let mut messages = vec![
            ChatMessage::system(format!("{SYSTEM}{}", self.mitigation.suffix())),
            ChatMessage::user(trace.goal.as_str()),
        ];
        let tools: Vec<Value> = trace.tools.iter().map(function_schema).collect();
        for round in 1..=MOST_ROUNDS {
            let name = format!("generate/{}/call/{round}", trace.trace_id);
            let request = ChatRequest {
                tools: tools.clone(),
                ..self.request(messages.clone(), self.settings.response_tokens, &name)
            };
            let reply = match self.chat.chat(&request) {
                Ok(reply) => reply,
                Err(error) => return fail(completion, &format!("round {round}"), error),
            };
            if reply.tool_calls.is_empty() {
                let (text, ended) = text_of(reply);
                end(&mut completion, text, &ended);
                completion.error = completion.error.map(|error| error.replace("stage 2", &format!("round {round}")));
                return Ok(completion);
            }
            if let Some(text) = reply.content.as_deref().map(str::trim).filter(|text| !text.is_empty()) {
                let rationale = completion.rationale.get_or_insert_default();
                rationale.push_str(if rationale.is_empty() { "" } else { "\n" });
                rationale.push_str(text);
            }
            messages.push(ChatMessage {
                role: "assistant".to_owned(),
                content: reply.content,
                tool_calls: reply.tool_calls.clone(),
                tool_call_id: None,
            });
            messages.extend(reply.tool_calls.iter().map(|call| answer_call(call, trace, &mut completion)));
        }
        completion.error = Some(format!("no answer within {MOST_ROUNDS} rounds of tool calls"));
        Ok(completion)
    }
}

/// The tool's result; a function that was not offered gets an error that says so, and selects nothing.
fn answer_call(call: &ToolCall, trace: &Trace, completion: &mut Completion) -> ChatMessage {
    let tool = trace.tools.iter().find(|tool| function_name(tool) == call.function.name);
    let arguments = serde_json::from_str(&call.function.arguments)
        .unwrap_or_else(|_| Value::String(call.function.arguments.clone()));
    let tool_id = tool.map(|tool| tool.tool_id.clone());
    completion.calls.push(json!({"tool_id": tool_id, "name": call.function.name, "arguments": arguments}));
    let Some(tool) = tool else { return ChatMessage::tool(call, r#"{"error": "no such tool"}"#) };
    if !completion.selected_tool_ids.contains(&tool.tool_id) {
        completion.selected_tool_ids.push(tool.tool_id.clone());
    }
    ChatMessage::tool(call, tool.return_text.as_str())
}
