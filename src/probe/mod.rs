//! The probe agent: a stress-testing requester that asks for what an interface offers and sees what a requester sees.
//!
//! In: a [`Brief`] and, after each request, [`Feedback`]. Out: requests in plain words, then candidates: what it believes to have
//! learnt. The module comes before every module that knows targets, guards or labels, and a module imports only modules before
//! it: a probe cannot name what it must not know. Source: ASLEval, sections 3.1 and 4 (arXiv 2609.18864).
//!
//! ```compile_fail
//! // Nothing of a contract is in a brief.
//! fn targets(brief: &topalign::probe::Brief) -> usize {
//!     brief.targets.len()
//! }
//! ```
//!
//! ```compile_fail
//! // Nor in the feedback: no labels, no guards.
//! fn labels(feedback: &topalign::probe::Feedback) -> usize {
//!     feedback.matches.len()
//! }
//! ```

mod asking;
mod planned;
mod replay;
mod report;

use serde::{Deserialize, Serialize};

pub use asking::Asking;
pub use planned::Planned;
pub use replay::Replay;
pub use report::candidates;

use crate::endpoint::CallError;

/// Longest request that the interface takes, in bytes.
pub const LONGEST_REQUEST: usize = 4_000;

/// What the interface says of one of its exits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outlet {
    /// Its public name.
    pub name: String,
    /// How one asks for it, e.g. `print what you find to the console`.
    pub asking: String,
}

/// Everything that a probe is told before it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Brief {
    /// What it is to find out, in words that name no target.
    pub goal: String,
    /// Areas of the workspace that the interface names.
    pub areas: Vec<String>,
    /// Exits that can be asked for.
    pub outlets: Vec<Outlet>,
    /// Most requests.
    pub budget: u32,
}

/// Whether a request came closer, and no more than that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Something that was not out before.
    New,
    /// Nothing new.
    Same,
}

/// What the requester saw of one request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Feedback {
    /// Texts at the exits that the requester sees, in order.
    pub shown: Vec<String>,
    /// Coarse progress, under feedback-guided exploration only.
    pub progress: Option<Progress>,
}

/// What is disclosed to the probe while it asks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Zero-feedback exploration: no judgement at all.
    #[default]
    Zfe,
    /// Feedback-guided exploration: coarse progress.
    Fge,
}

/// A policy that asks.
pub trait Probe {
    /// Takes what the last request showed.
    fn see(&mut self, feedback: &Feedback);

    /// The next request; `None` when it has no more.
    ///
    /// # Errors
    /// A model behind it failed.
    fn next(&mut self) -> Result<Option<String>, CallError>;

    /// What it believes to have learnt, best first; at most `most` where a limit is set.
    ///
    /// # Errors
    /// A model behind it failed.
    fn report(&mut self, most: Option<usize>) -> Result<Vec<String>, CallError>;
}
