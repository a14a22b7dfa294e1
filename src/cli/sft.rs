//! `topalign sft`: supervised fine-tuning.

use super::Console;
pub use super::training::Arguments;
use crate::dataset::read_sft;
use crate::error::{Fault, Result};
use crate::train;

/// Runs the command.
///
/// # Errors
/// An invalid recipe or input, a failed or interrupted training.
pub fn run(arguments: &Arguments, console: Console) -> Result<()> {
    let training = arguments.resolve("sft")?;
    let Some(settings) = &training.recipe.sft else {
        return Err(Fault::new("the recipe has no `[sft]` section").into());
    };
    let manifest = train::sft(&training.job()?, &read_sft(&training.data)?, settings)?;
    training.finish(&manifest, console)
}
