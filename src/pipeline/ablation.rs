//! `topalign ablate`, and `topalign run` under several seeds: the pipeline once a variation and seed of training, and one table
//! of what came out.
//!
//! In: an [`Ablation`] and a folder. Out: in that folder `NAME/seed-S/`, a run folder each, `ablation.json`, and the page
//! `ablation.html`. A run starts from what the first variation left under the same seed, and that one under another seed from
//! its first, so that equal stages are made once: digests decide.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use candle_core::Device;

use super::{Options, run};
use crate::dataset::read_sft;
use crate::error::{Error, Result};
use crate::evaluate::{Spread, SystemRun, spread};
use crate::rank::Group;
use crate::recipe::Ablation;
use crate::report;
use crate::run::atomic;
use crate::run::seed::Seed;

/// Folders of a run that another seed of training has no use for.
const TRAINED: [&str; 2] = ["sft", "dpo"];

/// What is copied of another run.
#[derive(Clone, Copy)]
enum Kept {
    All,
    Untrained,
}

/// Runs every variation under every seed that is not complete, all ranks together, and gives the table.
///
/// # Errors
/// What a run returns; what was complete stays.
pub fn ablate(
    ablation: &Ablation,
    overrides: &[String],
    (folder, device): (&Path, &Device),
    (announce, group): (fn(&str), &dyn Group),
) -> Result<Vec<Spread>> {
    let place = |name: &str, seed: Seed| folder.join(name).join(format!("seed-{}", seed.0));
    let mut runs = Vec::new();
    let mut first: Option<(&str, Seed)> = None;
    for variation in &ablation.variations {
        for index in 0..ablation.seeds {
            let recipe = variation.recipe(index, overrides)?;
            let seed = recipe.training_seed();
            let own = place(&variation.name, seed);
            announce(&format!("{}, seed {}", variation.name, seed.0));
            if let Some((name, first_seed)) = first.filter(|_| group.is_first() && !own.exists()) {
                match place(name, seed) {
                    same if same.exists() => copy(&same, &own, Kept::All)?,
                    _ => copy(&place(name, first_seed), &own, Kept::Untrained)?,
                }
            }
            group.wait()?;
            let outcome = run(&recipe, &Options { folder: &own, force: &[], device, announce, group })?;
            runs.extend(SystemRun::of(&variation.name, seed, training_traces(&own)?, &outcome.summary));
            first = first.or(Some((&variation.name, seed)));
        }
    }
    let table = spread(&runs);
    if group.is_first() {
        let json = serde_json::to_vec_pretty(&table).map_err(|error| Error::Failed(error.to_string()))?;
        atomic::write(&folder.join("ablation.json"), &json)?;
        atomic::write(&folder.join("ablation.html"), report::render_ablation(&ablation.name, &table).as_bytes())?;
    }
    Ok(table)
}

/// Traces that gave the training rows of a run.
fn training_traces(run: &Path) -> Result<Option<usize>> {
    let file = run.join("data/sft.jsonl");
    if !file.is_file() {
        return Ok(None);
    }
    let traces: BTreeSet<String> = read_sft(&file)?.into_iter().filter_map(|row| row.trace_id).collect();
    Ok(Some(traces.len()))
}

/// Copies a run folder under a temporary name, then renames it.
fn copy(from: &Path, to: &Path, kept: Kept) -> Result<()> {
    let parent = to.parent().unwrap_or(Path::new(""));
    std::fs::create_dir_all(parent).map_err(|source| Error::write(parent, source))?;
    let mut partial = to.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    if partial.exists() {
        std::fs::remove_dir_all(&partial).map_err(|source| Error::write(&partial, source))?;
    }
    let left_out: &[&str] = match kept {
        Kept::All => &[],
        Kept::Untrained => &TRAINED,
    };
    copy_tree(from, &partial, left_out)?;
    std::fs::rename(&partial, to).map_err(|source| Error::write(to, source))
}

/// `left_out` are names in the folder itself.
fn copy_tree(from: &Path, to: &Path, left_out: &[&str]) -> Result<()> {
    std::fs::create_dir_all(to).map_err(|source| Error::write(to, source))?;
    for entry in std::fs::read_dir(from).map_err(|source| Error::read(from, source))? {
        let entry = entry.map_err(|source| Error::read(from, source))?;
        if left_out.iter().any(|name| entry.file_name() == *name) {
            continue;
        }
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if source.is_dir() {
            copy_tree(&source, &target, &[])?;
        } else {
            std::fs::copy(&source, &target).map_err(|error| Error::write(&target, error))?;
        }
    }
    Ok(())
}
