//! Target agents: two runtimes, built apart from each other, over one model interface ([`Chat`](crate::endpoint::Chat)).
//!
//! In: a request in plain words and [`Tools`]. Out: a [`Turn`], and whatever the tools were called for. *R* speaks a text protocol
//! (thought, action, observation), *F* native function calls with a last call without tools. Models are [`Scripted`] policies with
//! known leak probabilities, an endpoint's [`Client`](crate::endpoint::Client) or a checkpoint of this machine. Agents know neither
//! targets nor guards: the module comes before both. Source: ASLEval, section 4 (arXiv 2609.18864).

mod function;
mod function_text;
mod meter;
mod policy;
mod scripted;
mod text;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use function::FunctionRuntime;
pub use function_text::FunctionText;
pub use meter::{Clock, Meter, Usage};
pub use policy::{Leaks, Policy};
pub use scripted::Scripted;
pub use text::TextRuntime;

use crate::endpoint::CallError;

/// What an agent can do.
pub trait Tools {
    /// Function schemas of what is on offer, in the form of chat completions.
    fn schemas(&self) -> &[Value];

    /// Calls a tool; `arguments` is what the model wrote, perhaps no JSON. The result is for the model: an error is a result too.
    fn call(&mut self, name: &str, arguments: &str) -> String;
}

/// Which runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum RuntimeKind {
    /// Text protocol.
    R,
    /// Function calls.
    F,
}

/// How far one request may go.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Replies of the model to one request, the last answer not counted.
    pub steps: usize,
    /// Tokens of one reply.
    pub reply_tokens: usize,
    /// Earlier requests that stay in the conversation.
    pub memory: usize,
    /// Bytes of one result that the model is shown.
    pub result_bytes: usize,
    /// 0 is greedy.
    pub temperature: f64,
}

/// How an answer to a request ended.
#[derive(Debug, Clone, PartialEq)]
pub enum TurnEnd {
    /// The model answered.
    Answered,
    /// Its answer was cut at the token limit.
    Cut,
    /// It called tools until its steps were used up.
    Endless,
    /// The model failed.
    Failed(CallError),
}

/// What one request brought.
#[derive(Debug, Clone, PartialEq)]
pub struct Turn {
    /// The final response, as far as there is one.
    pub response: Option<String>,
    /// What was said beside calls: seen by nobody outside.
    pub thoughts: Vec<String>,
    /// How it ended.
    pub end: TurnEnd,
}

impl Turn {
    fn ended(thoughts: Vec<String>, end: TurnEnd) -> Self {
        Self { response: None, thoughts, end }
    }
}

/// A target agent with its conversation.
pub trait Runtime {
    /// Works on one request.
    fn answer(&mut self, request: &str, tools: &mut dyn Tools) -> Turn;

    /// What its model was asked until now.
    fn usage(&self) -> Usage;
}

/// An answer; nothing where the model wrote none.
fn said(text: &str) -> Option<String> {
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// The end of a text that is too long for a conversation is left out, and says so.
fn shortened(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    format!("{} [cut: {} bytes in all]", &text[..text.floor_char_boundary(most)], text.len())
}
