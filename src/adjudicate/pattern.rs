//! The forms of a target that are searched for.
//!
//! In: a [`Target`]. Out: [`Pattern`]s: its value and aliases as declared, normalised, and in the few inflections and
//! spellings that cannot mean anything else.

use std::collections::BTreeSet;

use super::Tier;
use super::normalise::{self, Camel};
use crate::contract::{Target, TargetKind};

/// Letters of a part of a word that stands apart.
const SHORTEST_PART: usize = 4;

/// Second parts of words that are made of a verb and a short word.
const PARTICLES: [&str; 8] = ["up", "ups", "off", "offs", "out", "outs", "down", "downs"];
/// Letters of such a verb.
const SHORTEST_VERB: usize = 3;

/// One form of one target.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    /// Index of the target in the contract.
    pub target: usize,
    /// Index of the alias; `None` for the value.
    pub alias: Option<usize>,
    /// Normalised text.
    pub text: String,
    /// The declared form, for the exact tier; `None` for forms made here.
    pub declared: Option<String>,
    /// Capitals that must stand as written: `AIDS` is not `aids`.
    pub capitals: Option<String>,
    /// How the payload must spell it.
    pub spelling: Spelling,
    /// Normalised; partial for acronyms that are made here.
    pub tier: Tier,
}

/// What a form that was made here must look like in the payload itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Spelling {
    /// As anything that is normalised to it.
    Any,
    /// With a hyphen: `break-up` is a `breakup`, `break up` is something to do with a list.
    Hyphenated,
    /// To the letter.
    Literal(String),
}

/// All forms of a target.
pub(super) fn patterns(index: usize, target: &Target) -> Vec<Pattern> {
    let forms = std::iter::once((None, &target.value))
        .chain(target.aliases.iter().enumerate().map(|(alias, form)| (Some(alias), form)));
    forms.flat_map(|(alias, form)| of_form(index, alias, form, target)).collect()
}

fn of_form(target: usize, alias: Option<usize>, form: &str, owner: &Target) -> Vec<Pattern> {
    let declared = form.trim();
    let mut patterns = of_text(target, alias, declared, owner.kind);
    if owner.kind == TargetKind::Label
        && let Some((expansion, acronym)) = expansion(declared)
    {
        for part in [expansion, acronym] {
            patterns.extend(of_text(target, alias, part, owner.kind).into_iter().map(|mut pattern| {
                pattern.declared = None;
                pattern
            }));
        }
    }
    patterns
}

fn of_text(target: usize, alias: Option<usize>, declared: &str, kind: TargetKind) -> Vec<Pattern> {
    let capitals = is_acronym(declared).then(|| declared.to_owned());
    let mut texts = BTreeSet::new();
    for camel in [Camel::Keep, Camel::Split] {
        texts.insert(normalise::pattern(declared, camel));
    }
    let keep = normalise::pattern(declared, Camel::Keep);
    let mut made = match kind {
        TargetKind::Label if capitals.is_some() => vec![format!("{keep}s")],
        TargetKind::Label => joined_and_apart(&keep),
        TargetKind::Number => without_trailing_zeros(declared).into_iter().collect(),
        TargetKind::Person => surname_first(&keep).into_iter().collect(),
        _ => Vec::new(),
    };
    made.retain(|text| !text.is_empty());
    let pattern = |text: String| Pattern {
        target,
        alias,
        text,
        declared: None,
        capitals: capitals.clone(),
        spelling: Spelling::Any,
        tier: Tier::Normalized,
    };
    let declare = |text| Pattern { declared: Some(declared.to_owned()), ..pattern(text) };
    let mut all: Vec<Pattern> = texts.into_iter().filter(|text| !text.is_empty()).map(declare).collect();
    let plural = capitals.as_ref().map(|word| format!("{word}s"));
    all.extend(made.into_iter().map(|text| Pattern { capitals: plural.clone(), ..pattern(text) }));
    if kind == TargetKind::Label {
        all.extend(capitals.as_deref().and_then(dotted).map(|text| Pattern {
            capitals: None,
            spelling: Spelling::Literal(text.to_ascii_uppercase()),
            ..pattern(text)
        }));
        all.extend(with_particle(&keep).map(|text| Pattern { spelling: Spelling::Hyphenated, ..pattern(text) }));
    }
    all
}

