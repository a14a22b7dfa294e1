//! Which parts of a text could hold a match at all.
//!
//! In: text. Out: windows; everything outside of them holds no match.

use std::ops::Range;

use super::equal::Values;
use super::partial::Parts;
use super::pattern::Pattern;
use super::wording::Wordings;
use crate::error::Result;

/// Finds windows.
#[derive(Debug, Clone)]
pub(super) struct Sieve;

impl Sieve {
    /// Prepares the sieve of a contract.
    ///
    /// # Errors
    /// Anchors too many to compile.
    #[allow(clippy::unnecessary_wraps)]
    pub fn new(_: &[Pattern], _: &[Pattern], _: &Wordings, _: &Values, _: &Parts) -> Result<Self> {
        Ok(Self)
    }

    /// The whole text.
    pub fn windows(&self, text: &str) -> Vec<Range<usize>> {
        vec![0..text.len()]
    }
}
