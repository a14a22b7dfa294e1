//! `topalign run`: the whole pipeline from one recipe.

use std::path::{Path, PathBuf};

use super::Console;
use crate::device::{Compute, DeviceChoice};
use crate::error::{Fault, Result};
use crate::pipeline::{self, Options, STAGES};
use crate::recipe::Recipe;
use crate::report;

/// Arguments.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The recipe (TOML).
    recipe: PathBuf,
    /// Run folder [default: runs/NAME].
    #[arg(long)]
    out: Option<PathBuf>,
    /// Override a key of the recipe, e.g. `sft.epochs=2`.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    overrides: Vec<String>,
    /// Where to compute: auto, cpu, cuda:0 (or another number), cuda:all, metal [default: cpu].
    #[arg(long, value_name = "DEVICE")]
    device: Option<DeviceChoice>,
    /// Redo a stage even if it is complete.
    #[arg(long, value_name = "STAGE")]
    force: Vec<String>,
}

/// Runs the command.
///
/// # Errors
/// An invalid recipe, or whatever a stage returns.
pub fn run(arguments: &Arguments, console: Console) -> Result<()> {
    if let Some(unknown) = arguments.force.iter().find(|stage| !STAGES.contains(&stage.as_str())) {
        return Err(Fault::new("no such stage").at("--force").got(unknown).expected(STAGES.join(", ")).into());
    }
    let recipe = Recipe::load(&arguments.recipe, &arguments.overrides)?;
    let folder = arguments.out.clone().unwrap_or_else(|| Path::new("runs").join(&recipe.name));
    let device = Compute::open(arguments.device, recipe.model.dtype)?.device;
    let announce = |line: &str| eprintln!("{line}");
    let options = Options { folder: &folder, force: &arguments.force, device: &device, announce };
    let outcome = pipeline::run(&recipe, &options)?;
    let text = format!("{}\n\npage: {}", report::text_table(&outcome.summary), folder.join("report.html").display());
    console.print(&outcome, &text)
}
