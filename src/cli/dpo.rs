//! `topalign dpo`: direct preference optimisation.

use super::Console;
pub use super::training::Arguments;
use crate::dataset::read_preferences;
use crate::error::{Fault, Result};
use crate::train;

/// Runs the command.
///
/// # Errors
/// An invalid recipe or input, a failed or interrupted training.
pub fn run(arguments: &Arguments, console: Console) -> Result<()> {
    let training = arguments.resolve("dpo")?;
    let Some(settings) = &training.recipe.dpo else {
        return Err(Fault::new("the recipe has no `[dpo]` section").into());
    };
    let manifest = train::dpo(&training.job()?, &read_preferences(&training.data)?, settings)?;
    training.finish(&manifest, console)
}
