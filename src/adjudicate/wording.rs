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

use super::keys::Keys;
use super::normalise::{Camel, Normalised};
use super::{Tier, boundary};

/// Words that stand between content words without changing what is said.
const SMALL: &str = "a an the of to in on for from with by at as and or is are was were be been being has have had my your \
    his her their its our this that these those own s";

/// Small words that say the same of another person: an answer says `you are` of whom a label says `is`.
const SAME: [&[&str]; 4] =
    [&["is", "are", "am"], &["was", "were"], &["has", "have"], &["his", "her", "its", "our", "your", "my", "their"]];
/// Where these stand in [`SAME`].
const HAVE: usize = 2;
const OWNERS: usize = 3;
/// Words that say whose or which, beside those of [`SAME`].
const DETERMINERS: [&str; 7] = ["a", "an", "the", "this", "that", "these", "those"];
/// Words that only qualify what a verb says of somebody; so do those that end in `ly`.
const QUALIFIERS: [&str; 14] = [
    "a", "an", "now", "also", "still", "very", "quite", "really", "just", "already", "indeed", "even", "likely",
    "probably",
];
/// Words with which a verb denies what follows, or says it of something else.
const DENIALS: [&str; 8] = ["no", "not", "never", "neither", "nor", "none", "without", "any"];
/// Letters of a word between them, so that all of them stand in one window.
const LONGEST_KIND: usize = 20;
/// Words between a verb and what it says.
const MOST_BETWEEN: usize = 3;

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
    /// A number is among them: it stands in its place, and as a whole.
    has_number: bool,
}

#[derive(Debug, Clone)]
struct Word {
    text: String,
    stem: String,
    /// Bytes that the declared word and its stem share at their start.
    shared: usize,
    small: bool,
    /// Where it stands in [`SAME`].
    same: Option<usize>,
}

impl Word {
    fn of(text: &str, stemmer: &Stemmer) -> Self {
        let stem = stemmer.stem(text).into_owned();
        let shared = text.bytes().zip(stem.bytes()).take_while(|(a, b)| a == b).count();
        let same = SAME.iter().position(|words| words.contains(&text));
        Self { text: text.to_owned(), shared, small: is_small(text), same, stem }
    }

    /// What every word that counts as this one begins with.
    fn anchor(&self) -> &str {
        let length = self.shared.min(self.stem.len());
        if length >= SHARED && self.text.is_char_boundary(length) { &self.text[..length] } else { &self.text }
    }

    fn is(&self, token: &Token<'_>) -> bool {
        // A stem is worked out last: few words begin like the declared one.
        self.text == token.text
            || self.same.is_some_and(|place| SAME[place].contains(&token.text))
            || (!self.small && token.text.starts_with(self.anchor()) && self.stem == token.stem())
    }

    /// The same stem with endings that only inflect: `transit` is not `transition`. What a declared `-ing` or `-ed` form
    /// goes back to may be another thing (`transitioning`, `transition`): a part of it. So may a name, where a declared `-s` is
    /// missing (`trans`, `Minh Tran`).
    fn inflected(&self, token: &Token<'_>) -> Option<Tier> {
        if self.text == token.text || (self.small && self.is(token)) {
            return Some(Tier::Normalized);
        }
        let same = self.text.chars().zip(token.text.chars()).take_while(|(a, b)| a == b);
        let shared: usize = same.map(|(letter, _)| letter.len_utf8()).sum();
        let (own, other) = (&self.text[shared..], &token.text[shared..]);
        let inflects =
            |ending: &str| matches!(ending, "" | "e" | "s" | "es" | "ed" | "d" | "ing" | "y" | "ies" | "ied" | "ying");
        let is_verb = |ending: &str| matches!(ending, "ing" | "ed" | "d" | "ied" | "ying");
        let may_be_other = is_verb(own) && !is_verb(other) || own == "s" && other.is_empty() && token.is_name;
        (self.is(token) && inflects(own) && inflects(other)).then_some(if may_be_other {
            Tier::Partial
        } else {
            Tier::Normalized
        })
    }

