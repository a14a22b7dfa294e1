//! A step's trees dealt into micro-batches that fit one forward and backward pass.

use candle_core::Device;

use crate::rank::{self, Group};
use crate::token::{Packed, Tree, pack};

/// Tokens of one pass unless a job says otherwise: enough to keep the matrix kernels busy, little enough for a few GB.
pub const TOKENS_PER_PASS: usize = 2048;

/// Tokens of one pass on this device: a GPU needs more of them to be busy.
pub fn tokens_per_pass(device: &Device) -> usize {
    if device.is_cpu() { TOKENS_PER_PASS } else { 4 * TOKENS_PER_PASS }
}

/// Trees that one pass computes together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MicroBatch {
    /// Indices of the trees, in packing order.
    pub units: Vec<usize>,
    /// Their tokens, packed.
    pub packed: Packed,
}

impl MicroBatch {
    /// Packs the trees of `units`.
    pub fn new(trees: &[Tree], units: Vec<usize>) -> Self {
        let chosen: Vec<&Tree> = units.iter().filter_map(|&unit| trees.get(unit)).collect();
        Self { packed: pack(&chosen), units }
    }
}

/// Which of a step's `units` this rank computes, in their order: tokens are dealt out evenly.
pub(super) fn share_of(trees: &[Tree], units: &[usize], group: &dyn Group) -> Vec<usize> {
    let weights: Vec<usize> = units.iter().map(|&unit| trees.get(unit).map_or(0, Tree::packed_tokens)).collect();
    let shares = rank::deal(&weights, group.size());
    shares.get(group.rank()).into_iter().flatten().map(|&place| units[place]).collect()
}

/// Deals `units` in their order into passes of at most `budget` tokens; a tree above the budget gets a pass of its own.
pub fn deal(trees: &[Tree], units: &[usize], budget: usize) -> Vec<MicroBatch> {
    let mut passes: Vec<Vec<usize>> = Vec::new();
    let mut tokens = 0;
    for &unit in units {
        let more = trees.get(unit).map_or(0, Tree::packed_tokens);
        match passes.last_mut() {
            Some(pass) if tokens + more <= budget => pass.push(unit),
            _ => {
                passes.push(vec![unit]);
                tokens = 0;
            }
        }
        tokens += more;
    }
    passes.into_iter().map(|units| MicroBatch::new(trees, units)).collect()
}
