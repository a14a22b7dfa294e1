//! A model's logits over given token ids, for comparing it with what other programs compute.
//!
//! ```text
//! cargo run --example logits -- MODEL [--adapter FOLDER] 1 17 4 ...
//! ```
//!
//! MODEL is a folder or a `.gguf` file. Out: one JSON array a token, `[tokens][vocabulary]`.

use std::path::PathBuf;

use candle_core::Device;
use clap::Parser;
use topalign::error::Result;
use topalign::model::{Decoder, ModelSource, Trainable, read_adapter};
use topalign::run::seed::Seed;
use topalign::token::PackedSequence;

#[derive(Debug, Parser)]
struct Arguments {
    /// A model folder, `.gguf` file or hub id.
    model: String,
    /// A PEFT folder, merged into the weights.
    #[arg(long)]
    adapter: Option<PathBuf>,
    /// Token ids, read as one sequence.
    #[arg(required = true)]
    tokens: Vec<u32>,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let (config, mut weights) = ModelSource::parse(&arguments.model)?.resolve()?.read(&Device::Cpu)?;
    if let Some(folder) = &arguments.adapter {
        let (adapter, tensors) = read_adapter(folder, &Device::Cpu)?;
        weights = weights.merge_adapter(&adapter, &tensors, &folder.display().to_string())?;
    }
    let decoder = Decoder::new(config, weights, &Trainable::Nothing, Seed(0), &Device::Cpu)?;
    let hidden = decoder.hidden_states(&PackedSequence::single(&arguments.tokens))?;
    let rows: Vec<u32> = (0..arguments.tokens.len() as u32).collect();
    for row in decoder.logits(&hidden, &rows)?.to_vec2::<f32>()? {
        println!("{}", serde_json::Value::from(row));
    }
    Ok(())
}