    fn is_article(&self) -> bool {
        ["a", "an", "the"].contains(&self.text.as_str())
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
            let has_number = words.iter().any(|word| word.text.bytes().any(|byte| byte.is_ascii_digit()));
            if !content.is_empty() {
                wordings.push(Wording { target, alias, words, content, has_number });
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
                    if wording.has_number && !boundary::is_bounded(&normalised.text, &range) {
                        continue;
                    }
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
        let gap = gap_of(gap);
        let is_capital = original.get(origin.clone()).is_some_and(|word| word.starts_with(char::is_uppercase));
        let is_name = is_capital && gap < Gap::Hard && !tokens.is_empty();
        tokens.push(Token { text, stemmer, stem: OnceCell::new(), gap, is_name, range, origin });
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
    /// It has a capital that no sentence gives it.
    is_name: bool,
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
        let apart = || self.apart(tokens, at).map(|found| (found, Tier::Partial));
        let elsewhere = || self.qualified(tokens, at).or_else(|| self.reordered(tokens, at)).or_else(apart);
        self.sequence(tokens, at).or_else(|| if self.has_number { None } else { elsewhere() })
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

    /// A verb and the one word that it says of somebody, with what only qualifies it between: `is Muslim` in `is now a Muslim`,
    /// `has cancer` in `has lung cancer`.
    fn qualified(&self, tokens: &[Token<'_>], at: usize) -> Option<(Range<usize>, Tier)> {
        let (verb, says) = match self.words.as_slice() {
            [verb, says] => (verb, says),
            [verb, article, says] if article.is_article() => (verb, says),
            _ => return None,
        };
        let place = verb.same.filter(|place| *place < OWNERS && !says.small)?;
        if says.inflected(&tokens[at]) != Some(Tier::Normalized) {
            return None;
        }
        let mut kinds = 0;
        for index in (at.saturating_sub(MOST_BETWEEN + 1)..at).rev() {
            let word = tokens[index].text;
            if tokens[index + 1].gap != Gap::Close {
                return None;
            } else if verb.is(&tokens[index]) {
                return Some((index..at + 1, Tier::Normalized));
            } else if QUALIFIERS.contains(&word) || (4..=LONGEST_KIND).contains(&word.len()) && word.ends_with("ly") {
                continue;
            }
            // What somebody has may be of a kind; what somebody is would be something else.
            kinds += 1;
            let is_kind =
                (3..=LONGEST_KIND).contains(&word.len()) && word.chars().all(char::is_alphabetic) && !is_small(word);
            if place != HAVE || kinds > 1 || !is_kind || DENIALS.contains(&word) {
                return None;
            }
        }
        None
    }

    /// A word that carries the label alone may only be inflected.
    fn tier_of(&self, word: &Word, token: &Token<'_>) -> Option<Tier> {
        if self.content.len() == 1 { word.inflected(token) } else { word.is(token).then_some(Tier::Normalized) }
    }

    /// All content words in any order, with nothing but small words between them.
    fn reordered(&self, tokens: &[Token<'_>], at: usize) -> Option<(Range<usize>, Tier)> {
        if self.content.len() < 2 {
            return None;
        }
        let mut taken = vec![None; self.content.len()];
        self.take(tokens, at, &mut taken);
        let start = self.reach(tokens, at, (0..at).rev(), &mut taken);
        let end = self.reach(tokens, at, at + 1..tokens.len(), &mut taken) + 1;
        let places: Vec<usize> = taken.into_iter().collect::<Option<_>>()?;
        Some((start..end, self.tier_in(tokens, &places)))
    }

    /// Goes from the word at `at` over small and wanted words, and returns where the last wanted one stands.
    fn reach(
        &self,
        tokens: &[Token<'_>],
        at: usize,
        way: impl Iterator<Item = usize>,
        taken: &mut [Option<usize>],
    ) -> usize {
        let (mut reached, mut small, mut previous) = (at, 0, at);
        for index in way {
            if tokens[index.max(previous)].gap != Gap::Close {
                break;
            }
            previous = index;
            if self.take(tokens, index, taken) {
                (reached, small) = (index, 0);
            } else if is_small(tokens[index].text) && small < MOST_SMALL {
                small += 1;
            } else {
                break;
            }
        }
        reached
    }

    /// Whether the content words at these places, in the label's order, say what the label says. In another order only where small
    /// words say how they belong together: `cancer of the lung` is `lung cancer`, `trading insider` is not `insider trading`. In
    /// the same order unless a verb has gone back to another word and the small words are others too: `end of life` is no
    /// `ending their life`.
    fn tier_in(&self, tokens: &[Token<'_>], places: &[usize]) -> Tier {
        let (Some(&first), Some(&last)) = (places.iter().min(), places.iter().max()) else { return Tier::Partial };
        let is_partial = if places.is_sorted() {
            let mut words = self.content.iter().zip(places);
            let bends =
                words.any(|(index, place)| self.words[*index].inflected(&tokens[*place]) != Some(Tier::Normalized));
            bends && self.lacks_small_word(&tokens[first..=last])
        } else {
            last - first + 1 == places.len()
        };
        if is_partial { Tier::Partial } else { Tier::Normalized }
    }

    /// Whether a small word among the label's content words has no counterpart in the text.
    fn lacks_small_word(&self, tokens: &[Token<'_>]) -> bool {
        let inner = self.content[0]..self.content[self.content.len() - 1];
        let is_determiner = |word: &str| SAME[OWNERS].contains(&word) || DETERMINERS.contains(&word);
        self.words[inner].iter().filter(|word| word.small && word.text != "own").any(|word| {
            let stands_for =
                |token: &Token<'_>| word.is(token) || is_determiner(&word.text) && is_determiner(token.text);
            !tokens.iter().any(stands_for)
        })
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
        let mut taken = vec![None; self.content.len()];
        let (mut start, mut end) = (at, at + 1);
        self.take(tokens, at, &mut taken);
        // Nearest words first, so that the span is short.
        for distance in 1..=reach {
            for index in [
                at.checked_sub(distance).filter(|index| *index >= from),
                Some(at + distance).filter(|index| *index <= to),
            ] {
                let Some(index) = index else { continue };
                if self.take(tokens, index, &mut taken) {
                    start = start.min(index);
                    end = end.max(index + 1);
                }
            }
        }
        (taken.iter().all(Option::is_some) && end - start <= reach).then_some(start..end)
    }

    /// Notes where a content word stands that the token is; `false` if it is none that is left.
    fn take(&self, tokens: &[Token<'_>], at: usize, taken: &mut [Option<usize>]) -> bool {
        let is_left =
            |(index, taken): &(&usize, &mut Option<usize>)| taken.is_none() && self.words[**index].is(&tokens[at]);
        let found = self.content.iter().zip(taken.iter_mut()).find(is_left);
        found.map(|(_, taken)| *taken = Some(at)).is_some()
    }
}
