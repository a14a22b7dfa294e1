//! `topalign run`: the whole pipeline from one recipe, under one seed of training or several.

use std::path::{Path, PathBuf};

use super::Console;
use crate::device::{Compute, DeviceChoice};
use crate::error::{Fault, Result};
use crate::pipeline::{self, Options, STAGES};
use crate::rank::Group;
use crate::recipe::{Ablation, Recipe};
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
    /// Train under so many seeds, on the same rows and judged on the same traces; the table shows the spread between them.
    #[arg(long, value_name = "COUNT", conflicts_with = "force")]
    seeds: Option<u64>,
}

/// Runs the command.
///
/// # Errors
/// An invalid recipe, or whatever a stage returns.
pub fn run(arguments: &Arguments, console: Console, group: &dyn Group) -> Result<()> {
    if let Some(unknown) = arguments.force.iter().find(|stage| !STAGES.contains(&stage.as_str())) {
        return Err(Fault::new("no such stage").at("--force").got(unknown).expected(STAGES.join(", ")).into());
    }
    let recipe = Recipe::load(&arguments.recipe, &arguments.overrides)?;
    let folder = arguments.out.clone().unwrap_or_else(|| Path::new("runs").join(&recipe.name));
    let device = Compute::open(arguments.device, recipe.model.dtype, group.rank())?.device;
    if let Some(seeds) = arguments.seeds {
        if seeds == 0 {
            return Err(Fault::new("`--seeds` must be above 0").into());
        }
        let ablation = Ablation::of_seeds(&arguments.recipe, &recipe.name, seeds);
        return super::ablate::run_all(&ablation, &arguments.overrides, (&folder, &device), (console, group));
    }
    let announce = announcer(group);
    let options = Options { folder: &folder, force: &arguments.force, device: &device, announce, group };
    let outcome = pipeline::run(&recipe, &options)?;
    if !group.is_first() {
        return Ok(());
    }
    let text = format!("{}\n\npage: {}", report::text_table(&outcome.summary), folder.join("report.html").display());
    console.print(&outcome, &text)
}

/// Tells on stderr what goes on; ranks after the first are silent.
pub fn announcer(group: &dyn Group) -> fn(&str) {
    if group.is_first() { |line| eprintln!("{line}") } else { |_| {} }
}
