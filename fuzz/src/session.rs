//! Of sessions, their recipes.

#[path = "../../src/session/recipe.rs"]
mod recipe;
#[path = "../../src/session/row.rs"]
mod row;
#[path = "../../src/session/settings.rs"]
mod settings;

pub use recipe::SessionRecipe;
pub use row::{RequestRow, SessionRow, SessionStatus, Slice};
pub use settings::{
    Condition, GuardSettings, LimitSettings, ModelSettings, ProbeKind, ProbeSettings, Settings, WorkspaceSettings,
};
