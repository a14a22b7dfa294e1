//! `topalign merge`: an adapter and its base become one model folder, or a model is stored in another type.

use std::path::{Path, PathBuf};

use candle_core::DType;

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
    /// The adapter: a PEFT folder. Without one, the model is only stored anew.
    #[arg(long, required_unless_present = "dtype")]
    adapter: Option<PathBuf>,
    /// What the weights are stored as.
    #[arg(long, value_enum)]
    dtype: Option<Stored>,
    /// The folder to write.
    #[arg(long)]
    out: PathBuf,
}

/// A type that weights are stored as.
#[derive(Debug, Clone, Copy, Default, clap::ValueEnum)]
enum Stored {
    /// Four bytes a weight.
    #[default]
    Float32,
    /// Two bytes a weight, with the range of `float32` and eight bits of precision.
    Bfloat16,
}

impl Stored {
    fn dtype(self) -> DType {
        match self {
            Self::Float32 => DType::F32,
            Self::Bfloat16 => DType::BF16,
        }
    }
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
    let dtype = arguments.dtype.unwrap_or_default().dtype();
    let tensors = checkpoint::merge(&base.path, &arguments.model, arguments.adapter.as_deref(), dtype, &arguments.out)?;
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
