//! `topalign merge`: an adapter and its base become one model folder, or a model is stored in another type.

use std::path::PathBuf;

use candle_core::DType;

use super::Console;
use crate::checkpoint;
use crate::error::Result;
use crate::model::ModelSource;
use crate::run::atomic;

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
/// A [`crate::error::Fault`] for a base or an adapter that cannot be read or that do not fit; [`crate::error::Error::Write`].
pub fn run(arguments: &Arguments, console: Console) -> Result<()> {
    atomic::refuse_other_folder(&arguments.out, &checkpoint::MERGED)?;
    let base = ModelSource::parse(&arguments.model)?.resolve()?;
    let dtype = arguments.dtype.unwrap_or_default().dtype();
    let tensors = checkpoint::merge(&base.path, &arguments.model, arguments.adapter.as_deref(), dtype, &arguments.out)?;
    let merged = Merged { out: arguments.out.clone(), tensors };
    console.print(&merged, &format!("{}: {} tensors", merged.out.display(), merged.tensors))
}
