//! Inferred labels in other words of the same stems: inflected, in another order, with small words between, written apart.
//!
//! In: normalised text with its original. Out: [`Wording`] matches. What one clause says with the label's own content words
//! and nothing but small words between them is `normalized`; content words that share a clause with others between them
//! are `partial`: the clause may say something else.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::ops::Range;

use rust_stemmers::{Algorithm, Stemmer};

use super::Tier;
use super::keys::Keys;
use super::normalise::{Camel, Normalised};

/// Words that stand between content words without changing what is said.
const SMALL: &str = "a an the of to in on for from with by at as and or is are was were be been being has have had my your \
    his her their its our this that these those own s";

/// Small words in a row.
const MOST_SMALL: usize = 3;
/// Words beside the content words among which these may stand apart.
const MOST_OTHERS: usize = 5;
/// Content words of a label that is looked for apart.
const APART: std::ops::RangeInclusive<usize> = 2..=4;
/// Letters that a word shares with the declared one at its start.
const SHARED: usize = 3;
/// Bytes that a match may be longer than the label.
pub(super) const SLACK: usize = 80;

/// One declared form of a label.
#[derive(Debug, Clone)]
pub(super) struct Wording {
    /// Index of the target.
    pub target: usize,
    /// Index of the alias; `None` for the value.
    pub alias: Option<usize>,
    /// Its words in order.
    words: Vec<Word>,
    /// Positions in `words` of those with content.
    content: Vec<usize>,
}

#[derive(Debug, Clone)]
struct Word {
    text: String,
    stem: String,
    /// Bytes that the declared word and its stem share at their start.
    shared: usize,
    small: bool,
}

impl Word {
    fn of(text: &str, stemmer: &Stemmer) -> Self {
        let stem = stemmer.stem(text).into_owned();
        let shared = text.bytes().zip(stem.bytes()).take_while(|(a, b)| a == b).count();
        Self { text: text.to_owned(), shared, small: is_small(text), stem }
    }

    /// What every word that counts as this one begins with.
    fn anchor(&self) -> &str {
        let length = self.shared.min(self.stem.len());
        if length >= SHARED && self.text.is_char_boundary(length) { &self.text[..length] } else { &self.text }
    }

    fn is(&self, token: &Token<'_>) -> bool {
        // A stem is worked out last: few words begin like the declared one.
        self.text == token.text || (!self.small && token.text.starts_with(self.anchor()) && self.stem == token.stem())
    }

    /// The same stem with endings that only inflect: `transit` is not `transition`. What a declared `-ing` or `-ed` form
    /// goes back to may be another thing (`transitioning`, `transition`): a part of it.
    fn inflected(&self, token: &Token<'_>) -> Option<Tier> {
        if self.text == token.text {
            return Some(Tier::Normalized);
        }
        let same = self.text.chars().zip(token.text.chars()).take_while(|(a, b)| a == b);
        let shared: usize = same.map(|(letter, _)| letter.len_utf8()).sum();
        let (own, other) = (&self.text[shared..], &token.text[shared..]);
        let inflects =
            |ending: &str| matches!(ending, "" | "e" | "s" | "es" | "ed" | "d" | "ing" | "y" | "ies" | "ied" | "ying");
        let is_verb = |ending: &str| matches!(ending, "ing" | "ed" | "d" | "ied" | "ying");
        (self.is(token) && inflects(own) && inflects(other))
            .then(|| if is_verb(own) && !is_verb(other) { Tier::Partial } else { Tier::Normalized })
    }
}

/// Whether a word has no content of its own.
pub(super) fn is_small(word: &str) -> bool {
    SMALL.split(' ').any(|small| small == word)
}

/// All wordings of a contract's labels.
#[derive(Debug, Clone)]
pub(super) struct Wordings {
    all: Vec<Wording>,
    /// By the stem of the word that each is looked for by.
    by_stem: BTreeMap<String, Vec<usize>>,
    /// First bytes of those stems.
    starts: Keys,
}

/// A match in the given text.
pub(super) struct Said {
    /// Index of the wording's target.
    pub target: usize,
    /// Index of the alias.
    pub alias: Option<usize>,
    /// Bytes of the normalised text.
    pub range: Range<usize>,
    /// Normalised, or partial where other words stand between.
    pub tier: Tier,
}

