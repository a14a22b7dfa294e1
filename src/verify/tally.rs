//! What the verifier did over many observations.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Outcome, Rejected};

/// Counts over outcomes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Observations with open targets, all asked about.
    pub observations: usize,
    /// Requests made for them.
    pub requests: usize,
    /// Observations with a verdict on every open target.
    pub scored: usize,
    /// Observations without one.
    pub unscored: usize,
    /// Observations with a match.
    pub matched: usize,
    /// Accepted matches.
    pub matches: usize,
    /// Answers that were not accepted.
    pub rejected: Rejected,
    /// Why observations have no verdict, with their number.
    pub unscored_reasons: BTreeMap<String, usize>,
}

impl Tally {
    /// Adds up.
    pub fn of(outcomes: &[Outcome]) -> Self {
        let mut tally = Self { observations: outcomes.len(), ..Self::default() };
        for outcome in outcomes {
            tally.requests += outcome.requests;
            tally.matched += usize::from(!outcome.matches.is_empty());
            tally.matches += outcome.matches.len();
            tally.rejected += outcome.rejected;
            match &outcome.unscored {
                None => tally.scored += 1,
                Some(reason) => {
                    tally.unscored += 1;
                    *tally.unscored_reasons.entry(reason.clone()).or_default() += 1;
                }
            }
        }
        tally
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} texts asked about in {} requests: {} scored, {} unscored; {} matches in {} texts; rejected: {} ids outside the \
             batch, {} without a quote that the text holds",
            self.observations,
            self.requests,
            self.scored,
            self.unscored,
            self.matches,
            self.matched,
            self.rejected.outside_batch,
            self.rejected.unsupported,
        )?;
        for (reason, count) in &self.unscored_reasons {
            write!(formatter, "\nunscored by the verifier: {count} x {reason}")?;
        }
        Ok(())
    }
}
