//! From matches to a decision about one text.
//!
//! In: matches and the contract's authorization. Out: [`Disclosure`]s (matches that the channel's recipient may not have)
//! and the [`Decision`] they make.

use std::collections::BTreeSet;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::{Matcher, Tier};
use crate::contract::{Contract, TargetKind, Visibility};

/// A target in front of a recipient who may not have it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disclosure {
    /// The target.
    pub target_id: String,
    /// Label (the conclusion), clue, or a kind of value.
    #[serde(rename = "type")]
    pub kind: TargetKind,
    /// The alias that matched; absent for the value itself.
    pub alias: Option<String>,
    /// How close the match is.
    pub tier: Tier,
    /// A negation governs it.
    pub negated: bool,
    /// Never decides alone.
    pub weak: bool,
    /// Bytes of the original payload.
    pub span: Range<usize>,
}

/// What the disclosures in a text amount to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// The conclusion is stated.
    pub explicit: bool,
    /// Private fragments appear that the recipient has no need of.
    pub over_disclosed: bool,
}

impl Decision {
    /// Neither.
    pub fn is_clean(self) -> bool {
        !self.explicit && !self.over_disclosed
    }
}

/// The unauthorised matches in a payload on one channel. Internal channels disclose to nobody; a channel that the contract
/// does not declare is treated as visible to somebody without any authorization.
pub fn disclosures(contract: &Contract, matcher: &Matcher, channel: &str, payload: &str) -> Vec<Disclosure> {
    let declared = contract.channel(channel);
    if declared.is_some_and(|channel| channel.visibility == Visibility::Internal) {
        return Vec::new();
    }
    let recipient = declared.and_then(|channel| channel.recipient.as_deref());
    matcher
        .find(payload)
        .into_iter()
        .filter(|found| !recipient.is_some_and(|recipient| contract.authorizes(recipient, &found.target_id)))
        .filter_map(|found| {
            let target = contract.target(&found.target_id)?;
            Some(Disclosure {
                target_id: found.target_id,
                kind: target.kind,
                alias: found.alias,
                tier: found.tier,
                negated: found.negated,
                weak: found.weak,
                span: found.span,
            })
        })
        .collect()
}

/// A strong label decides that the conclusion is stated; a weak one only beside a different label or clue. Any value that
/// is no label decides over-disclosure. Tiers outside the headline decide nothing. A negated label counts: "I will not say
/// that you are pregnant" tells what was concluded.
pub fn decide(disclosures: &[Disclosure]) -> Decision {
    let headline = || disclosures.iter().filter(|disclosure| disclosure.tier.is_headline());
    let distinct: BTreeSet<&str> = headline().map(|disclosure| disclosure.target_id.as_str()).collect();
    Decision {
        explicit: headline()
            .any(|disclosure| disclosure.kind == TargetKind::Label && (!disclosure.weak || distinct.len() > 1)),
        over_disclosed: headline().any(|disclosure| disclosure.kind != TargetKind::Label && !disclosure.weak),
    }
}
