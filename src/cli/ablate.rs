//! `topalign ablate`: one recipe with parts of it changed or left out, under several seeds; one table.

use std::path::{Path, PathBuf};

use candle_core::Device;

use super::Console;
use super::run_pipeline::announcer;
use crate::device::DeviceChoice;
use crate::error::{Fault, Result};
use crate::pipeline;
use crate::rank::Group;
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
pub fn run(arguments: &Arguments, console: Console, group: &dyn Group) -> Result<()> {
    let mut ablation = Ablation::load(&arguments.ablation, &arguments.overrides)?;
    ablation.seeds = arguments.seeds.unwrap_or(ablation.seeds);
    if ablation.seeds == 0 {
        return Err(Fault::new("`--seeds` must be above 0").into());
    }
    let folder = arguments.out.clone().unwrap_or_else(|| Path::new("runs").join(&ablation.name));
    let device = arguments.device.unwrap_or_default().open(group.rank())?;
    run_all(&ablation, &arguments.overrides, (&folder, &device), (console, group))
}

/// Runs what is not complete and prints the table.
///
/// # Errors
/// Whatever a stage returns.
pub fn run_all(
    ablation: &Ablation,
    overrides: &[String],
    (folder, device): (&Path, &Device),
    (console, group): (Console, &dyn Group),
) -> Result<()> {
    let table = pipeline::ablate(ablation, overrides, (folder, device), (announcer(group), group))?;
    if !group.is_first() {
        return Ok(());
    }
    let text = format!("{}\npage: {}", report::ablation_table(&table), folder.join("ablation.html").display());
    console.print(&table, &text)
}
