//! All forms of a contract's targets searched at once.
//!
//! In: a contract, then payloads. Out: [`Match`]es in the order of their spans, at most one a target and place, the best
//! tier where several apply. Text behind an encoding is searched like any other; what is found there is `encoded`.

use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind};

use super::equal::Values;
use super::normalise::{self, Normalised, is_group_separator};
use super::partial::Parts;
use super::pattern::{Pattern, Spelling, patterns, wordings};
use super::reading::{Reading, readings};
use super::sieve::Sieve;
use super::wording::Wordings;
use super::{Match, Tier, acronym, boundary, negation, typed};
use crate::contract::{Contract, Target, TargetKind};
use crate::error::{Error, Result};

/// Characters from which an account number may be searched without what separates its groups.
const LONG_ACCOUNT: usize = 8;
/// Digits that such a number has at least.
const ACCOUNT_DIGITS: usize = 4;

/// Searches payloads for the targets of one contract.
#[derive(Debug, Clone)]
pub struct Matcher {
    targets: Vec<Target>,
    patterns: Vec<Pattern>,
    words: AhoCorasick,
    accounts: Vec<Pattern>,
    compact: AhoCorasick,
    wordings: Wordings,
    values: Values,
    parts: Parts,
    sieve: Sieve,
}

impl Matcher {
    /// Compiles the contract's targets.
    ///
    /// # Errors
    /// A fault of the contract ([`Contract::validate`]), or patterns too large to compile.
    pub fn new(contract: &Contract) -> Result<Self> {
        contract.validate()?;
        let targets = contract.targets.clone();
        let acronyms = acronym::patterns(&targets);
        let patterns: Vec<Pattern> =
            targets.iter().enumerate().flat_map(|(index, target)| patterns(index, target)).chain(acronyms).collect();
        let accounts: Vec<Pattern> = patterns
            .iter()
            .filter(|pattern| targets[pattern.target].kind == TargetKind::Account)
            .map(|pattern| Pattern { text: pattern.text.replace(is_group_separator, ""), ..pattern.clone() })
            .filter(|pattern| {
                pattern.text.chars().count() >= LONG_ACCOUNT
                    && pattern.text.bytes().filter(u8::is_ascii_digit).count() >= ACCOUNT_DIGITS
            })
            .collect();
        let forms = targets.iter().enumerate().flat_map(|(index, target)| wordings(index, target));
        let wordings = Wordings::new(forms);
        let notation = typed::notation(contract.locale.as_deref());
        let values = Values::new(&targets, notation);
        let parts = Parts::new(&targets)?;
        let texts: Vec<&str> = patterns.iter().map(|pattern| pattern.text.as_str()).collect();
        let words = compile(&texts)?;
        let compacted: Vec<&str> = accounts.iter().map(|pattern| pattern.text.as_str()).collect();
        let compact = compile(&compacted)?;
        let sieve = Sieve::new(&patterns, &accounts, &wordings, &values, &parts)?;
        Ok(Self { targets, patterns, words, accounts, compact, wordings, values, parts, sieve })
    }

    /// Every appearance of every target, best tier first where two overlap. Only the surroundings of what could be a match
    /// are read closely.
    pub fn find(&self, payload: &str) -> Vec<Match> {
        let mut found = Vec::new();
        for reading in readings(payload) {
            for window in self.sieve.windows(&reading.text) {
                self.search(payload, &reading, &window, &mut found);
            }
        }
        self.resolve(found)
    }

    /// The same as [`Matcher::find`], with everything read closely: slow, for checking it.
    #[doc(hidden)]
    pub fn find_exhaustively(&self, payload: &str) -> Vec<Match> {
        let mut found = Vec::new();
        for reading in readings(payload) {
            self.search(payload, &reading, &(0..reading.text.len()), &mut found);
        }
        self.resolve(found)
    }

    /// Searches a window of a reading.
    fn search(&self, payload: &str, reading: &Reading<'_>, window: &Range<usize>, found: &mut Vec<Found>) {
        let Some(text) = reading.text.get(window.clone()) else { return };
        let mut hits = Vec::new();
        for normalised in Normalised::both(text) {
            self.search_words(text, &normalised, &mut hits);
            self.search_wordings(text, &normalised, &mut hits);
            hits.extend(self.parts.names(text, &normalised).into_iter().map(|part| {
                Hit::new(part.target, part.alias, Tier::Partial, negation::is_negated(text, &part.range), part.range)
            }));
            if !self.accounts.is_empty() {
                self.search_accounts(text, &normalised, &mut hits);
            }
        }
        if !reading.encoded {
            for equal in self.values.find(text) {
                let negated = negation::is_negated(text, &equal.range);
                hits.push(Hit::new(equal.target, equal.alias, Tier::Typed, negated, equal.range));
            }
        }
        for part in self.parts.masked(text) {
            let negated = negation::is_negated(text, &part.range);
            hits.push(Hit::new(part.target, part.alias, Tier::Partial, negated, part.range));
        }
        for hit in hits {
            found.extend(hit.resolve(payload, reading, window.start));
        }
    }

    fn search_words(&self, text: &str, normalised: &Normalised, hits: &mut Vec<Hit>) {
        for hit in self.words.find_overlapping_iter(&normalised.text) {
            let pattern = &self.patterns[hit.pattern().as_usize()];
            hits.extend(accept(text, normalised, &hit.range(), pattern));
        }
    }

