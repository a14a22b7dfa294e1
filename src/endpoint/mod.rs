//! A blocking client of OpenAI-compatible chat-completions endpoints.
//!
//! In: an [`EndpointSettings`] and [`ChatRequest`]s. Out: [`ChatReply`]s or [`CallError`]s that say what went wrong without a
//! word of what was asked, answered or authorised with; and [`Counts`]. What a caller needs of a model that chats is the trait
//! [`Chat`], so that a model of this machine or a script can stand in for a server.
//!
//! The key is read from an environment variable that the settings name, goes to that endpoint alone (redirects are not
//! followed), and is in no log, error or cache.

mod address;
mod answer;
mod cache;
mod call_error;
mod chat;
mod client;
mod count;
mod key;
mod pace;
mod parallel;
mod retry;
mod settings;

pub use address::Address;
pub use answer::read_answer;
pub use call_error::CallError;
pub use chat::{ChatMessage, ChatReply, ChatRequest, ReplyEnd, ToolCall};
pub use client::Client;
pub use count::Counts;
pub use key::KeyVariable;
pub use parallel::in_parallel;
pub use retry::{Backoff, read_retry_after};
pub use settings::{EndpointSettings, JsonMode, Prices, TokenLimitField};

/// A model that answers chat requests.
pub trait Chat {
    /// The model's name, as it stands beside its answers.
    fn model(&self) -> &str;

    /// Answers one request.
    ///
    /// # Errors
    /// [`CallError`]; the caller records it and never takes it for an answer.
    fn chat(&self, request: &ChatRequest) -> Result<ChatReply, CallError>;

    /// What was asked until now.
    fn counts(&self) -> Counts;
}
