//! `topalign check-device`: whether a device computes what the CPU computes.

use std::fmt::Write as _;
use std::num::NonZeroUsize;

use super::Console;
use crate::device::{Compute, DeviceChoice, NumberFormat};
use crate::error::{Error, Result};
use crate::model::ModelSource;
use crate::run::seed::Seed;
use crate::train::{Parity, Probe, compare};

/// Arguments.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Model folder, .gguf file or hub id.
    model: String,
    /// What to check: auto, cpu, cuda:0 (or another number), cuda:all, metal. On the CPU, the operations that GPUs take are
    /// checked against those of the CPU.
    #[arg(long, value_name = "DEVICE", default_value_t = DeviceChoice::Auto)]
    device: DeviceChoice,
    /// Number format of activations and matrix products on the device.
    #[arg(long, value_enum, default_value_t)]
    dtype: NumberFormat,
    /// Tokens of the pass that is compared.
    #[arg(long, default_value_t = NonZeroUsize::MIN.saturating_add(479))]
    tokens: NonZeroUsize,
    /// Seed of the tokens.
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

/// Runs the command.
///
/// # Errors
/// A device or model that is not there; [`Error::Gate`] if a quantity differs by more than the number format's rounding.
pub fn run(arguments: &Arguments, console: Console) -> Result<()> {
    let compute = Compute::open(Some(arguments.device), arguments.dtype, 0)?;
    let model = ModelSource::parse(&arguments.model)?.resolve()?;
    let probe = Probe { tokens: arguments.tokens, seed: Seed(arguments.seed) };
    let parity = compare(&model.path, &compute, probe)?;
    console.print(&parity, &text(&parity))?;
    if parity.holds() {
        return Ok(());
    }
    let beyond = parity.differences.iter().filter(|difference| !difference.is_within()).map(|row| row.quantity);
    let beyond = beyond.collect::<Vec<_>>().join(", ");
    Err(Error::Gate(format!(
        "{} differs from the CPU beyond {} rounding: {beyond}",
        parity.device,
        parity.dtype.name()
    )))
}

fn text(parity: &Parity) -> String {
    let mut text = format!(
        "{} in {} against the CPU in f32, {} tokens: CPU {:.1} s, device {:.1} s\n",
        parity.device,
        parity.dtype.name(),
        parity.tokens,
        parity.reference_seconds,
        parity.device_seconds
    );
    for row in &parity.differences {
        let tensor = row.tensor.as_deref().map_or_else(String::new, |name| format!("  {name}"));
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {:<26}{:>9.1e}  (limit {:.0e}){tensor}", row.quantity, row.relative, row.limit);
    }
    text
}
