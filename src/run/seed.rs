//! All randomness: one seed, and a named `ChaCha8` stream for each use, so that adding a use never shifts another.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng as _;
use sha2::{Digest as _, Sha256};

/// The seed of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Seed(pub u64);

impl Seed {
    /// The generator for one use, e.g. `"split"` or `"order/epoch/3"`.
    pub fn stream(self, name: &str) -> ChaCha8Rng {
        let mut hasher = Sha256::new();
        hasher.update(self.0.to_le_bytes());
        hasher.update(name.as_bytes());
        ChaCha8Rng::from_seed(hasher.finalize().into())
    }
}
