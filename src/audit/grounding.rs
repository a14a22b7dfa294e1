//! Whether the values an answer states stand in its prompt.
//!
//! In: an answer and the prompt's text. Out: the places of values found nowhere in the prompt. Values are tokens with a digit
//! (numbers, dates, amounts, codes), addresses of mail and web, and capitalised words inside a sentence (names).

use std::collections::HashSet;
use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use super::text::Text;
use crate::adjudicate::MONTHS;

/// A prompt's text, prepared for look-ups.
#[derive(Debug, Clone)]
pub struct Source {
    text: Text<'static>,
    words: HashSet<String>,
    numbers: HashSet<String>,
}

#[expect(clippy::unwrap_used, reason = "the pattern is a constant, compiled in a test")]
static TOKEN: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"[$€£#@+\-−]?[\p{L}\p{N}](?:[\p{L}\p{N}'’.,:/@%_+&-]*[\p{L}\p{N}%])?").unwrap());

/// Words that any answer may capitalise.
const FREE: [&str; 6] = ["i", "am", "pm", "utc", "detail", "value"];

/// Those, and names of months, whole or short, which are written out where the source has digits.
fn is_free(word: &str) -> bool {
    FREE.contains(&word) || word == "sept" || MONTHS.iter().any(|month| *month == word || month[..3] == *word)
}

impl Source {
    /// Prepares a text; `\"` and its kin are undone, since prompts hold JSON.
    pub fn new(text: &str) -> Self {
        let text = format!("{text}\n{}", unescape(text));
        let parts = || text.split(|character: char| !character.is_alphanumeric()).filter(|part| !part.is_empty());
        let mut words: HashSet<String> = parts().map(str::to_lowercase).collect();
        words.extend(parts().flat_map(split_camel).map(str::to_lowercase));
        Self { words, numbers: text.split_whitespace().flat_map(digit_runs).collect(), text: Text::new(text) }
    }

    /// The text itself.
    pub fn text(&self) -> &str {
        self.text.as_str()
    }

    /// Whether a value stands in it.
    pub(super) fn holds_text(&self, value: &str) -> bool {
        self.text.holds(value)
    }

    /// Places in `answer` of values that the source does not hold.
    pub fn ungrounded(&self, answer: &str) -> Vec<Range<usize>> {
        TOKEN
            .find_iter(answer)
            .filter(|token| !self.holds(answer, token.range(), token.as_str()))
            .map(|token| token.range())
            .collect()
    }

    fn holds(&self, answer: &str, range: Range<usize>, token: &str) -> bool {
        if token.chars().any(|character| character.is_ascii_digit()) {
            return is_enumerator(answer, &range) || self.holds_value(token);
        }
        if token.contains('@') {
            return self.holds_value(token);
        }
        let is_name = token.chars().next().is_some_and(char::is_uppercase);
        !is_name || opens_sentence(answer, range.start) || self.holds_words(token)
    }

    /// Whole, or number by number (`March 10` for `2026-03-10`, `$5,000` for `$5000`) as long as it is no code.
    fn holds_value(&self, token: &str) -> bool {
        if self.text.holds(token) {
            return true;
        }
        let is_plain =
            token.split(|character: char| !character.is_alphabetic()).filter(|part| !part.is_empty()).all(|letters| {
                let letters = letters.to_lowercase();
                is_free(&letters)
                    || ["st", "nd", "rd", "th", "h", "m", "s", "x"].contains(&letters.as_str())
                    || self.words.contains(&letters)
            });
        is_plain && digit_runs(token).iter().all(|number| self.numbers.contains(number))
    }

    fn holds_words(&self, token: &str) -> bool {
        token
            .split(|character: char| !character.is_alphanumeric())
            .filter(|part| part.chars().next().is_some_and(char::is_uppercase))
            .map(str::to_lowercase)
            .all(|word| is_free(&word) || self.words.contains(&word))
    }
}

/// Runs of digits without separators of thousands and leading zeros, so that equal numbers are equal texts.
fn digit_runs(token: &str) -> Vec<String> {
    let joined = token.replace(',', "");
    let parts = joined.split(|character: char| !character.is_ascii_digit());
    parts.map(|part| part.trim_start_matches('0').to_owned()).filter(|run| !run.is_empty()).collect()
}

/// `lastLogin` and `ATMCash` as their words.
fn split_camel(word: &str) -> Vec<&str> {
    let bounds: Vec<(usize, char)> = word.char_indices().collect();
    let mut starts = vec![0];
    for pair in bounds.windows(2) {
        if pair[0].1.is_lowercase() && pair[1].1.is_uppercase() {
            starts.push(pair[1].0);
        }
    }
    starts.push(word.len());
    starts.windows(2).map(|pair| &word[pair[0]..pair[1]]).collect()
}

fn unescape(text: &str) -> String {
    text.replace("\\\"", "\"").replace("\\n", "\n").replace("\\/", "/").replace("\\\\", "\\")
}

/// `1.` or `2)` at the start of a line numbers the line.
fn is_enumerator(answer: &str, range: &Range<usize>) -> bool {
    let before = answer[..range.start].rsplit('\n').next().unwrap_or_default();
    let after = &answer[range.end..];
    before.trim_matches([' ', '*', '#']).is_empty() && (after.starts_with(". ") || after.starts_with(')'))
}

/// Whether a word at `start` is capitalised because something begins there.
fn opens_sentence(answer: &str, start: usize) -> bool {
    let before = answer[..start].trim_end_matches([' ', '*', '_', '"', '“', '(', '#', '>']);
    let before =
        before.strip_suffix(['-', '•', '|']).map_or(before, |rest| if rest.ends_with('\n') { "" } else { before });
    before.is_empty() || before.ends_with(['\n', '.', '!', '?'])
}

#[cfg(test)]
mod tests {
    use super::Source;

    fn ungrounded(source: &str, answer: &str) -> Vec<String> {
        Source::new(source).ungrounded(answer).into_iter().map(|range| answer[range].to_owned()).collect()
    }

    #[test]
    fn values_of_the_source_are_grounded_in_any_common_form() {
        let source = r#"Request: trip {"flight": "UA442", "depart": "2026-03-10 07:00", "amount": 5000.00, "by": "Dr. Anne Lee"}"#;
        let answer = "Here it is: flight UA442 leaves on March 10, 2026 at 7:00 and costs 5,000; ask Dr. Anne Lee.";
        assert_eq!(ungrounded(source, answer), Vec::<String>::new());
    }

    #[test]
    fn invented_numbers_codes_and_names_are_not() {
        let source = r#"{"flight": "UA442", "amount": "$50"}"#;
        assert_eq!(ungrounded(source, "The flight is UA443 for $51, says Miller."), ["UA443", "$51", "Miller"]);
    }

    #[test]
    fn numbering_and_sentence_starts_are_not_values() {
        assert_eq!(ungrounded("{}", "Here you go.\n1. First\n2. Second\nAll of it."), Vec::<String>::new());
    }
}
