//! `topalign validate`: check a recipe and print what it means.

use std::path::{Path, PathBuf};

use serde::Serialize;
use toml::Table;

use super::Console;
use crate::error::{Error, Result};
use crate::recipe::{Ablation, Recipe};
use crate::session::SessionRecipe;

/// Arguments.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The recipe (TOML): of a run, of sessions, or an ablation.
    recipe: PathBuf,
    /// Override a key of the recipe, e.g. `sft.epochs=2`.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    overrides: Vec<String>,
}

/// What a file of recipes is for, told by a table that only it has.
enum Kind {
    Run,
    Sessions,
    Ablation,
}

/// Runs the command.
///
/// # Errors
/// Every fault of the recipe at once.
pub fn run(arguments: &Arguments, console: Console) -> Result<()> {
    let Arguments { recipe: file, overrides } = arguments;
    match kind(file) {
        Kind::Run => print(&Recipe::load(file, overrides)?, console),
        Kind::Sessions => print(&SessionRecipe::load(file, overrides)?.settings, console),
        Kind::Ablation => {
            let ablation = Ablation::load(file, overrides)?;
            let names: Vec<&str> = ablation.variations.iter().map(|variation| variation.name.as_str()).collect();
            let text = format!("{} variations under {} seeds: {}", names.len(), ablation.seeds, names.join(", "));
            console.print(&names, &text)
        }
    }
}

/// A file that cannot be read or parsed is a run's, whose reader says what is wrong.
fn kind(file: &Path) -> Kind {
    let table = std::fs::read_to_string(file).ok().and_then(|text| text.parse::<Table>().ok()).unwrap_or_default();
    if table.contains_key("conditions") {
        Kind::Sessions
    } else if table.contains_key("variation") {
        Kind::Ablation
    } else {
        Kind::Run
    }
}

fn print<T: Serialize>(resolved: &T, console: Console) -> Result<()> {
    let text = toml::to_string_pretty(resolved).map_err(|error| Error::Failed(format!("no TOML form: {error}")))?;
    console.print(resolved, &text)
}
