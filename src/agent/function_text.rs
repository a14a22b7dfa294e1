//! Function calls for models that only write text: schemas go into the system turn, calls come back in `<tool_call>` tags. This is
//! how small instruction models were taught to call functions.

use serde_json::{Value, json};

use crate::endpoint::{CallError, Chat, ChatMessage, ChatReply, ChatRequest, Counts, ReplyEnd, ToolCall};

const OPEN: &str = "<tool_call>";
const CLOSE: &str = "</tool_call>";

/// A model of text behind the interface of function calls.
pub struct FunctionText<'a>(pub &'a (dyn Chat + Sync));

impl Chat for FunctionText<'_> {
    fn model(&self) -> &str {
        self.0.model()
    }

    fn chat(&self, request: &ChatRequest) -> Result<ChatReply, CallError> {
        let messages = request.messages.iter().map(|message| as_text(message, &request.tools)).collect();
        let mut reply = self.0.chat(&ChatRequest { messages, tools: Vec::new(), ..request.clone() })?;
        if request.tools.is_empty() {
            return Ok(reply);
        }
        let text = reply.content.take().unwrap_or_default();
        let (said, calls) = read(&text);
        if !calls.is_empty() {
            reply.end = ReplyEnd::ToolCalls;
        }
        reply.content = Some(said);
        reply.tool_calls = calls;
        Ok(reply)
    }

    fn counts(&self) -> Counts {
        self.0.counts()
    }
}

fn as_text(message: &ChatMessage, tools: &[Value]) -> ChatMessage {
    let content = message.content.clone().unwrap_or_default();
    match message.role.as_str() {
        "system" if !tools.is_empty() => {
            let list: Vec<String> = tools.iter().map(Value::to_string).collect();
            ChatMessage::system(format!(
                "{content}\n<tools>\n{}\n</tools>\nTo call functions, write {OPEN}{{\"name\": ..., \"arguments\": {{...}}}}{CLOSE} for each.",
                list.join("\n")
            ))
        }
        "assistant" => {
            let call = |call: &ToolCall| {
                let arguments: Value = serde_json::from_str(&call.function.arguments).unwrap_or(Value::Null);
                format!("{OPEN}{}{CLOSE}", json!({"name": call.function.name, "arguments": arguments}))
            };
            let calls: Vec<String> = message.tool_calls.iter().map(call).collect();
            ChatMessage::new("assistant", format!("{content}{}", calls.join("\n")))
        }
        "tool" => ChatMessage::user(format!("<tool_response>{content}</tool_response>")),
        role => ChatMessage::new(role, content),
    }
}

/// What stands outside the tags, and the calls inside them: an object or a list of objects each. A tag that cannot be read is a
/// call without a name, so that the model hears of it.
fn read(text: &str) -> (String, Vec<ToolCall>) {
    let mut said = String::new();
    let mut calls = Vec::new();
    let mut rest = text;
    while let Some((before, opened)) = rest.split_once(OPEN) {
        said.push_str(before);
        let (inside, after) = opened.split_once(CLOSE).unwrap_or((opened, ""));
        match serde_json::from_str(inside.trim()) {
            Ok(Value::Array(list)) => list.iter().for_each(|one| calls.push(call(calls.len(), one))),
            Ok(one) => calls.push(call(calls.len(), &one)),
            Err(_) => calls.push(tool_call(calls.len(), "", inside.trim().to_owned())),
        }
        rest = after;
    }
    said.push_str(rest);
    (said.trim().to_owned(), calls)
}

fn call(place: usize, value: &Value) -> ToolCall {
    let name = value.get("name").and_then(Value::as_str).unwrap_or_default();
    let arguments = match value.get("arguments") {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => "{}".to_owned(),
    };
    tool_call(place, name, arguments)
}

fn tool_call(place: usize, name: &str, arguments: String) -> ToolCall {
    ToolCall::new(format!("call-{place}"), name, arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_read_out_of_tags_and_unreadable_ones_have_no_name() {
        let (said, calls) = read(
            "Let me see. <tool_call>{\"name\": \"read\", \"arguments\": {\"id\": \"a\"}}</tool_call><tool_call>[{\"name\": \"x\"}]</tool_call><tool_call>{oops",
        );
        let named: Vec<(&str, &str)> =
            calls.iter().map(|call| (call.function.name.as_str(), call.function.arguments.as_str())).collect();
        assert_eq!(said, "Let me see.");
        assert_eq!(named, [("read", "{\"id\":\"a\"}"), ("x", "{}"), ("", "{oops")]);
    }
}
