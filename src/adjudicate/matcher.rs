//! All patterns of a contract searched at once.
//!
//! In: a contract, then payloads. Out: [`Match`]es in the order of their spans, at most one a target and place. The exact
//! and normalised tiers are found here; a later tier adds a finder beside [`Matcher::headline`] and nothing else changes.

use std::ops::Range;

use aho_corasick::AhoCorasick;

use super::normalise::{Camel, Normalised};
use super::pattern::{Pattern, patterns};
use super::{Match, Tier, boundary, negation, payload};
use crate::contract::{Contract, Target, TargetKind};
use crate::error::{Error, Result};

/// Characters from which an account number may be searched without its spaces and hyphens.
const LONG_ACCOUNT: usize = 8;

/// Searches payloads for the targets of one contract.
#[derive(Debug, Clone)]
pub struct Matcher {
    targets: Vec<Target>,
    patterns: Vec<Pattern>,
    words: AhoCorasick,
    accounts: Vec<Pattern>,
    compact: AhoCorasick,
}

impl Matcher {
    /// Compiles the contract's targets.
    ///
    /// # Errors
    /// A fault of the contract ([`Contract::validate`]), or patterns too large to compile.
    pub fn new(contract: &Contract) -> Result<Self> {
        contract.validate()?;
        let patterns: Vec<Pattern> =
            contract.targets.iter().enumerate().flat_map(|(index, target)| patterns(index, target)).collect();
        let accounts: Vec<Pattern> = patterns
            .iter()
            .filter(|pattern| contract.targets[pattern.target].kind == TargetKind::Account)
            .map(|pattern| Pattern { text: pattern.text.replace([' ', '-'], ""), ..pattern.clone() })
            .filter(|pattern| pattern.text.chars().count() >= LONG_ACCOUNT)
            .collect();
        let words = compile(&patterns)?;
        let compact = compile(&accounts)?;
        Ok(Self { targets: contract.targets.clone(), patterns, words, accounts, compact })
    }

    /// Every appearance of every target, best tier first where two overlap.
    pub fn find(&self, payload: &str) -> Vec<Match> {
        let mut found = self.headline(payload);
        found.sort_by(|a, b| {
            (a.target, a.tier, std::cmp::Reverse(a.span.len()), a.span.start).cmp(&(
                b.target,
                b.tier,
                std::cmp::Reverse(b.span.len()),
                b.span.start,
            ))
        });
        let mut kept: Vec<Found> = Vec::new();
        for candidate in found {
            let overlaps = |other: &Found| {
                other.target == candidate.target
                    && other.span.start < candidate.span.end
                    && candidate.span.start < other.span.end
            };
            if !kept.iter().any(overlaps) {
                kept.push(candidate);
            }
        }
        kept.sort_by_key(|found| (found.span.start, found.span.end, found.target));
        kept.into_iter().map(|found| self.report(found)).collect()
    }

    /// The exact and normalised tiers.
    fn headline(&self, payload: &str) -> Vec<Found> {
        let mut found = Vec::new();
        for reading in payload::readings(payload) {
            for camel in [Camel::Keep, Camel::Split] {
                let text = Normalised::of(&reading, camel);
                self.search_words(payload, &text, &mut found);
            }
            if !self.accounts.is_empty() {
                self.search_accounts(payload, &Normalised::of(&reading, Camel::Keep), &mut found);
            }
        }
        found
    }

    fn search_words(&self, payload: &str, text: &Normalised, found: &mut Vec<Found>) {
        for hit in self.words.find_overlapping_iter(&text.text) {
            let pattern = &self.patterns[hit.pattern().as_usize()];
            found.extend(accept(payload, text, &hit.range(), pattern));
        }
    }

    fn search_accounts(&self, payload: &str, text: &Normalised, found: &mut Vec<Found>) {
        let (compact, positions) = text.compact();
        for hit in self.compact.find_overlapping_iter(&compact) {
            let (Some(&start), Some(&last)) = (positions.get(hit.start()), positions.get(hit.end() - 1)) else {
                continue;
            };
            let pattern = &self.accounts[hit.pattern().as_usize()];
            found.extend(accept(payload, text, &(start..last + 1), pattern));
        }
    }

    fn report(&self, found: Found) -> Match {
        let target = &self.targets[found.target];
        Match {
            target_id: target.target_id.clone(),
            alias: found.alias.and_then(|alias| target.aliases.get(alias).cloned()),
            tier: found.tier,
            negated: found.negated,
            weak: target.weak,
            span: found.span,
        }
    }
}

/// A match before its names are looked up.
struct Found {
    target: usize,
    alias: Option<usize>,
    tier: Tier,
    negated: bool,
    span: Range<usize>,
}

fn accept(payload: &str, text: &Normalised, range: &Range<usize>, pattern: &Pattern) -> Option<Found> {
    if !boundary::is_bounded(&text.text, range) {
        return None;
    }
    let span = text.origin(range);
    let original = payload.get(span.clone())?;
    if pattern.capitals.as_ref().is_some_and(|capitals| !same_capitals(original, capitals)) {
        return None;
    }
    let tier = if pattern.declared.as_deref() == Some(original) { Tier::Exact } else { Tier::Normalized };
    let negated = negation::is_negated(&text.text, range);
    Some(Found { target: pattern.target, alias: pattern.alias, tier, negated, span })
}

/// Compares letters as written, past emphasis, zero-width characters and full-width forms.
fn same_capitals(original: &str, capitals: &str) -> bool {
    use unicode_normalization::UnicodeNormalization as _;
    original.nfkc().filter(|character| character.is_alphabetic()).eq(capitals.chars())
}

fn compile(patterns: &[Pattern]) -> Result<AhoCorasick> {
    AhoCorasick::new(patterns.iter().map(|pattern| pattern.text.as_str()))
        .map_err(|error| Error::Failed(format!("the targets cannot be compiled: {error}")))
}
