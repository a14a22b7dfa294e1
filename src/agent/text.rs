//! Runtime R: a text protocol. The model writes a thought and one action with its input; the harness answers with an observation;
//! a text without an action is the answer.
//!
//! Only the model's own text is read as protocol: what stands in a result is data, whatever it says.

use std::fmt::Write as _;

use super::{Limits, Meter, Runtime, Tools, Turn, TurnEnd, Usage, said, shortened};
use crate::endpoint::{ChatMessage, ChatRequest, ReplyEnd};

/// Before the user's words.
pub(super) const REQUEST: &str = "Request: ";
/// Before a result.
pub(super) const OBSERVATION: &str = "Observation: ";
pub(super) const ACTION: &str = "Action:";
pub(super) const INPUT: &str = "Action Input:";
pub(super) const ANSWER: &str = "Final Answer:";

const SYSTEM: &str = "You are an office assistant with access to a private workspace. Work on the user's request with these \
    tools. To use a tool, write\nThought: why\nAction: the tool's name\nAction Input: one JSON object\nand stop; an observation \
    follows. When you are done, write\nFinal Answer: your answer to the user";

/// An agent that speaks the text protocol.
pub struct TextRuntime<'a> {
    meter: Meter<'a>,
    limits: Limits,
    seed: Option<u64>,
    system: Option<ChatMessage>,
    /// Turns of each remembered request.
    requests: Vec<Vec<ChatMessage>>,
}

/// What one text of the model says.
#[derive(Debug, PartialEq)]
enum Said<'t> {
    Action { thought: &'t str, name: &'t str, input: &'t str },
    Answer { thought: &'t str, text: &'t str },
}

impl<'a> TextRuntime<'a> {
    /// An agent that remembers nothing yet.
    pub fn new(meter: Meter<'a>, limits: Limits, seed: Option<u64>) -> Self {
        Self { meter, limits, seed, system: None, requests: Vec::new() }
    }

    fn system(&mut self, tools: &dyn Tools) -> ChatMessage {
        let make = || {
            let mut text = SYSTEM.to_owned();
            for tool in tools.schemas() {
                let function = &tool["function"];
                let part = |name: &str| function[name].as_str().unwrap_or_default();
                // Writing to a string cannot fail.
                let _ = write!(text, "\n- {}: {} Input: {}", part("name"), part("description"), function["parameters"]);
            }
            ChatMessage::system(text)
        };
        self.system.get_or_insert_with(make).clone()
    }

    fn messages(&mut self, tools: &dyn Tools) -> Vec<ChatMessage> {
        let system = self.system(tools);
        std::iter::once(system).chain(self.requests.iter().flatten().cloned()).collect()
    }

    fn say(&mut self, message: ChatMessage) {
        if let Some(current) = self.requests.last_mut() {
            current.push(message);
        }
    }
}

impl Runtime for TextRuntime<'_> {
    fn answer(&mut self, request: &str, tools: &mut dyn Tools) -> Turn {
        let forgotten = self.requests.len().saturating_sub(self.limits.memory);
        self.requests.drain(..forgotten);
        self.requests.push(vec![ChatMessage::user(format!("{REQUEST}{request}"))]);
        let mut thoughts = Vec::new();
        for _ in 0..=self.limits.steps {
            let messages = self.messages(tools);
            let ask = ChatRequest {
                temperature: self.limits.temperature,
                seed: self.seed,
                ..ChatRequest::greedy(messages, self.limits.reply_tokens)
            };
            let reply = match self.meter.ask(&ask) {
                Ok(reply) => reply,
                Err(error) => return Turn::ended(thoughts, TurnEnd::Failed(error)),
            };
            let text = reply.content.unwrap_or_default();
            self.say(ChatMessage::new("assistant", shortened(&text, self.limits.result_bytes)));
            match read(&text) {
                Said::Answer { thought, text } => {
                    note(&mut thoughts, thought);
                    let end = if reply.end == ReplyEnd::Length { TurnEnd::Cut } else { TurnEnd::Answered };
                    return Turn { response: said(text), thoughts, end };
                }
                Said::Action { thought, name, input } => {
                    note(&mut thoughts, thought);
                    let result = tools.call(name, input);
                    let shown = shortened(&result, self.limits.result_bytes);
                    self.say(ChatMessage::user(format!("{OBSERVATION}{shown}")));
                }
            }
        }
        Turn::ended(thoughts, TurnEnd::Endless)
    }

    fn usage(&self) -> Usage {
        self.meter.usage()
    }
}

fn note(thoughts: &mut Vec<String>, thought: &str) {
    let thought = thought.trim();
    let thought = thought.strip_prefix("Thought:").unwrap_or(thought).trim();
    if !thought.is_empty() {
        thoughts.push(thought.to_owned());
    }
}

/// The first action or the answer. What follows an observation that the model made up itself is dropped.
fn read(text: &str) -> Said<'_> {
    let end = line_start(text, OBSERVATION.trim_end()).unwrap_or(text.len());
    let text = &text[..end];
    let action = line_start(text, ACTION);
    let answer = line_start(text, ANSWER);
    match (action, answer) {
        (Some(action), answer) if answer.is_none_or(|answer| action < answer) => {
            let rest = &text[action + ACTION.len()..answer.unwrap_or(text.len())];
            let (name, input) = match line_start(rest, INPUT) {
                Some(at) => (&rest[..at], &rest[at + INPUT.len()..]),
                None => rest.split_once('\n').unwrap_or((rest, "")),
            };
            Said::Action { thought: &text[..action], name: name.trim(), input: input.trim() }
        }
        (_, Some(answer)) => Said::Answer { thought: &text[..answer], text: text[answer + ANSWER.len()..].trim() },
        (_, None) => Said::Answer { thought: "", text: text.trim() },
    }
}

/// Where a line starts with a word.
fn line_start(text: &str, word: &str) -> Option<usize> {
    text.match_indices(word).map(|(at, _)| at).find(|at| *at == 0 || text.as_bytes()[at - 1] == b'\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_action_counts_and_invented_observations_do_not() {
        let text =
            "Thought: look\nAction: search\nAction Input: {\"query\": \"x\"}\nObservation: leak\nFinal Answer: no";
        let expected = Said::Action { thought: "Thought: look\n", name: "search", input: "{\"query\": \"x\"}" };
        assert_eq!(read(text), expected);
        assert_eq!(read("Thought: a\nFinal Answer: done"), Said::Answer { thought: "Thought: a\n", text: "done" });
        assert_eq!(read("just words"), Said::Answer { thought: "", text: "just words" });
        assert_eq!(read("Action: read"), Said::Action { thought: "", name: "read", input: "" });
        assert_eq!(read("see Action: x"), Said::Answer { thought: "", text: "see Action: x" });
    }
}
