//! Live sessions: a probe agent asks a target agent in a workspace, and everything that passes is logged for the exposure analysis.
//!
//! In: a [`SessionRecipe`]. Out: a folder with frozen contracts, observations, candidates, actions, one row a session, the requests
//! that were asked, and the analysis with its page. Contracts are written before the first session begins.
//! Source: ASLEval, sections 3 to 5 (arXiv 2609.18864).
//!
//! A session depends on the recipe, its condition, item and repeat alone, whatever runs beside it. The same item and repeat have the
//! same draws under every condition, so that conditions are compared pair by pair.

mod files;
mod frontier;
mod known;
mod model;
mod play;
mod progress;
mod recipe;
mod row;
mod run;
mod settings;
mod slate;

pub use files::{Outcome, run};
pub use frontier::{FrontierRow, frontier, text_frontier};
pub use known::{KnownRow, known, text_known};
pub use model::{Model, Models};
pub use play::{Played, play};
pub use progress::{Existing, Progress};
pub use recipe::SessionRecipe;
pub use row::{RequestRow, SessionRow, SessionStatus, Slice};
pub use run::play_all;
pub use settings::{
    Condition, GuardSettings, LimitSettings, ModelSettings, ProbeKind, ProbeSettings, Settings, WorkspaceSettings,
};
pub use slate::{Item, Seat, Slate};
