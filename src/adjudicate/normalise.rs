//! Normalised text with a map back to the original bytes, so that a match found in either shows where it stands.
//!
//! In: the characters of a payload with their byte ranges ([`Unit`]). Out: [`Normalised`]: full case folding, NFKC where it
//! keeps the meaning, no zero-width characters, one kind of space, hyphen and apostrophe, separators between words as
//! single spaces, no markdown emphasis.

use std::ops::Range;

use icu_casemap::CaseMapper;
use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::{canonical_combining_class, is_combining_mark};

/// A character with the bytes of the payload that it stands for (six bytes for a decoded `\u00e9`).
#[derive(Debug, Clone, Copy)]
pub(super) struct Unit {
    /// The character.
    pub character: char,
    /// First byte in the payload.
    pub start: usize,
    /// One past its last byte.
    pub end: usize,
}

/// The units of plain text: each character stands for itself.
pub(super) fn units(text: &str) -> Vec<Unit> {
    text.char_indices().map(|(start, character)| Unit { character, start, end: start + character.len_utf8() }).collect()
}

/// Whether `camelCase` counts as two words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Camel {
    /// As one word.
    Keep,
    /// As two.
    Split,
}

/// Text to search, and for each of its bytes the bytes of the payload behind it.
#[derive(Debug, Default)]
pub(super) struct Normalised {
    /// The normalised text.
    pub text: String,
    /// One entry a byte of `text`.
    origins: Vec<(usize, usize)>,
}

impl Normalised {
    /// Normalises units.
    pub fn of(units: &[Unit], camel: Camel) -> Self {
        let clusters = clusters(units);
        let mut normalised = Self::default();
        for index in 0..clusters.len() {
            normalised.add(&clusters, index, camel);
        }
        normalised
    }

    /// The bytes of the payload behind a byte range of `text`.
    pub fn origin(&self, range: &Range<usize>) -> Range<usize> {
        let start = self.origins.get(range.start).map_or(0, |origin| origin.0);
        let end = range.end.checked_sub(1).and_then(|last| self.origins.get(last)).map_or(start, |origin| origin.1);
        start..end.max(start)
    }

    /// Without spaces and hyphens, with the byte of `text` that each byte came from: for account numbers.
    pub fn compact(&self) -> (String, Vec<usize>) {
        let mut compact = String::with_capacity(self.text.len());
        let mut positions = Vec::with_capacity(self.text.len() + 1);
        for (start, character) in self.text.char_indices().filter(|(_, character)| !matches!(character, ' ' | '-')) {
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
            Class::Emphasis | Class::Other => {
                let folded = CaseMapper::new().fold_string(&cluster.text).into_owned();
                self.push(&folded, cluster);
            }
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
    Normalised::of(&units(text), camel).text.trim().to_owned()
}

/// A starter with its marks, composed.
struct Cluster {
    first: char,
    text: String,
    start: usize,
    end: usize,
}

fn clusters(units: &[Unit]) -> Vec<Cluster> {
    let mut clusters: Vec<Cluster> = Vec::with_capacity(units.len());
    for unit in units.iter().filter(|unit| !is_zero_width(unit.character)) {
        match clusters.last_mut() {
            Some(cluster) if joins(unit.character) => {
                cluster.text.push(unit.character);
                cluster.end = unit.end;
            }
            _ => clusters.push(Cluster {
                first: unit.character,
                text: unit.character.to_string(),
                start: unit.start,
                end: unit.end,
            }),
        }
    }
    for cluster in &mut clusters {
        cluster.text =
            if keeps_meaning(cluster.first) { cluster.text.nfkc().collect() } else { cluster.text.nfc().collect() };
        cluster.first = cluster.text.chars().next().unwrap_or(cluster.first);
    }
    clusters
}

/// Marks join the starter before them, and so do the vowels and finals of Hangul syllables.
fn joins(character: char) -> bool {
    canonical_combining_class(character) != 0
        || is_combining_mark(character)
        || matches!(character, '\u{1160}'..='\u{11FF}')
}

/// NFKC turns circled digits, superscripts and fractions into digits that were never written; those stay as they are.
fn keeps_meaning(character: char) -> bool {
    !matches!(character,
        '\u{B2}' | '\u{B3}' | '\u{B9}' | '\u{BC}'..='\u{BE}' | '\u{2070}'..='\u{209F}' | '\u{2150}'..='\u{218B}'
        | '\u{2460}'..='\u{24FF}' | '\u{2776}'..='\u{2793}' | '\u{3200}'..='\u{33FF}' | '\u{1F100}'..='\u{1F2FF}')
}

fn is_zero_width(character: char) -> bool {
    matches!(character,
        '\u{AD}' | '\u{34F}' | '\u{61C}' | '\u{180B}'..='\u{180F}' | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}'
        | '\u{2060}'..='\u{2069}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' | '\u{E0100}'..='\u{E01EF}')
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
