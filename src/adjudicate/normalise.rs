//! Normalised text with a map back to the original bytes, so that a match found in either shows where it stands.
//!
//! In: text. Out: [`Normalised`]: full case folding, NFKC where it keeps the meaning, no zero-width characters, one kind of
//! space, hyphen and apostrophe, separators between words as single spaces, no markdown emphasis.

use std::ops::Range;

use icu_casemap::CaseMapper;
use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::{canonical_combining_class, is_combining_mark};

/// Whether `camelCase` counts as two words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Camel {
    /// As one word.
    Keep,
    /// As two.
    Split,
}

/// Text to search, and for each of its bytes the bytes of the given text behind it.
#[derive(Debug, Default)]
pub(super) struct Normalised {
    /// The normalised text.
    pub text: String,
    /// One entry a byte of `text`.
    origins: Vec<(usize, usize)>,
}

impl Normalised {
    /// Normalises text.
    pub fn of(text: &str, camel: Camel) -> Self {
        Self::of_clusters(&clusters(text), camel)
    }

    /// The text with `camelCase` as one word, and if there is any, again as two.
    pub fn both(text: &str) -> Vec<Self> {
        let clusters = clusters(text);
        let mut both = vec![Self::of_clusters(&clusters, Camel::Keep)];
        if (1..clusters.len()).any(|index| {
            is_camel_boundary(
                Some(clusters[index - 1].first),
                clusters[index].first,
                clusters.get(index + 1).map(|next| next.first),
            )
        }) {
            both.push(Self::of_clusters(&clusters, Camel::Split));
        }
        both
    }

    fn of_clusters(clusters: &[Cluster], camel: Camel) -> Self {
        let mut normalised =
            Self { text: String::with_capacity(clusters.len() + 8), origins: Vec::with_capacity(clusters.len() + 8) };
        for index in 0..clusters.len() {
            normalised.add(clusters, index, camel);
        }
        normalised
    }

    /// The bytes of the given text behind a byte range of `text`.
    pub fn origin(&self, range: &Range<usize>) -> Range<usize> {
        let start = self.origins.get(range.start).map_or(0, |origin| origin.0);
        let end = range.end.checked_sub(1).and_then(|last| self.origins.get(last)).map_or(start, |origin| origin.1);
        start..end.max(start)
    }

    /// Without what separates the groups of an account number, with the byte of `text` that each byte came from.
    pub fn compact(&self) -> (String, Vec<usize>) {
        let mut compact = String::with_capacity(self.text.len());
        let mut positions = Vec::with_capacity(self.text.len() + 1);
        for (start, character) in self.text.char_indices().filter(|(_, character)| !is_group_separator(*character)) {
            compact.push(character);
            positions.extend(start..start + character.len_utf8());
        }
        (compact, positions)
    }

    fn add(&mut self, clusters: &[Cluster], index: usize, camel: Camel) {
        let cluster = &clusters[index];
        let character = cluster.first;
        let before = index.checked_sub(1).map(|previous| clusters[previous].first);
        let after = clusters.get(index + 1).map(|next| next.first);
        if camel == Camel::Split && is_camel_boundary(before, character, after) {
            self.push_space(cluster.start, cluster.start);
        }
        match class(character) {
            Class::Space => self.push_space(cluster.start, cluster.end),
            Class::Emphasis if !(is_digit(before) && is_digit(after)) => {}
            Class::Hyphen if is_letter(before) && is_letter(after) => self.push_space(cluster.start, cluster.end),
            Class::Hyphen => self.push("-", cluster),
            Class::Apostrophe => self.push("'", cluster),
            Class::Quote => self.push("\"", cluster),
            Class::Emphasis | Class::Other => match &cluster.text {
                Composed::One(character) if character.is_ascii() => {
                    self.push(character.to_ascii_lowercase().encode_utf8(&mut [0; 4]), cluster);
                }
                Composed::One(character) => {
                    let folded = CaseMapper::new().fold_string(character.encode_utf8(&mut [0; 4])).into_owned();
                    self.push(&folded, cluster);
                }
                Composed::Many(text) => self.push(&CaseMapper::new().fold_string(text), cluster),
            },
        }
    }

    fn push(&mut self, text: &str, cluster: &Cluster) {
        self.text.push_str(text);
        self.origins.extend(std::iter::repeat_n((cluster.start, cluster.end), text.len()));
    }

    fn push_space(&mut self, start: usize, end: usize) {
        if !self.text.ends_with(' ') {
            self.text.push(' ');
            self.origins.push((start, end));
        }
    }
}

/// A pattern's normalised form: that of text, without outer spaces.
pub(super) fn pattern(text: &str, camel: Camel) -> String {
    Normalised::of(text, camel).text.trim().to_owned()
}

