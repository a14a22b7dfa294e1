//! `topalign ablate`: the pipeline once a variation and seed, and one table of what came out.
//!
//! In: an [`Ablation`] and a folder. Out: in that folder `NAME/seed-S/`, a run folder each, and `ablation.json`. A variation
//! starts from what the first one left under the same seed, so that equal stages are made once: digests decide.

use std::path::{Path, PathBuf};

use candle_core::Device;

use super::{Options, run};
use crate::error::{Error, Result};
use crate::evaluate::{Spread, SystemRun, spread};
use crate::recipe::{Ablation, Variation};
use crate::run::atomic;

/// Runs every variation under every seed that is not complete, and gives the table.
///
/// # Errors
/// What a run returns; what was complete stays.
pub fn ablate(
    ablation: &Ablation,
    overrides: &[String],
    (folder, device): (&Path, &Device),
    announce: fn(&str),
) -> Result<Vec<Spread>> {
    let mut runs = Vec::new();
    let mut before: Option<&Variation> = None;
    for variation in &ablation.variations {
        for index in 0..ablation.seeds {
            let recipe = variation.recipe(index, overrides)?;
            let place = |variation: &Variation| folder.join(&variation.name).join(format!("seed-{}", recipe.seed.0));
            let own = place(variation);
            announce(&format!("{}, seed {}", variation.name, recipe.seed.0));
            if let Some(before) = before.filter(|_| !own.exists()) {
                copy(&place(before), &own)?;
            }
            let outcome = run(&recipe, &Options { folder: &own, force: &[], device, announce })?;
            runs.extend(SystemRun::of(&variation.name, recipe.seed, &outcome.summary));
        }
        before = before.or(Some(variation));
    }
    let table = spread(&runs);
    let json = serde_json::to_vec_pretty(&table).map_err(|error| Error::Failed(error.to_string()))?;
    atomic::write(&folder.join("ablation.json"), &json)?;
    Ok(table)
}

/// Copies a run folder under a temporary name, then renames it.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let parent = to.parent().unwrap_or(Path::new(""));
    std::fs::create_dir_all(parent).map_err(|source| Error::write(parent, source))?;
    let mut partial = to.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    if partial.exists() {
        std::fs::remove_dir_all(&partial).map_err(|source| Error::write(&partial, source))?;
    }
    copy_tree(from, &partial)?;
    std::fs::rename(&partial, to).map_err(|source| Error::write(to, source))
}

fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to).map_err(|source| Error::write(to, source))?;
    for entry in std::fs::read_dir(from).map_err(|source| Error::read(from, source))? {
        let entry = entry.map_err(|source| Error::read(from, source))?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if source.is_dir() {
            copy_tree(&source, &target)?;
        } else {
            std::fs::copy(&source, &target).map_err(|error| Error::write(&target, error))?;
        }
    }
    Ok(())
}
