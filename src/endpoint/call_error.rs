//! Why a call gave no usable reply. Its texts hold statuses and kinds, never what was sent or received.

use std::time::Duration;

/// What went wrong with a request, after all attempts.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CallError {
    /// No whole reply in time.
    #[error("no reply within {} s", .0.as_secs_f64())]
    Timeout(Duration),
    /// No connection, or it broke before the reply.
    #[error("no connection: {0}")]
    Connection(String),
    /// Another status than success.
    #[error("status {status}{}", describe(code.as_ref(), *retry_after))]
    Status {
        /// HTTP status.
        status: u16,
        /// The server's own short code, where it gives one.
        code: Option<String>,
        /// How long the server asked to wait.
        retry_after: Option<Duration>,
    },
    /// The endpoint sent elsewhere; the key and the prompt were not.
    #[error("status {0} redirects to another address, which is not followed")]
    Redirect(u16),
    /// The body ended before its length.
    #[error("the reply's body was cut")]
    Cut,
    /// The body is larger than any reply.
    #[error("the reply's body is larger than {0} bytes")]
    TooLarge(u64),
    /// The body is no JSON.
    #[error("the reply is not JSON")]
    NotJson,
    /// The body is JSON of another form.
    #[error("the reply is no chat completion: {0}")]
    WrongForm(&'static str),
    /// The text ends at the token limit.
    #[error("the reply was cut at the token limit")]
    Truncated,
    /// The endpoint withheld text.
    #[error("the endpoint filtered the reply")]
    Filtered,
    /// The reply does not say how it ended, or holds no text.
    #[error("the reply is incomplete: {0}")]
    Incomplete(&'static str),
    /// The endpoint failed so often in a row that it is asked no more.
    #[error("given up after {failures} failed requests in a row: {last}")]
    GivenUp {
        /// Requests that failed.
        failures: usize,
        /// What the last of them met.
        last: Box<CallError>,
    },
    /// A model of this machine failed; the text names the kind.
    #[error("the local model failed: {0}")]
    Local(String),
    /// The user asked to stop.
    #[error("interrupted")]
    Interrupted,
}

fn describe(code: Option<&String>, retry_after: Option<Duration>) -> String {
    let code = code.map_or_else(String::new, |code| format!(" ({code})"));
    let wait = retry_after.map_or_else(String::new, |wait| format!(", to be retried after {} s", wait.as_secs_f64()));
    format!("{code}{wait}")
}

impl CallError {
    /// Whether another attempt may go better.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Timeout(_) | Self::Connection(_) | Self::Cut | Self::NotJson => true,
            Self::Status { status, .. } => matches!(status, 408 | 409 | 425 | 429 | 500 | 502 | 503 | 504 | 529),
            _ => false,
        }
    }

    /// Whether it says something of the endpoint as a whole rather than of one request.
    pub(super) fn concerns_endpoint(&self) -> bool {
        match self {
            Self::Status { status, .. } => matches!(status, 401..=404 | 429) || *status >= 500,
            Self::Timeout(_) | Self::Connection(_) | Self::Redirect(_) | Self::NotJson | Self::Cut => true,
            _ => false,
        }
    }
}