/// What may stand between the groups of an account number.
pub(super) fn is_group_separator(character: char) -> bool {
    matches!(character, ' ' | '-' | '.' | '/')
}

/// A starter with its marks, composed.
struct Cluster {
    first: char,
    text: Composed,
    start: usize,
    end: usize,
}

/// Nearly all clusters are one character.
enum Composed {
    One(char),
    Many(String),
}

fn clusters(text: &str) -> Vec<Cluster> {
    let mut clusters: Vec<Cluster> = Vec::with_capacity(text.len());
    for (start, character) in text.char_indices() {
        let end = start + character.len_utf8();
        if character.is_ascii() {
            clusters.push(Cluster { first: character, text: Composed::One(character), start, end });
            continue;
        }
        if is_zero_width(character) {
            continue;
        }
        match clusters.last_mut() {
            Some(cluster) if joins(character) => {
                cluster.end = end;
                match &mut cluster.text {
                    Composed::One(starter) => cluster.text = Composed::Many([*starter, character].iter().collect()),
                    Composed::Many(text) => text.push(character),
                }
            }
            _ => clusters.push(Cluster { first: character, text: Composed::One(character), start, end }),
        }
    }
    clusters.iter_mut().for_each(compose);
    clusters
}

fn compose(cluster: &mut Cluster) {
    let composed: String = match &cluster.text {
        Composed::One(character) if character.is_ascii() => return,
        Composed::One(character) if keeps_meaning(cluster.first) => character.nfkc().collect(),
        Composed::One(character) => character.nfc().collect(),
        Composed::Many(text) if keeps_meaning(cluster.first) => text.nfkc().collect(),
        Composed::Many(text) => text.nfc().collect(),
    };
    cluster.first = composed.chars().next().unwrap_or(cluster.first);
    cluster.text =
        if composed.chars().nth(1).is_none() { Composed::One(cluster.first) } else { Composed::Many(composed) };
}

/// Marks join the starter before them, and so do the vowels and finals of Hangul syllables and half-width voicing marks.
fn joins(character: char) -> bool {
    canonical_combining_class(character) != 0
        || is_combining_mark(character)
        || matches!(character, '\u{1160}'..='\u{11FF}' | '\u{FF9E}' | '\u{FF9F}')
}

/// NFKC turns circled digits, superscripts and fractions into digits that were never written; those stay as they are.
fn keeps_meaning(character: char) -> bool {
    !matches!(character,
        '\u{B2}' | '\u{B3}' | '\u{B9}' | '\u{BC}'..='\u{BE}' | '\u{2070}'..='\u{209F}' | '\u{2150}'..='\u{218B}'
        | '\u{2460}'..='\u{24FF}' | '\u{2776}'..='\u{2793}' | '\u{3200}'..='\u{33FF}' | '\u{1F100}'..='\u{1F2FF}')
}

pub(super) fn is_zero_width(character: char) -> bool {
    matches!(character,
        '\u{AD}' | '\u{34F}' | '\u{61C}' | '\u{180B}'..='\u{180F}' | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}'
        | '\u{2060}'..='\u{2069}' | '\u{3164}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' | '\u{E0000}'..='\u{E007F}'
        | '\u{E0100}'..='\u{E01EF}')
}

enum Class {
    Space,
    Hyphen,
    Apostrophe,
    Quote,
    Emphasis,
    Other,
}

fn class(character: char) -> Class {
    match character {
        '_' => Class::Space,
        '*' | '`' => Class::Emphasis,
        '-' | '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{FE58}' | '\u{FE63}' | '\u{FF0D}' => Class::Hyphen,
        '\'' | '\u{2018}' | '\u{2019}' | '\u{201B}' | '\u{2BC}' | '\u{2032}' | '\u{B4}' | '\u{FF07}' => {
            Class::Apostrophe
        }
        '"' | '\u{201C}'..='\u{201F}' | '\u{AB}' | '\u{BB}' | '\u{FF02}' => Class::Quote,
        _ if character.is_whitespace() || character.is_control() => Class::Space,
        _ => Class::Other,
    }
}

/// Whether a character counts as a hyphen.
pub(super) fn is_hyphen(character: char) -> bool {
    matches!(class(character), Class::Hyphen)
}

fn is_digit(character: Option<char>) -> bool {
    character.is_some_and(char::is_numeric)
}

fn is_letter(character: Option<char>) -> bool {
    character.is_some_and(char::is_alphabetic)
}

/// `xY`, and the last capital of `XYz`.
fn is_camel_boundary(before: Option<char>, character: char, after: Option<char>) -> bool {
    character.is_uppercase()
        && before.is_some_and(|before| {
            before.is_lowercase() || (before.is_uppercase() && after.is_some_and(char::is_lowercase))
        })
}
