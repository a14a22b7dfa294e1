//! The forms of a target that are searched for.
//!
//! In: a [`Target`]. Out: [`Pattern`]s: its value and aliases as declared, normalised, and in the few inflections and
//! spellings that cannot mean anything else.

use std::collections::BTreeSet;

use super::normalise::{self, Camel};
use crate::contract::{Target, TargetKind};

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
}

/// All forms of a target.
pub(super) fn patterns(index: usize, target: &Target) -> Vec<Pattern> {
    let forms = std::iter::once((None, &target.value))
        .chain(target.aliases.iter().enumerate().map(|(alias, form)| (Some(alias), form)));
    forms.flat_map(|(alias, form)| of_form(index, alias, form, target)).collect()
}

fn of_form(target: usize, alias: Option<usize>, form: &str, owner: &Target) -> Vec<Pattern> {
    let declared = form.trim();
    let capitals = is_acronym(declared).then(|| declared.to_owned());
    let mut texts = BTreeSet::new();
    for camel in [Camel::Keep, Camel::Split] {
        texts.insert(normalise::pattern(declared, camel));
    }
    let made = match owner.kind {
        TargetKind::Label if capitals.is_some() => vec![format!("{}s", normalise::pattern(declared, Camel::Keep))],
        TargetKind::Label => inflections(&normalise::pattern(declared, Camel::Keep)),
        TargetKind::Number => without_trailing_zeros(declared).into_iter().collect(),
        _ => Vec::new(),
    };
    let as_declared = texts.into_iter().map(|text| (text, true));
    as_declared
        .chain(made.into_iter().map(|text| (text, false)))
        .filter(|(text, _)| !text.is_empty())
        .map(|(text, is_declared)| Pattern {
            target,
            alias,
            text,
            declared: is_declared.then(|| declared.to_owned()),
            capitals: capitals.as_ref().map(|word| if is_declared { word.clone() } else { format!("{word}s") }),
        })
        .collect()
}

/// Up to four letters, at least two of them capitals and the first one too: `SEC`, `AA`, `PrEP`.
fn is_acronym(form: &str) -> bool {
    let letters = form.chars().count();
    (1..=4).contains(&letters)
        && form.chars().all(char::is_alphabetic)
        && form.chars().filter(|letter| letter.is_uppercase()).count() >= letters.min(2)
}

/// Regular forms of a label's last word; of a single word also its verb forms. Nonsense forms match nothing.
fn inflections(label: &str) -> Vec<String> {
    let (head, word) = label.rsplit_once(' ').map_or(("", label), |(head, word)| (head, word));
    if word.len() < 4 || !word.chars().all(|letter| letter.is_ascii_lowercase()) {
        return Vec::new();
    }
    let mut words = vec![plural(word)];
    if head.is_empty() && !word.ends_with("ing") && !word.ends_with("ed") {
        let stem = word.strip_suffix('e').unwrap_or(word);
        words.push(format!("{stem}ing"));
        words.push(match word.strip_suffix('y') {
            Some(stem) if !stem.ends_with(['a', 'e', 'o', 'u']) => format!("{stem}ied"),
            _ => format!("{stem}ed"),
        });
    }
    words.into_iter().map(|word| if head.is_empty() { word } else { format!("{head} {word}") }).collect()
}

fn plural(word: &str) -> String {
    match word.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'o', 'u']) => format!("{stem}ies"),
        _ if word.ends_with(['s', 'x', 'z']) || word.ends_with("ch") || word.ends_with("sh") => format!("{word}es"),
        _ => format!("{word}s"),
    }
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
