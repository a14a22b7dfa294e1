//! `topalign sft`: supervised fine-tuning.

pub use super::training::Arguments;
use super::{Console, plan};
use crate::dataset::read_sft;
use crate::error::{Fault, Result};
use crate::rank::Group;
use crate::train::{self, Job, Rows};

/// Runs the command.
///
/// # Errors
/// An invalid recipe or input, a failed or interrupted training.
pub fn run(arguments: &Arguments, console: Console, group: &dyn Group) -> Result<()> {
    let training = arguments.resolve("sft", group.rank())?;
    let Some(settings) = &training.recipe.sft else {
        return Err(Fault::new("the recipe has no `[sft]` section").into());
    };
    let (rows, held_out) = training.rows(read_sft)?;
    let rows = Rows { train: &rows, held_out: &held_out };
    if arguments.is_dry_run() {
        if !group.is_first() {
            return Ok(());
        }
        return plan::print(&train::plan_sft(&training.job()?, rows, settings)?, console);
    }
    let job = Job { group, ..training.job()? };
    training.finish(&train::sft(&job, rows, settings)?, console, group)
}
