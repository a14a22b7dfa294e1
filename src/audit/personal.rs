//! Personal data that a prompt does not hold, and the language of an answer.
//!
//! In: an answer and what it may draw on. Out: places.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

/// Letters from which the language of an answer can be told.
const FEWEST_LETTERS: usize = 40;
/// Share of letters outside the Latin script from which an answer is in another.
const OTHER_SCRIPT: f64 = 0.3;
/// Share of words that are English function words, below which a text of words is not English.
const FUNCTION_WORDS: f64 = 0.06;
/// Words that every English text of some length holds.
const COMMON: [&str; 36] = [
    "the", "a", "an", "of", "to", "in", "on", "at", "for", "from", "with", "by", "and", "or", "is", "are", "was", "it",
    "this", "that", "these", "i", "you", "your", "here", "as", "be", "have", "has", "not", "all", "what", "them",
    "they", "if", "can",
];

/// Addresses of mail, telephone, card, account and social security numbers, and IP addresses.
#[expect(clippy::unwrap_used, reason = "the pattern is a constant, compiled in a test")]
static PERSONAL: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?x)
        \b[\w.+-]+@[\w-]+\.[\w.]*\w
        |\+\d{1,3}[\s-]?(?:\(\d{1,4}\)[\s-]?)?\d(?:[\s-]?\d){6,12}\b
        |\(\d{3}\)\s?\d{3}-\d{4}\b
        |\b\d{3}-\d{2}-\d{4}\b
        |\b(?:\d{4}[\s-]){3}\d{4}\b
        |\b[A-Z]{2}\d{2}(?:\s?[A-Z0-9]{4}){3,7}\b
        |\b(?:\d{1,3}\.){3}\d{1,3}\b",
    )
    .unwrap()
});

/// Personal data in an answer that `is_known` does not find in what the answer draws on.
pub(super) fn unknown_personal(answer: &str, is_known: impl Fn(&str) -> bool) -> Vec<Range<usize>> {
    PERSONAL.find_iter(answer).filter(|found| !is_known(found.as_str())).map(|found| found.range()).collect()
}

/// Whether an answer is written in English, as far as script and function words tell; short answers and bare lists are.
pub(super) fn is_english(answer: &str) -> bool {
    let letters: Vec<char> = answer.chars().filter(|letter| letter.is_alphabetic()).collect();
    if letters.len() < FEWEST_LETTERS {
        return true;
    }
    let is_latin = |letter: &&char| matches!(**letter, 'a'..='z' | 'A'..='Z' | '\u{C0}'..='\u{24F}');
    let others = letters.len() - letters.iter().filter(is_latin).count();
    if others as f64 / letters.len() as f64 > OTHER_SCRIPT {
        return false;
    }
    let lower = answer.to_lowercase();
    // Only words of running text count: a list of names and numbers has no language.
    let words: Vec<&str> =
        lower.split(|letter: char| !letter.is_alphabetic() && letter != '\'').filter(|word| !word.is_empty()).collect();
    let common = words.iter().filter(|word| COMMON.contains(word)).count();
    // A point within a number ends no sentence.
    let sentences = answer.split_whitespace().filter(|word| word.ends_with(['.', '!', '?'])).count();
    common as f64 >= FUNCTION_WORDS * words.len() as f64 || sentences == 0
}

#[cfg(test)]
mod tests {
    use super::{is_english, unknown_personal};

    #[test]
    fn personal_data_of_every_kind_is_found_unless_the_prompt_has_it() {
        for text in [
            "Write to a.b@mail.example.",
            "Call +44 7700 900123.",
            "Call (202) 555-0147 today.",
            "SSN 078-05-1120",
            "Card 4111 1111 1111 1111",
            "IBAN DE89 3704 0044 0532 0130 00",
            "From 192.168.10.4",
        ] {
            assert_eq!(unknown_personal(text, |_| false).len(), 1, "{text}");
            assert!(unknown_personal(text, |_| true).is_empty());
        }
        assert!(unknown_personal("Fee $1,284.60 on 2026-03-14 09:40, ticket TX-48213K.", |_| false).is_empty());
    }

    #[test]
    fn other_languages_and_scripts_are_told_from_english_and_lists() {
        assert!(is_english(
            "Here is what you asked for: the ticket is TX-1 and the fee is $3. That covers the request."
        ));
        assert!(is_english("Ticket: TX-48213K; fee: $3.50; seat: 12B; driver: Anne Lee; storage: 14 Torphy Lane"));
        assert!(!is_english(
            "Hier sind die gewünschten Angaben: Der Beleg lautet TX-1, die Gebühr beträgt drei Dollar."
        ));
        assert!(!is_english("Вот запрошенные сведения: номер квитанции и сумма указаны ниже в таблице."));
    }
}
