//! `sft.parquet` and `dpo.parquet`: the rows of a data set for programs that read columns.
//!
//! In: pieces of a build. Out: two files. Parquet is a feature of its own, since its crate costs every build more than the rest
//! of this module together; without it, asking for the files is an error that says so.

use std::path::Path;

#[cfg(feature = "parquet")]
use crate::audit::Audited;
#[cfg(feature = "parquet")]
use crate::dataset::parquet::Table;
#[cfg(feature = "parquet")]
use crate::dataset::{PreferencePair, SftRow};
#[cfg(not(feature = "parquet"))]
use crate::error::Fault;
use crate::error::Result;

use super::Built;

/// The files' names, SFT rows first.
#[cfg(feature = "parquet")]
const NAMES: [&str; 2] = ["sft.parquet", "dpo.parquet"];

/// The two files, open.
#[cfg(feature = "parquet")]
pub(super) struct Sheets {
    sft: Table,
    pairs: Table,
}

#[cfg(feature = "parquet")]
impl Sheets {
    pub fn create(folder: &Path) -> Result<Self> {
        let sft = Table::create::<SftRow>(&folder.join(NAMES[0]))?;
        Ok(Self { sft, pairs: Table::create::<PreferencePair>(&folder.join(NAMES[1]))? })
    }

    /// Each piece is a row group.
    pub fn add(&mut self, built: &Built) -> Result<()> {
        self.sft.add(&built.sft.iter().map(Audited::row).collect::<Vec<_>>())?;
        self.pairs.add(&built.pairs.iter().map(Audited::row).collect::<Vec<_>>())
    }

    /// Completes the files; returns their names.
    pub fn finish(self) -> Result<[&'static str; 2]> {
        self.sft.finish()?;
        self.pairs.finish()?;
        Ok(NAMES)
    }
}

/// There are none in this build.
#[cfg(not(feature = "parquet"))]
pub(super) enum Sheets {}

#[cfg(not(feature = "parquet"))]
impl Sheets {
    pub fn create(_folder: &Path) -> Result<Self> {
        let fault = Fault::new("this build of the program writes no Parquet");
        Err(fault.at("parquet").hint("build it with `cargo build --release --features parquet`").into())
    }

    pub fn add(&mut self, _built: &Built) -> Result<()> {
        match *self {}
    }

    pub fn finish(self) -> Result<[&'static str; 2]> {
        match self {}
    }
}
