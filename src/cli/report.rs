//! `topalign report`: render the page of a finished run.

use std::path::PathBuf;

use serde::Serialize;

use super::Console;
use crate::error::Result;
use crate::report::{collect, render};
use crate::run::atomic;

/// Arguments.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// A run folder, or the output folder of `topalign evaluate` or `topalign compare`.
    folder: PathBuf,
    /// Where the page goes; `report.html` in the folder if not given.
    #[arg(long)]
    out: Option<PathBuf>,
}

#[derive(Serialize)]
struct Written {
    page: PathBuf,
    systems: usize,
    examples: usize,
    bytes: usize,
}

/// Runs the command.
///
/// # Errors
/// A folder without an evaluation, unreadable files, an unwritable page.
pub fn run(arguments: &Arguments, console: Console) -> Result<()> {
    let page = collect(&arguments.folder)?;
    let html = render(&page);
    let path = arguments.out.clone().unwrap_or_else(|| arguments.folder.join("report.html"));
    atomic::write(&path, html.as_bytes())?;
    let written =
        Written { systems: page.summary.systems.len(), examples: page.examples.len(), bytes: html.len(), page: path };
    let text =
        format!("{} systems, {} example traces -> {}", written.systems, written.examples, written.page.display());
    console.print(&written, &text)
}
