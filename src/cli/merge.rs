//! `topalign merge`: an adapter and its base become one model folder.

use std::path::{Path, PathBuf};

use super::Console;
use crate::checkpoint;
use crate::error::{Error, Fault, Result};
use crate::model::ModelSource;

/// Arguments.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The base: a folder, a .gguf file or a hub id.
    #[arg(long)]
    model: String,
    /// The adapter: a PEFT folder.
    #[arg(long)]
    adapter: PathBuf,
    /// The folder to write.
    #[arg(long)]
    out: PathBuf,
}

/// What was written.
#[derive(Debug, serde::Serialize)]
struct Merged {
    out: PathBuf,
    tensors: usize,
}

/// Merges and writes the model.
///
/// # Errors
/// A [`Fault`] for a base or an adapter that cannot be read or that do not fit; [`crate::error::Error::Write`].
pub fn run(arguments: &Arguments, console: Console) -> Result<()> {
    refuse_other_folder(&arguments.out)?;
    let base = ModelSource::parse(&arguments.model)?.resolve()?;
    let tensors = checkpoint::merge(&base.path, &arguments.model, &arguments.adapter, &arguments.out)?;
    let merged = Merged { out: arguments.out.clone(), tensors };
    console.print(&merged, &format!("{}: {} tensors", merged.out.display(), merged.tensors))
}

/// The output folder is replaced as a whole, so it must be new, empty, or a model folder.
fn refuse_other_folder(out: &Path) -> Result<()> {
    let mut entries = match std::fs::read_dir(out) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(Error::write(out, source)),
    };
    if entries.next().is_none() || out.join("config.json").is_file() {
        return Ok(());
    }
    Err(Fault::new("the output folder holds something that is not a model")
        .at(out.display())
        .expected("a new or empty folder, or an earlier model folder, which is replaced")
        .into())
}
