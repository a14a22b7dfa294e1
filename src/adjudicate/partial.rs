//! Parts of a target: masked numbers and addresses, initials, surnames alone. Never decisive.
//!
//! In: text as written. Out: [`Part`]s.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use regex::Regex;

use super::boundary;
use super::normalise::{Camel, Normalised};
use crate::contract::{Target, TargetKind};
use crate::error::Result;

/// Digits of a number from which its last few are a part of it.
const SHORTEST_NUMBER: usize = 8;
/// Last digits by which numbers are looked up.
pub(super) const SUFFIX: usize = 3;

static MASKED: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?:[*xX\u{2022}\u{B7}#]{2,16}[ -]?){1,6}(?P<digits>\d{3,6})").ok());
static ENDING: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?:ending|ends|ended|last (?:four|4|three|3)(?: digits)?)(?: in| with| of| are| is)?:? (?P<digits>\d{3,6})").ok()
});
static MASKED_ADDRESS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?i)(?P<first>[a-z0-9])[*\u{2022}]{2,16}[a-z0-9]?@(?P<domain>[a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63}){1,4})",
    )
    .ok()
});

/// A part of a target.
pub(super) struct Part {
    /// Index of the target.
    pub target: usize,
    /// Index of the alias.
    pub alias: Option<usize>,
    /// Bytes of the text.
    pub range: Range<usize>,
}

/// A target and the index of its alias; `None` for the value.
type Form = (usize, Option<usize>);

/// A name of several words.
#[derive(Debug, Clone)]
struct Name {
    target: usize,
    alias: Option<usize>,
    given: String,
    surname: String,
}

/// What parts to look for.
#[derive(Debug, Clone)]
pub(super) struct Parts {
    names: Vec<Name>,
    /// Surname and given name of each name, in turn.
    words: AhoCorasick,
    /// Digits by their last few.
    numbers: BTreeMap<String, Vec<(Form, String)>>,
    /// First letter and domain.
    addresses: BTreeMap<(String, String), Vec<Form>>,
}

impl Parts {
    /// Prepares the parts of all targets.
    ///
    /// # Errors
    /// Names too many to compile.
    pub fn new(targets: &[Target]) -> Result<Self> {
        let mut parts = Self {
            names: Vec::new(),
            words: super::matcher::compile::<&str>(&[])?,
            numbers: BTreeMap::new(),
            addresses: BTreeMap::new(),
        };
        for (index, target) in targets.iter().enumerate() {
            let forms = std::iter::once((None, &target.value))
                .chain(target.aliases.iter().enumerate().map(|(alias, form)| (Some(alias), form)));
            for (alias, form) in forms {
                parts.add(index, alias, form, target.kind);
            }
        }
        let words: Vec<&str> =
            parts.names.iter().flat_map(|name| [name.surname.as_str(), name.given.as_str()]).collect();
        parts.words = super::matcher::compile(&words)?;
        Ok(parts)
    }

    fn add(&mut self, target: usize, alias: Option<usize>, form: &str, kind: TargetKind) {
        match kind {
            TargetKind::Person => {
                let normalised = Normalised::of(form.trim(), Camel::Keep).text;
                let words: Vec<&str> =
                    normalised.split(' ').filter(|word| word.chars().any(char::is_alphabetic)).collect();
                if let [given, .., surname] = words.as_slice()
                    && surname.chars().nth(1).is_some()
                {
                    self.names.push(Name { target, alias, given: (*given).to_owned(), surname: (*surname).to_owned() });
                }
            }
            TargetKind::Account | TargetKind::Phone | TargetKind::Number => {
                let digits: String = form.chars().filter(char::is_ascii_digit).collect();
                if digits.len() >= SHORTEST_NUMBER {
                    let suffix = digits[digits.len() - SUFFIX..].to_owned();
                    self.numbers.entry(suffix).or_default().push(((target, alias), digits));
                }
            }
            TargetKind::Email => {
                if let Some((local, domain)) = form.trim().to_lowercase().split_once('@') {
                    let first = local.chars().take(1).collect();
                    self.addresses.entry((first, domain.to_owned())).or_default().push((target, alias));
                }
            }
            _ => {}
        }
    }

