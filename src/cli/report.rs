//! `topalign report`: the page of a run folder.

use std::path::PathBuf;

use serde::Serialize;

use super::Console;
use crate::error::Result;
use crate::report::{FILE, collect, render};
use crate::run::atomic;

/// Arguments.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// A folder that `topalign run` or `topalign evaluate` wrote.
    run: PathBuf,
    /// Where the page goes [default: report.html in the folder].
    #[arg(long)]
    out: Option<PathBuf>,
}

#[derive(Serialize)]
struct Outcome {
    page: PathBuf,
    bytes: usize,
    absent: Vec<String>,
}

/// Runs the command.
///
/// # Errors
/// A folder that holds nothing of a run, an unreadable piece, an unwritable page.
pub fn run(arguments: &Arguments, console: Console) -> Result<()> {
    let page = collect(&arguments.run)?;
    let out = arguments.out.clone().unwrap_or_else(|| arguments.run.join(FILE));
    let html = render(&page);
    atomic::write(&out, html.as_bytes())?;
    let outcome = Outcome { page: out, bytes: html.len(), absent: page.absent };
    let absent =
        if outcome.absent.is_empty() { String::new() } else { format!("\nabsent: {}", outcome.absent.join("; ")) };
    console.print(&outcome, &format!("{} ({} bytes){absent}", outcome.page.display(), outcome.bytes))
}
