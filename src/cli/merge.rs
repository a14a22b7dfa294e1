//! `topalign merge`: merge an adapter into its model.

use std::path::PathBuf;

use serde::Serialize;

use super::Console;
use crate::checkpoint;
use crate::error::Result;
use crate::model::ModelSource;

/// Arguments.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Model folder, .gguf file or hub id.
    #[arg(long)]
    model: String,
    /// PEFT adapter folder.
    #[arg(long)]
    adapter: PathBuf,
    /// Where the merged model folder goes.
    #[arg(long)]
    out: PathBuf,
}

#[derive(Serialize)]
struct Summary<'a> {
    out: &'a PathBuf,
}

/// Runs the command.
///
/// # Errors
/// A model or adapter that cannot be read or do not fit each other.
pub fn run(arguments: &Arguments, console: Console) -> Result<()> {
    let base = ModelSource::parse(&arguments.model)?.resolve()?;
    checkpoint::merge(&base.path, &arguments.adapter, &arguments.out)?;
    console.print(&Summary { out: &arguments.out }, &format!("merged model -> {}", arguments.out.display()))
}