impl Wordings {
    /// Prepares forms given with their target and alias.
    pub fn new(forms: impl IntoIterator<Item = (usize, Option<usize>, String)>) -> Self {
        let stemmer = Stemmer::create(Algorithm::English);
        let mut wordings = Vec::new();
        for (target, alias, form) in forms {
            let normalised = Normalised::of(&form, Camel::Keep);
            let words: Vec<Word> =
                word_ranges(&normalised.text).map(|range| Word::of(&normalised.text[range], &stemmer)).collect();
            let content: Vec<usize> = (0..words.len()).filter(|&index| !words[index].small).collect();
            if !content.is_empty() {
                wordings.push(Wording { target, alias, words, content });
            }
        }
        let mut by_stem: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (index, wording) in wordings.iter().enumerate() {
            by_stem.entry(wording.key().stem.clone()).or_default().push(index);
        }
        let starts = wordings.iter().filter_map(|wording| start_of(wording.key().anchor())).collect();
        Self { all: wordings, by_stem, starts: Keys::new(starts) }
    }

    /// For each wording what any mention of it must contain, with its length.
    pub fn anchors(&self) -> impl Iterator<Item = (&str, usize)> {
        self.all.iter().map(|wording| {
            (wording.key().anchor(), wording.words.iter().map(|word| word.text.len() + 1).sum::<usize>() + SLACK)
        })
    }

    /// Every wording that the text holds. `original` is the text behind the normalised one.
    pub fn find(&self, original: &str, normalised: &Normalised) -> Vec<Said> {
        if self.all.is_empty() {
            return Vec::new();
        }
        let ranges: Vec<Range<usize>> = word_ranges(&normalised.text).collect();
        let may_match = |word: &str| start_of(word).is_none_or(|start| self.starts.contains(start));
        if !ranges.iter().any(|range| may_match(&normalised.text[range.clone()])) {
            return Vec::new();
        }
        let stemmer = Stemmer::create(Algorithm::English);
        let tokens = tokens(original, normalised, ranges, &stemmer);
        let mut said = Vec::new();
        for (at, token) in tokens.iter().enumerate().filter(|(_, token)| may_match(token.text)) {
            for &index in self.by_stem.get(token.stem()).into_iter().flatten() {
                let wording = &self.all[index];
                if wording.key().is(token)
                    && let Some((words, tier)) = wording.around(&tokens, at)
                {
                    let range = tokens[words.start].range.start..tokens[words.end - 1].range.end;
                    said.push(Said { target: wording.target, alias: wording.alias, range, tier });
                }
            }
        }
        said
    }
}

fn tokens<'t>(
    original: &str,
    normalised: &'t Normalised,
    ranges: Vec<Range<usize>>,
    stemmer: &'t Stemmer,
) -> Vec<Token<'t>> {
    let mut tokens: Vec<Token<'t>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        let text = &normalised.text[range.clone()];
        let origin = normalised.origin(&range);
        let gap = tokens.last().map_or("", |last| original.get(last.origin.end..origin.start).unwrap_or(""));
        tokens.push(Token { text, stemmer, stem: OnceCell::new(), gap: gap_of(gap), range, origin });
    }
    tokens
}

/// The first bytes of a word; `None` for shorter ones, which are always looked up.
fn start_of(word: &str) -> Option<u64> {
    let start = word.as_bytes().get(..SHARED)?;
    Some(start.iter().fold(0, |start, byte| start << 8 | u64::from(*byte)))
}

/// A word of the text.
struct Token<'t> {
    text: &'t str,
    stemmer: &'t Stemmer,
    /// Worked out when it is asked for.
    stem: OnceCell<Cow<'t, str>>,
    /// What stands before it.
    gap: Gap,
    range: Range<usize>,
    origin: Range<usize>,
}

impl Token<'_> {
    fn stem(&self) -> &str {
        self.stem.get_or_init(|| self.stemmer.stem(self.text))
    }
}

/// What stands between two words.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd)]
enum Gap {
    /// Spaces, hyphens, emphasis.
    Close,
    /// A line break: it may wrap a sentence or end an entry.
    Line,
    /// A comma, a bracket, a slash.
    Soft,
    /// The end of a clause or of a JSON value.
    Hard,
}

fn gap_of(between: &str) -> Gap {
    if between.contains(['.', '!', '?', ';', ':', '|', '"', '{', '}', '[', ']'])
        || between.matches('\n').nth(1).is_some()
    {
        Gap::Hard
    } else if between.contains([',', '(', ')', '/', '&', '+', '=', '<', '>']) {
        Gap::Soft
    } else if between.contains('\n') {
        Gap::Line
    } else {
        Gap::Close
    }
}

fn word_ranges(text: &str) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut rest = 0;
    std::iter::from_fn(move || {
        let start = rest + text[rest..].find(char::is_alphanumeric)?;
        let end =
            text[start..].find(|character: char| !character.is_alphanumeric()).map_or(text.len(), |at| start + at);
        rest = end;
        Some(start..end)
    })
}

