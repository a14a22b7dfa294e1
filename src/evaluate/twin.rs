//! Twins: social-context variants against the base traces that they are made of, paired within one system.
//!
//! In: verdicts of one system. Out: [`Twins`]: does an innocent reading at hand change what is completed or leaked? Twins test
//! robustness and give no permission: labels stay. Where a twin's edited results lack what success needs, completion is not
//! comparable; such traces show in its contrast and nowhere else.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::contrast::{Contrast, by_key, every_metric};
use super::rates::{Rates, rates};
use super::verdict::Verdict;
use crate::statistic::Resampling;
use crate::trace::Variant;

/// Social-context twins beside their bases.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Twins {
    /// Traces answered in both variants.
    pub pairs: usize,
    /// Rates of their base variants.
    pub base: Option<Rates>,
    /// Rates of their social-context variants.
    pub social_context: Option<Rates>,
    /// Social context minus base, a metric each.
    pub contrasts: Vec<Contrast>,
    /// Why there is nothing.
    pub reason: Option<String>,
}

impl Twins {
    /// `rows` are all of a system's, variants included.
    pub(super) fn of(rows: &[&Verdict], resampling: Resampling) -> Self {
        let of = |variant| -> Vec<&Verdict> { rows.iter().copied().filter(|row| row.variant == variant).collect() };
        let ids = |rows: &[&Verdict]| rows.iter().map(|row| row.base_id().to_owned()).collect::<BTreeSet<String>>();
        let (mut base, mut twin) = (of(Variant::Base), of(Variant::SocialContext));
        let both: BTreeSet<String> = ids(&base).intersection(&ids(&twin)).cloned().collect();
        if both.is_empty() {
            let reason = "no social-context twin of a trace was answered".to_owned();
            return Self { reason: Some(reason), ..Self::default() };
        }
        for rows in [&mut base, &mut twin] {
            rows.retain(|row| both.contains(row.base_id()));
        }
        Self {
            pairs: both.len(),
            contrasts: every_metric(
                ("social-context", &by_key(&twin, Verdict::base_id)),
                ("base", &by_key(&base, Verdict::base_id)),
                resampling,
            ),
            base: Some(rates(&base, resampling)),
            social_context: Some(rates(&twin, resampling)),
            reason: None,
        }
    }
}
