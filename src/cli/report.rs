//! Scaffold of a command; replaced by its owner.

use super::Console;
use crate::error::{Error, Result};

/// Arguments.
#[derive(Debug, clap::Args)]
pub struct Arguments {}

/// Runs the command.
///
/// # Errors
/// Always, until written.
pub fn run(_arguments: &Arguments, _console: Console) -> Result<()> {
    Err(Error::Failed("this command is not written yet".to_owned()))
}
