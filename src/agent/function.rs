//! Runtime F: native function calls. The model calls functions, results come back as turns of role `tool`, and once it calls no
//! more, one dedicated call without tools asks for the answer.

use super::{Limits, Meter, Runtime, Tools, Turn, TurnEnd, Usage, said, shortened};
use crate::endpoint::{ChatMessage, ChatReply, ChatRequest, ReplyEnd};

const SYSTEM: &str = "You are an office assistant with access to a private workspace. Call the functions that the user's request \
    needs. When nothing is left to call, say so in one word.";

/// Asks for the answer when functions are no longer on offer.
pub(super) const FINAL: &str = "The functions are closed now. Write your final answer to the user.";

/// An agent that calls functions.
pub struct FunctionRuntime<'a> {
    meter: Meter<'a>,
    limits: Limits,
    seed: Option<u64>,
    history: Vec<ChatMessage>,
    /// Where each remembered request starts in the history.
    starts: Vec<usize>,
}

impl<'a> FunctionRuntime<'a> {
    /// An agent that remembers nothing yet.
    pub fn new(meter: Meter<'a>, limits: Limits, seed: Option<u64>) -> Self {
        Self { meter, limits, seed, history: Vec::new(), starts: Vec::new() }
    }

    /// Drops the oldest requests with everything that followed them, so that no result stands without its call.
    fn forget(&mut self) {
        let Some(cut) = self.starts.len().checked_sub(self.limits.memory).filter(|count| *count > 0) else { return };
        let bytes = self.starts.get(cut).copied().unwrap_or(self.history.len());
        self.history.drain(..bytes);
        self.starts.drain(..cut);
        self.starts.iter_mut().for_each(|start| *start -= bytes);
    }

    fn ask(&mut self, tools: Vec<serde_json::Value>) -> Result<ChatReply, crate::endpoint::CallError> {
        let mut messages = Vec::with_capacity(self.history.len() + 1);
        messages.push(ChatMessage::system(SYSTEM));
        messages.extend_from_slice(&self.history);
        self.meter.ask(&ChatRequest {
            temperature: self.limits.temperature,
            seed: self.seed,
            tools,
            ..ChatRequest::greedy(messages, self.limits.reply_tokens)
        })
    }

    /// Runs the calls of one reply.
    fn run(&mut self, mut reply: ChatReply, tools: &mut dyn Tools) {
        let most = self.limits.result_bytes;
        let calls = std::mem::take(&mut reply.tool_calls);
        let results: Vec<ChatMessage> = calls
            .iter()
            .map(|call| {
                let result = tools.call(&call.function.name, &call.function.arguments);
                ChatMessage::tool(call, shortened(&result, most))
            })
            .collect();
        let tool_calls = calls.into_iter().map(|mut call| {
            if call.function.arguments.len() > most {
                // A server would refuse cut JSON; what was written is in the log.
                "{}".clone_into(&mut call.function.arguments);
            }
            call
        });
        let assistant = ChatMessage {
            role: "assistant".to_owned(),
            content: reply.content,
            tool_calls: tool_calls.collect(),
            tool_call_id: None,
        };
        self.history.push(assistant);
        self.history.extend(results);
    }

    fn last_answer(&mut self, thoughts: Vec<String>) -> Turn {
        self.history.push(ChatMessage::user(FINAL));
        let reply = match self.ask(Vec::new()) {
            Ok(reply) => reply,
            Err(error) => return Turn::ended(thoughts, TurnEnd::Failed(error)),
        };
        let text = reply.content.unwrap_or_default();
        self.history.push(ChatMessage::new("assistant", shortened(&text, self.limits.result_bytes)));
        let end = if reply.end == ReplyEnd::Length { TurnEnd::Cut } else { TurnEnd::Answered };
        Turn { response: said(&text), thoughts, end }
    }
}

impl Runtime for FunctionRuntime<'_> {
    fn answer(&mut self, request: &str, tools: &mut dyn Tools) -> Turn {
        self.forget();
        self.starts.push(self.history.len());
        self.history.push(ChatMessage::user(request));
        let mut thoughts = Vec::new();
        for _ in 0..self.limits.steps {
            let reply = match self.ask(tools.schemas().to_vec()) {
                Ok(reply) => reply,
                Err(error) => return Turn::ended(thoughts, TurnEnd::Failed(error)),
            };
            thoughts.extend(reply.content.as_deref().map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned));
            if reply.tool_calls.is_empty() {
                return self.last_answer(thoughts);
            }
            self.run(reply, tools);
        }
        Turn::ended(thoughts, TurnEnd::Endless)
    }

    fn usage(&self) -> Usage {
        self.meter.usage()
    }
}
