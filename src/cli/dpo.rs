//! `topalign dpo`: preference optimisation.

pub use super::training::Arguments;
use super::{Console, plan};
use crate::dataset::{read_preferences, read_unpaired};
use crate::error::{Fault, Result};
use crate::rank::Group;
use crate::train::{self, Job, Rows};

/// Runs the command.
///
/// # Errors
/// An invalid recipe or input, a failed or interrupted training.
pub fn run(arguments: &Arguments, console: Console, group: &dyn Group) -> Result<()> {
    let training = arguments.resolve("dpo", group.rank())?;
    let Some(settings) = &training.recipe.dpo else {
        return Err(Fault::new("the recipe has no `[dpo]` section").into());
    };
    let read = if settings.loss.is_paired() { read_preferences } else { read_unpaired };
    let (rows, held_out) = training.rows(read)?;
    let rows = Rows { train: &rows, held_out: &held_out };
    if arguments.is_dry_run() {
        if !group.is_first() {
            return Ok(());
        }
        return plan::print(&train::plan_dpo(&training.job()?, rows, settings)?, console);
    }
    let job = Job { group, ..training.job()? };
    training.finish(&train::dpo(&job, rows, settings)?, console, group)
}