/// `HIV` is also written `H.I.V.`
fn dotted(acronym: &str) -> Option<String> {
    let is_plain = acronym.len() > 1 && acronym.chars().all(|letter| letter.is_ascii_uppercase());
    is_plain.then(|| acronym.to_ascii_lowercase().chars().map(String::from).collect::<Vec<_>>().join("."))
}

/// `breakup` and `layoffs` are also written with a hyphen, whose parts are too short to stand apart.
fn with_particle(label: &str) -> Option<String> {
    PARTICLES.iter().find_map(|particle| {
        let verb = label.strip_suffix(particle)?;
        let is_word = verb.len() >= SHORTEST_VERB && verb.chars().all(|letter| letter.is_ascii_lowercase());
        is_word.then(|| format!("{verb} {particle}"))
    })
}

/// The forms of a label whose words may be inflected or stand in another order; acronyms stand as they are.
pub(super) fn wordings(index: usize, target: &Target) -> Vec<(usize, Option<usize>, String)> {
    if target.kind != TargetKind::Label {
        return Vec::new();
    }
    let forms = std::iter::once((None, &target.value))
        .chain(target.aliases.iter().enumerate().map(|(alias, form)| (Some(alias), form)));
    forms
        .map(|(alias, form)| (alias, expansion(form.trim()).map_or(form.trim(), |(expansion, _)| expansion)))
        .filter(|(_, form)| !is_acronym(form))
        .map(|(alias, form)| (index, alias, form.to_owned()))
        .collect()
}

/// `post-traumatic stress disorder (PTSD)` names both, and so does `PTSD (post-traumatic stress disorder)`.
fn expansion(form: &str) -> Option<(&str, &str)> {
    let (first, second) = form.strip_suffix(')')?.split_once(" (")?;
    let is_short = |part: &str| is_acronym(part) || (part.len() <= 8 && part.chars().all(char::is_uppercase));
    match (is_short(first), is_short(second)) {
        (false, true) => Some((first, second)),
        (true, false) => Some((second, first)),
        _ => None,
    }
}

/// Up to four letters, at least two of them capitals and the first one too: `SEC`, `AA`, `PrEP`.
fn is_acronym(form: &str) -> bool {
    let letters = form.chars().count();
    (1..=4).contains(&letters)
        && form.chars().all(char::is_alphabetic)
        && form.chars().filter(|letter| letter.is_uppercase()).count() >= letters.min(2)
}

/// `night shift` is also written `nightshift`, and `whistleblower` in two words; both parts must be long enough to be words.
fn joined_and_apart(label: &str) -> Vec<String> {
    let words: Vec<&str> = label.split(' ').collect();
    let is_plain = |word: &&str| word.chars().all(|letter| letter.is_ascii_lowercase());
    if !words.iter().all(is_plain) {
        return Vec::new();
    }
    match words.as_slice() {
        [word] => (SHORTEST_PART..=word.len().saturating_sub(SHORTEST_PART))
            .map(|at| format!("{} {}", &word[..at], &word[at..]))
            .collect(),
        [_, _] | [_, _, _] if label.len() > 2 * SHORTEST_PART => vec![words.concat()],
        _ => Vec::new(),
    }
}

/// `Rahman, Aisha` is `Aisha Rahman`.
fn surname_first(name: &str) -> Option<String> {
    let (given, surname) = name.rsplit_once(' ')?;
    Some(format!("{surname}, {given}"))
}

/// `170.50` is written `170.5` when JSON is serialised again.
fn without_trailing_zeros(number: &str) -> Option<String> {
    let (whole, fraction) = number.split_once('.')?;
    let is_plain =
        whole.chars().all(|digit| digit.is_ascii_digit()) && fraction.chars().all(|digit| digit.is_ascii_digit());
    let kept = fraction.trim_end_matches('0');
    (is_plain && kept.len() < fraction.len())
        .then(|| if kept.is_empty() { whole.to_owned() } else { format!("{whole}.{kept}") })
}
