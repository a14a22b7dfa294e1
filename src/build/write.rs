//! The data set's folder, written whole or not at all.
//!
//! In: [`Built`] and the digests of what it was built from. Out: `sft.jsonl`, `dpo.jsonl`, `audit.jsonl`, `quarantine.jsonl`,
//! `README.md` and, last, `manifest.json`. Only audited rows can come here: [`Built`] holds no others.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use crate::error::{Error, Result};
use crate::run::seed::Seed;
use crate::run::{atomic, digest, jsonl};

use super::card::card;
use super::{Built, Counts, Writer};

/// What the data set was built from: digests by role, e.g. `traces`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Inputs(pub BTreeMap<String, String>);

#[derive(Serialize)]
struct Manifest<'a> {
    version: &'static str,
    writer: Writer,
    seed: Seed,
    inputs: &'a Inputs,
    outputs: BTreeMap<&'static str, String>,
    counts: &'a Counts,
    notes: [&'static str; 2],
}

const NOTES: [&str; 2] = [
    "held-out traces give no SFT row and no preference pair",
    "only rows whose audit passed are in sft.jsonl and dpo.jsonl; everything else is in quarantine.jsonl",
];

/// Writes the folder; what was there before is replaced only once all of the new is complete.
///
/// # Errors
/// [`Error::Write`] with the path.
pub fn write(folder: &Path, built: &Built, counts: &Counts, inputs: &Inputs, writer: Writer, seed: Seed) -> Result<()> {
    atomic::write_folder(folder, |folder| {
        jsonl::write(&folder.join("sft.jsonl"), &built.sft)?;
        jsonl::write(&folder.join("dpo.jsonl"), &built.pairs)?;
        jsonl::write(&folder.join("audit.jsonl"), &built.audits)?;
        jsonl::write(&folder.join("quarantine.jsonl"), &built.quarantine)?;
        atomic::write(&folder.join("README.md"), card(counts, writer, seed.0).as_bytes())?;
        let mut names = vec!["sft.jsonl", "dpo.jsonl", "audit.jsonl", "quarantine.jsonl", "README.md"];
        if !built.selection_pairs.is_empty() {
            jsonl::write(&folder.join("dpo-selection.jsonl"), &built.selection_pairs)?;
            names.push("dpo-selection.jsonl");
        }
        let mut outputs = BTreeMap::new();
        for name in names {
            outputs.insert(name, digest::of_file(&folder.join(name))?);
        }
        let version = env!("CARGO_PKG_VERSION");
        let manifest = Manifest { version, writer, seed, inputs, outputs, counts, notes: NOTES };
        let text = serde_json::to_string_pretty(&manifest).map_err(|error| Error::Failed(error.to_string()))?;
        atomic::write(&folder.join("manifest.json"), format!("{text}\n").as_bytes())
    })
}