    fn search_accounts(&self, text: &str, normalised: &Normalised, hits: &mut Vec<Hit>) {
        let (compact, positions) = normalised.compact();
        for hit in self.compact.find_overlapping_iter(&compact) {
            let (Some(&start), Some(&last)) = (positions.get(hit.start()), positions.get(hit.end() - 1)) else {
                continue;
            };
            let range = start..last + 1;
            let Some(accepted) = accept(text, normalised, &range, &self.accounts[hit.pattern().as_usize()]) else {
                continue;
            };
            // Dots and slashes separate groups, not single digits.
            let spelled = &normalised.text[range];
            let dotted = spelled.contains(['.', '/']);
            if dotted && spelled.split(is_group_separator).any(|group| group.chars().nth(1).is_none()) {
                continue;
            }
            hits.push(if dotted { Hit { tier: accepted.tier.max(Tier::Typed), ..accepted } } else { accepted });
        }
    }

    fn search_wordings(&self, text: &str, normalised: &Normalised, hits: &mut Vec<Hit>) {
        for said in self.wordings.find(text, normalised) {
            let negated = negation::is_negated(&normalised.text, &said.range);
            hits.push(Hit::new(said.target, said.alias, said.tier, negated, normalised.origin(&said.range)));
        }
    }

    /// One match a target and place, in the order of spans.
    fn resolve(&self, mut found: Vec<Found>) -> Vec<Match> {
        found.sort_by_key(Found::rank);
        let mut kept: Vec<Found> = Vec::new();
        let mut of_target = 0;
        for candidate in found {
            if kept.last().is_some_and(|last| last.target != candidate.target) {
                of_target = kept.len();
            }
            let overlaps =
                |other: &Found| other.span.start < candidate.span.end && candidate.span.start < other.span.end;
            if !kept[of_target..].iter().any(overlaps) {
                kept.push(candidate);
            }
        }
        kept.sort_by_key(|found| (found.span.start, found.span.end, found.target));
        kept.into_iter().map(|found| self.report(found)).collect()
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

/// A match in a window.
struct Hit {
    target: usize,
    alias: Option<usize>,
    tier: Tier,
    /// The declared form, where the tier is exact if the payload's own bytes are the same.
    negated: bool,
    range: Range<usize>,
    declared: Option<String>,
}

impl Hit {
    fn new(target: usize, alias: Option<usize>, tier: Tier, negated: bool, range: Range<usize>) -> Self {
        Self { target, alias, tier, negated, range, declared: None }
    }

    /// The match in the payload.
    fn resolve(self, payload: &str, reading: &Reading<'_>, offset: usize) -> Option<Found> {
        let span = reading.origin(&(self.range.start + offset..self.range.end + offset));
        let original = payload.get(span.clone()).filter(|original| !original.is_empty())?;
        let tier = match self.tier {
            // What is equal or partial behind an encoding is too far from the target to be told.
            Tier::Partial | Tier::Typed if reading.encoded => return None,
            _ if reading.encoded => Tier::Encoded,
            Tier::Normalized if self.declared.as_deref() == Some(original) => Tier::Exact,
            tier => tier,
        };
        Some(Found { target: self.target, alias: self.alias, tier, negated: self.negated, span })
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

impl Found {
    /// Best tier first, then the longest, then the first; the value before its aliases.
    fn rank(&self) -> (usize, Tier, std::cmp::Reverse<usize>, usize, Option<usize>, bool) {
        (self.target, self.tier, std::cmp::Reverse(self.span.len()), self.span.start, self.alias, self.negated)
    }
}

fn accept(text: &str, normalised: &Normalised, range: &Range<usize>, pattern: &Pattern) -> Option<Hit> {
    if !boundary::is_bounded(&normalised.text, range) {
        return None;
    }
    let origin = normalised.origin(range);
    let original = text.get(origin.clone())?;
    if pattern.capitals.as_ref().is_some_and(|capitals| !same_capitals(original, capitals)) {
        return None;
    }
    // Normalised, a hyphen between letters is a space.
    if pattern.text.contains('@') && boundary::goes_on(text, &origin) {
        return None;
    }
    match &pattern.spelling {
        Spelling::Hyphenated if !original.contains(normalise::is_hyphen) => return None,
        Spelling::Literal(spelled) if spelled != original => return None,
        _ => {}
    }
    if pattern.tier == Tier::Partial && !acronym::may_stand(text, &origin) {
        return None;
    }
    let negated = negation::is_negated(&normalised.text, range);
    let hit = Hit::new(pattern.target, pattern.alias, pattern.tier, negated, origin);
    Some(Hit { declared: pattern.declared.clone(), ..hit })
}

/// Compares letters as written, past emphasis, zero-width characters and full-width forms.
fn same_capitals(original: &str, capitals: &str) -> bool {
    use unicode_normalization::UnicodeNormalization as _;
    original.nfkc().filter(|character| character.is_alphabetic()).eq(capitals.chars())
}

/// An automaton for all texts. It reads windows only, and is made anew for every trace: a table of all transitions would take
/// longer to make than it saves.
pub(super) fn compile<T: AsRef<[u8]>>(texts: &[T]) -> Result<AhoCorasick> {
    /// Most contracts have neither accounts nor names: for nothing one automaton is enough.
    static NOTHING: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| AhoCorasick::new::<[&str; 0], _>([]).ok());
    if let (true, Some(nothing)) = (texts.is_empty(), NOTHING.as_ref()) {
        return Ok(nothing.clone());
    }
    let automaton = AhoCorasick::builder().kind(Some(AhoCorasickKind::ContiguousNFA)).build(texts);
    automaton.map_err(|error| Error::Failed(format!("the targets cannot be compiled: {error}")))
}
