//! Batched decoding with a KV cache, and the two-stage protocol, on a model of this machine or behind an endpoint.
//!
//! In: a model, its tokenizer and traces. Out: [`crate::completion::Completion`]s, one for each trace, that say honestly how
//! each generation ended. What is drawn for a trace depends on the seed, the trace and the stage alone, never on what is
//! decoded beside it.

mod dealt;
mod decode;
mod decoder;
mod endpoint_agent;
mod local_chat;
mod output;
mod protocol;
mod sample;
mod tool_calling;

use crate::error::Result;
pub use crate::recipe::AgentProtocol;
pub use decode::{Ended, Generated, Prefix, Request, decode_all};
pub use endpoint_agent::EndpointAgent;
pub use local_chat::LocalChat;
pub use output::{Existing, Identity, Output, append_calls, read_calls, write_calls};
pub use protocol::Protocol;
pub use sample::Sampler;

/// What decoding needs of a model: its decoder with a cache, or a script in tests.
pub trait NextToken {
    /// What is kept of one running sequence; a copy goes its own way.
    type Cache: Clone;

    /// Most tokens that one sequence may hold, prompt included.
    fn context_length(&self) -> usize;

    /// Reads a prompt; returns its cache and the logits of the token after it. `[vocabulary]`
    ///
    /// # Errors
    /// [`crate::error::Error::Tensor`].
    fn start(&self, prompt: &[u32]) -> Result<(Self::Cache, Vec<f32>)>;

    /// Reads one more token of each sequence; returns the logits after each. `[sequences][vocabulary]`
    ///
    /// # Errors
    /// [`crate::error::Error::Tensor`].
    fn advance(&self, caches: &mut [&mut Self::Cache], tokens: &[u32]) -> Result<Vec<Vec<f32>>>;
}
