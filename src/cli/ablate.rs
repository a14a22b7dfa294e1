//! `topalign ablate`: one recipe with parts of it changed or left out, under several seeds; one table.

use std::path::{Path, PathBuf};

use super::Console;
use crate::device::DeviceChoice;
use crate::error::{Fault, Result};
use crate::pipeline;
use crate::recipe::Ablation;
use crate::report;

/// Arguments.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The ablation (TOML): a recipe and its variations.
    ablation: PathBuf,
    /// Seeds of training a variation [default: the file's].
    #[arg(long)]
    seeds: Option<u64>,
    /// Folder of the runs [default: runs/NAME].
    #[arg(long)]
    out: Option<PathBuf>,
    /// Where to compute: auto, cpu, cuda:0 (or another number), cuda:all, metal [default: cpu].
    #[arg(long, value_name = "DEVICE")]
    device: Option<DeviceChoice>,
    /// Override a key of the recipe in every variation, e.g. `sft.epochs=2`.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    overrides: Vec<String>,
}

/// Runs the command.
///
/// # Errors
/// An invalid ablation or recipe, or whatever a stage returns.
pub fn run(arguments: &Arguments, console: Console) -> Result<()> {
    let mut ablation = Ablation::load(&arguments.ablation, &arguments.overrides)?;
    ablation.seeds = arguments.seeds.unwrap_or(ablation.seeds);
    if ablation.seeds == 0 {
        return Err(Fault::new("`--seeds` must be above 0").into());
    }
    let folder = arguments.out.clone().unwrap_or_else(|| Path::new("runs").join(&ablation.name));
    let device = arguments.device.unwrap_or_default().open()?;
    let table = pipeline::ablate(&ablation, &arguments.overrides, (&folder, &device), |line| eprintln!("{line}"))?;
    console.print(&table, &report::ablation_table(&table))
}