impl Wording {
    /// The longest content word: the one that others share least.
    fn key(&self) -> &Word {
        let longest =
            self.content.iter().max_by_key(|&&index| (self.words[index].anchor().len(), std::cmp::Reverse(index)));
        &self.words[longest.copied().unwrap_or(0)]
    }

    /// The words around the token at `at`, itself the key word, that say this wording.
    fn around(&self, tokens: &[Token<'_>], at: usize) -> Option<(Range<usize>, Tier)> {
        let reordered = || self.reordered(tokens, at).map(|found| (found, Tier::Normalized));
        let apart = || self.apart(tokens, at).map(|found| (found, Tier::Partial));
        self.sequence(tokens, at).or_else(reordered).or_else(apart)
    }

    /// All words in order, each in any inflection.
    fn sequence(&self, tokens: &[Token<'_>], at: usize) -> Option<(Range<usize>, Tier)> {
        let offsets = (0..self.words.len()).filter(|&offset| self.words[offset].text == self.key().text);
        offsets.filter_map(|offset| Some(at.checked_sub(offset)?..at.checked_sub(offset)? + self.words.len())).find_map(
            |range| {
                let run = tokens.get(range.clone())?;
                let mut pairs = self.words.iter().zip(run);
                let tier = pairs
                    .try_fold(Tier::Normalized, |worst, (word, token)| Some(worst.max(self.tier_of(word, token)?)))?;
                run[1..].iter().all(|token| token.gap < Gap::Hard).then_some((range, tier))
            },
        )
    }
    /// A word that carries the label alone may only be inflected.
    fn tier_of(&self, word: &Word, token: &Token<'_>) -> Option<Tier> {
        if self.content.len() == 1 { word.inflected(token) } else { word.is(token).then_some(Tier::Normalized) }
    }

    /// All content words in any order, with nothing but small words between them.
    fn reordered(&self, tokens: &[Token<'_>], at: usize) -> Option<Range<usize>> {
        if self.content.len() < 2 {
            return None;
        }
        let mut left = vec![false; self.content.len()];
        self.take(&tokens[at], &mut left);
        let (mut start, mut end) = (at, at + 1);
        let mut small = 0;
        for index in (0..at).rev() {
            if tokens[index + 1].gap != Gap::Close {
                break;
            }
            if self.take(&tokens[index], &mut left) {
                (start, small) = (index, 0);
            } else if is_small(tokens[index].text) && small < MOST_SMALL {
                small += 1;
            } else {
                break;
            }
        }
        small = 0;
        for (index, token) in tokens.iter().enumerate().skip(at + 1) {
            if token.gap != Gap::Close {
                break;
            }
            if self.take(token, &mut left) {
                (end, small) = (index + 1, 0);
            } else if is_small(token.text) && small < MOST_SMALL {
                small += 1;
            } else {
                break;
            }
        }
        left.iter().all(|taken| *taken).then_some(start..end)
    }

    /// All content words in one clause, few others among them.
    fn apart(&self, tokens: &[Token<'_>], at: usize) -> Option<Range<usize>> {
        if !APART.contains(&self.content.len()) {
            return None;
        }
        let reach = self.content.len() + MOST_OTHERS;
        let from = (at.saturating_sub(reach)..at)
            .rev()
            .take_while(|&index| tokens[index + 1].gap < Gap::Hard)
            .last()
            .unwrap_or(at);
        let to = (at + 1..tokens.len().min(at + reach))
            .take_while(|&index| tokens[index].gap < Gap::Hard)
            .last()
            .unwrap_or(at);
        let mut taken = vec![false; self.content.len()];
        let (mut start, mut end) = (at, at + 1);
        self.take(&tokens[at], &mut taken);
        // Nearest words first, so that the span is short.
        for distance in 1..=reach {
            for index in [
                at.checked_sub(distance).filter(|index| *index >= from),
                Some(at + distance).filter(|index| *index <= to),
            ] {
                let Some(index) = index else { continue };
                if self.take(&tokens[index], &mut taken) {
                    start = start.min(index);
                    end = end.max(index + 1);
                }
            }
        }
        (taken.iter().all(|taken| *taken) && end - start <= reach).then_some(start..end)
    }

    /// Marks one content word that the token is; `false` if it is none that is left.
    fn take(&self, token: &Token<'_>, taken: &mut [bool]) -> bool {
        let found =
            self.content.iter().zip(taken.iter_mut()).find(|(index, taken)| !**taken && self.words[**index].is(token));
        found.map(|(_, taken)| *taken = true).is_some()
    }
}
