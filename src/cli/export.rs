//! `topalign export`: data and settings for other trainers.

use std::path::{Path, PathBuf};

use super::Console;
use crate::dataset::{read_preferences, read_sft};
use crate::error::{Fault, Result};
use crate::export::{Handover, TRL_OUTPUTS, write_trl};
use crate::recipe::Recipe;
use crate::run::atomic;

/// Arguments.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    target: Target,
}

#[derive(Debug, clap::Subcommand)]
enum Target {
    /// Data sets, configurations of `trl sft` and `trl dpo`, and one of accelerate with `DeepSpeed`.
    Trl(Trl),
}

#[derive(Debug, clap::Args)]
struct Trl {
    /// The recipe (TOML) whose settings are handed over.
    recipe: PathBuf,
    /// Folder with `sft.jsonl` and `dpo.jsonl`, as `topalign build` writes it [default: runs/NAME/data].
    #[arg(long)]
    data: Option<PathBuf>,
    /// The model as transformers loads it [default: the recipe's].
    #[arg(long)]
    model: Option<String>,
    /// The folder to write.
    #[arg(long)]
    out: PathBuf,
    /// Override a key of the recipe, e.g. `sft.epochs=2`.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    overrides: Vec<String>,
}

/// Runs the command.
///
/// # Errors
/// An invalid recipe or data, or what TRL cannot do.
pub fn run(arguments: &Arguments, console: Console) -> Result<()> {
    let Target::Trl(arguments) = &arguments.target;
    let recipe = Recipe::load(&arguments.recipe, &arguments.overrides)?;
    if recipe.sft.is_none() && recipe.dpo.is_none() {
        return Err(Fault::new("the recipe trains nothing").at(arguments.recipe.display()).into());
    }
    atomic::refuse_other_folder(&arguments.out, &TRL_OUTPUTS)?;
    let data = arguments.data.clone().unwrap_or_else(|| Path::new("runs").join(&recipe.name).join("data"));
    let sft = if recipe.sft.is_some() { read_sft(&data.join("sft.jsonl"))? } else { Vec::new() };
    let mut dpo = if recipe.dpo.is_some() { read_preferences(&data.join("dpo.jsonl"))? } else { Vec::new() };
    dpo.retain(|pair| recipe.dpo.as_ref().is_some_and(|settings| settings.takes(pair.kind)));
    let model = arguments.model.as_deref().unwrap_or(&recipe.model.source);
    let exported = write_trl(&arguments.out, &Handover { recipe: &recipe, model, sft: &sft, dpo: &dpo })?;
    let rows: Vec<String> = exported.rows.iter().map(|(file, rows)| format!("{file}: {rows} rows")).collect();
    let left_out: Vec<String> = exported.left_out.iter().map(|what| format!("\nleft out: {what}")).collect();
    console.print(&exported, &format!("{}: {}{}", arguments.out.display(), rows.join(", "), left_out.concat()))
}
