//! `recipe.resolved.toml` of a training run: the recipe that started it, with no default left implicit.

use std::path::Path;

use crate::error::Result;
use crate::recipe::Recipe;
use crate::run::{atomic, digest};

/// File name in the run folder.
pub const RESOLVED: &str = "recipe.resolved.toml";

/// The recipe of a run: its text, as it stands beside the results, and its digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedRecipe {
    text: String,
    digest: String,
}

impl ResolvedRecipe {
    /// Writes a recipe out. `given` are files and folders for which recipes have no key, such as the rows, with what they are: they
    /// stand in the text as comments, so that it stays a recipe, and their content is told by the manifest's `inputs`.
    ///
    /// # Errors
    /// [`crate::error::Error::Failed`] if a value has no TOML form.
    pub fn new(recipe: &Recipe, given: &[(&str, &Path)]) -> Result<Self> {
        // Written as a string is, since a path may hold a line break.
        let comments = given.iter().map(|(name, path)| format!("# {name}: {:?}\n", path.display().to_string()));
        let text = comments.chain([recipe.to_toml()?]).collect();
        Ok(Self { text, digest: digest::of_value(recipe)? })
    }

    /// The digest of what the recipe means, comments aside.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Writes it into the run folder.
    ///
    /// # Errors
    /// [`crate::error::Error::Write`].
    pub fn write(&self, run_folder: &Path) -> Result<()> {
        atomic::write(&run_folder.join(RESOLVED), self.text.as_bytes())
    }
}
