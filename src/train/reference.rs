//! The reference's log-probabilities: computed once, cached in the run folder.
//!
//! Each tree is computed alone, so that its values depend on nothing but the tree and the model; the cache is good for as
//! long as both stay the same.

use std::collections::HashMap;
use std::path::Path;

use candle_core::{Device, Tensor};
use safetensors::SafeTensors;

use super::policy::{Pass, Policy};
use crate::error::{Error, Result};
use crate::rank::{self, Group};
use crate::run::atomic;
use crate::token::{Tree, pack};

const FILE: &str = "reference.safetensors";
const VALUES: &str = "log_probabilities";
const KEY: &str = "digest";

/// Computes what [`super::Preference::reference`] asks for: per tree, the log-probability of each trained token.
///
/// Trees are dealt out to the ranks, and every rank gets the values of all. `on_tree` is told after each tree of this rank how many it has
/// done, and may end the work.
///
/// # Errors
/// Tensor errors; [`Error::Failed`] naming the rows of a value that is not finite; what `on_tree` returns; as [`Group::gather`].
pub fn reference(
    policy: &dyn Policy,
    trees: &[Tree],
    group: &dyn Group,
    mut on_tree: impl FnMut(usize) -> Result<()>,
) -> Result<Vec<Vec<f32>>> {
    let weights: Vec<usize> = trees.iter().map(Tree::packed_tokens).collect();
    let mut done = 0;
    rank::dealt(group, &weights, |index| {
        let tree = &trees[index];
        // No graph is kept: the reference is never trained.
        let of_tree = policy.log_probabilities(&pack(&[tree]), Pass::Reference)?.detach().to_vec1::<f32>()?;
        if of_tree.iter().any(|value| !value.is_finite()) {
            let rows = tree.row_ids.join(", ");
            return Err(Error::Failed(format!("the reference's log-probabilities are not finite; rows: {rows}")));
        }
        done += 1;
        on_tree(done)?;
        Ok(of_tree)
    })
}

/// Reads cached values; `None` if there are none, or they are of another model or other data, or damaged.
pub fn read_cached(run_folder: &Path, digest: &str, trees: &[Tree]) -> Option<Vec<Vec<f32>>> {
    let bytes = std::fs::read(run_folder.join(FILE)).ok()?;
    let (_, metadata) = SafeTensors::read_metadata(&bytes).ok()?;
    if metadata.metadata().as_ref()?.get(KEY)? != digest {
        return None;
    }
    let tensors = candle_core::safetensors::load_buffer(&bytes, &Device::Cpu).ok()?;
    let flat: Vec<f32> = tensors.get(VALUES)?.to_vec1().ok()?;
    let mut rest = flat.as_slice();
    let mut values = Vec::with_capacity(trees.len());
    for tree in trees {
        let (of_tree, after) = rest.split_at_checked(pack(&[tree]).rows.len())?;
        values.push(of_tree.to_vec());
        rest = after;
    }
    (rest.is_empty() && flat.iter().all(|value| value.is_finite())).then_some(values)
}

/// Caches values for [`read_cached`].
///
/// # Errors
/// [`Error::Write`].
pub fn write_cached(run_folder: &Path, digest: &str, values: &[Vec<f32>]) -> Result<()> {
    let flat: Vec<f32> = values.iter().flatten().copied().collect();
    let tensor = Tensor::new(flat, &Device::Cpu)?;
    let metadata = HashMap::from([(KEY.to_owned(), digest.to_owned())]);
    let bytes = safetensors::serialize([(VALUES, &tensor)], Some(metadata))
        .map_err(|error| Error::Failed(format!("cannot write the reference's log-probabilities: {error}")))?;
    atomic::write(&run_folder.join(FILE), &bytes)
}
