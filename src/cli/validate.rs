//! `topalign validate`: check a recipe and print what it means.

use std::path::PathBuf;

use super::Console;
use crate::error::Result;
use crate::recipe::Recipe;

/// Arguments.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The recipe (TOML).
    recipe: PathBuf,
    /// Override a key of the recipe, e.g. `sft.epochs=2`.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    overrides: Vec<String>,
}

/// Runs the command.
///
/// # Errors
/// Every fault of the recipe at once.
pub fn run(arguments: &Arguments, console: Console) -> Result<()> {
    let recipe = Recipe::load(&arguments.recipe, &arguments.overrides)?;
    console.print(&recipe, &recipe.to_toml()?)
}