    /// Surnames, with their length: what any part of a name contains.
    pub fn anchors(&self) -> impl Iterator<Item = (&str, usize)> {
        self.names.iter().flat_map(|name| {
            let length = name.given.len() + name.surname.len() + 8;
            [(name.surname.as_str(), length), (name.given.as_str(), length)]
        })
    }

    /// The last digits of all numbers.
    pub fn suffixes(&self) -> BTreeSet<&str> {
        self.numbers.keys().map(String::as_str).collect()
    }

    /// Whether addresses are looked for.
    pub fn has_addresses(&self) -> bool {
        !self.addresses.is_empty()
    }

    /// Parts of names, in the bytes of the original text.
    pub fn names(&self, original: &str, text: &Normalised) -> Vec<Part> {
        let mut found = Vec::new();
        for hit in self.words.find_overlapping_iter(&text.text) {
            let name = &self.names[hit.pattern().as_usize() / 2];
            if !boundary::is_bounded(&text.text, &hit.range()) {
                continue;
            }
            let range = if hit.pattern().as_usize() % 2 == 0 {
                Some(name.with_surname(&text.text, &hit.range()))
            } else {
                name.with_initial(&text.text, &hit.range())
            };
            let Some(range) = range else { continue };
            let origin = text.origin(&range);
            let word = text.origin(&hit.range());
            let is_name =
                original.get(word).is_some_and(|word| word.chars().next().is_some_and(|first| !first.is_lowercase()));
            if is_name {
                found.push(Part { target: name.target, alias: name.alias, range: origin });
            }
        }
        found
    }

    /// Masked numbers and addresses.
    pub fn masked(&self, text: &str) -> Vec<Part> {
        let mut found = Vec::new();
        if !self.numbers.is_empty() {
            for captures in [&MASKED, &ENDING]
                .into_iter()
                .filter_map(|pattern| pattern.as_ref())
                .flat_map(|pattern| pattern.captures_iter(text))
            {
                let (Some(whole), Some(digits)) = (captures.get(0), captures.name("digits")) else { continue };
                if text[whole.end()..].starts_with(|next: char| next.is_alphanumeric()) {
                    continue;
                }
                let suffix = &digits.as_str()[digits.len() - SUFFIX..];
                let numbers = self
                    .numbers
                    .get(suffix)
                    .into_iter()
                    .flatten()
                    .filter(|(_, number)| number.ends_with(digits.as_str()));
                found.extend(numbers.map(|((target, alias), _)| Part {
                    target: *target,
                    alias: *alias,
                    range: whole.range(),
                }));
            }
        }
        if self.has_addresses() && text.contains('@') {
            for captures in MASKED_ADDRESS.iter().flat_map(|pattern| pattern.captures_iter(text)) {
                let key = (captures["first"].to_lowercase(), captures["domain"].to_lowercase());
                let range = captures.get(0).map_or(0..0, |whole| whole.range());
                let targets = self.addresses.get(&key).into_iter().flatten();
                found.extend(targets.map(|(target, alias)| Part {
                    target: *target,
                    alias: *alias,
                    range: range.clone(),
                }));
            }
        }
        found
    }
}

impl Name {
    /// The surname at `range`, with a given name or its initial before it.
    fn with_surname(&self, text: &str, range: &Range<usize>) -> Range<usize> {
        let before = text[..range.start].strip_suffix(' ').unwrap_or("");
        let word =
            before.rsplit(|character: char| !(character.is_alphabetic() || character == '.')).next().unwrap_or("");
        let initial = word.strip_suffix('.').unwrap_or(word);
        let belongs = word == self.given || (initial.chars().count() == 1 && self.given.starts_with(initial));
        let start = if belongs { range.start - 1 - word.len() } else { range.start };
        start..range.end
    }

    /// The given name at `range` if the surname's initial follows it.
    fn with_initial(&self, text: &str, range: &Range<usize>) -> Option<Range<usize>> {
        let initial = self.surname.chars().next()?;
        let after = text[range.end..].strip_prefix(' ')?.strip_prefix(initial)?.strip_prefix('.')?;
        Some(range.start..text.len() - after.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fixed_pattern_compiles() {
        for pattern in [&MASKED, &ENDING, &MASKED_ADDRESS] {
            assert!(pattern.is_some());
        }
    }
}
