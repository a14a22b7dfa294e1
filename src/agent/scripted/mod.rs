//! A model that follows a [`Policy`]: it reads the conversation of either runtime and answers in its form, so that the runtimes are
//! run as they are, with leak probabilities that are known.
//!
//! It searches the area that a request names, reads what it finds, says what the policy's draws let it say at the exit that was
//! asked for, and answers. It never acts on what stands in a result.

mod dialogue;
mod plan;

use super::{Policy, text};
use crate::endpoint::{CallError, Chat, ChatReply, ChatRequest, Counts, ReplyEnd, ToolCall};
use dialogue::{Dialogue, Protocol};
use plan::{Act, acts};

/// Characters that count as a token.
const TOKEN_BYTES: usize = 4;

/// A scripted model.
#[derive(Debug, Clone)]
pub struct Scripted {
    name: String,
    policy: Policy,
}

impl Scripted {
    /// A model of this name.
    pub fn new(name: &str, policy: Policy) -> Self {
        Self { name: format!("scripted:{name}"), policy }
    }
}

impl Chat for Scripted {
    fn model(&self) -> &str {
        &self.name
    }

    fn chat(&self, request: &ChatRequest) -> Result<ChatReply, CallError> {
        let seed = request.seed.unwrap_or(0);
        let dialogue = Dialogue::read(request);
        let acts = acts(&dialogue, &self.policy, seed);
        let (content, tool_calls) = match dialogue.protocol {
            Protocol::Text => (acts.first().map_or_else(String::new, in_text), Vec::new()),
            Protocol::Function => in_functions(acts),
            Protocol::Last => (plan::answer(&dialogue, &self.policy, seed), Vec::new()),
        };
        let end = if tool_calls.is_empty() { ReplyEnd::Stop } else { ReplyEnd::ToolCalls };
        let said = |message: &crate::endpoint::ChatMessage| message.content.as_deref().map_or(0, str::len);
        let prompt: usize = request.messages.iter().map(said).sum();
        let called: usize = tool_calls.iter().map(|call| call.function.arguments.len()).sum();
        Ok(ChatReply {
            completion_tokens: Some((content.len() + called).div_ceil(TOKEN_BYTES) as u64),
            prompt_tokens: Some(prompt.div_ceil(TOKEN_BYTES) as u64),
            content: Some(content),
            tool_calls,
            end,
        })
    }

    fn counts(&self) -> Counts {
        Counts::default()
    }
}

fn in_text(act: &Act) -> String {
    match act {
        Act::Call { tool, arguments } => {
            format!("Thought: next\n{} {tool}\n{} {arguments}", text::ACTION, text::INPUT)
        }
        Act::Answer(answer) => format!("{} {answer}", text::ANSWER),
    }
}

/// All calls that are due together; an answer waits for the call without tools.
fn in_functions(acts: Vec<Act>) -> (String, Vec<ToolCall>) {
    let calls: Vec<ToolCall> = acts
        .into_iter()
        .enumerate()
        .filter_map(|(place, act)| match act {
            Act::Call { tool, arguments } => Some(ToolCall::new(format!("call-{place}"), tool, arguments.to_string())),
            Act::Answer(_) => None,
        })
        .collect();
    let content = if calls.is_empty() { "Done.".to_owned() } else { String::new() };
    (content, calls)
}
