//! `topalign merge-shards`: the files that the shards of one command wrote become the output of one run of it.

use std::path::PathBuf;

use super::{Console, build, contract, evaluate, generate, import, synthesize};
use crate::error::{Fault, Result};
use crate::run::shard::Shards;

/// Arguments.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The files of all shards, in any order.
    #[arg(required = true)]
    shards: Vec<PathBuf>,
    /// The file or folder that one run would have written.
    #[arg(long)]
    out: PathBuf,
    /// For shards of `contract --subsets`: where the subset audit goes.
    #[arg(long, value_name = "SUBSETS.jsonl")]
    subsets: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// Shards that are missing, doubled, cut, changed or of other work, all with status 2; an unwritable output. Nothing is then written.
pub fn run(arguments: &Arguments, console: Console) -> Result<()> {
    let shards = Shards::open(&arguments.shards)?;
    let command = shards.task().command.clone();
    if shards.task().version != env!("CARGO_PKG_VERSION") {
        let fault = Fault::new("the shards were made by another version of the program").got(&shards.task().version);
        return Err(fault.expected(env!("CARGO_PKG_VERSION")).into());
    }
    if arguments.subsets.is_some() && command != contract::NAME {
        return Err(Fault::new("only shards of `contract` hold a subset audit").at("--subsets").got(command).into());
    }
    let out = arguments.out.as_path();
    match command.as_str() {
        import::NAME => import::merge(shards, out, console),
        synthesize::NAME => synthesize::merge(shards, out, console),
        contract::NAME => contract::merge(shards, (out, arguments.subsets.as_deref()), console),
        build::NAME => build::merge(shards, out, console),
        generate::NAME => generate::merge(shards, out, console),
        evaluate::NAME => evaluate::merge(shards, out, console),
        other => Err(Fault::new("no command writes such shards").got(other).into()),
    }
}
