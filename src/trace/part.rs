//! The two parts of a split.

use serde::{Deserialize, Serialize};

/// Part of the split.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// Used for training.
    Train,
    /// Never trained on.
    HeldOut,
}

impl Part {
    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::HeldOut => "held-out",
        }
    }
}
