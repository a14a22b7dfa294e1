//! Candidates out of what was shown, by form alone: a probe does not know what is private.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::Regex;

use crate::run::digest;

/// What looks like a value in running text: names of two words or more, and tokens with digits.
static VALUE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let name = r"\p{Lu}[\p{L}'-]+(?: \p{Lu}[\p{L}'-]+)+";
    let token = r"[$+(]?[\p{L}\d][\p{L}\d@._:,()/-]*\d[\p{L}\d@._:,()/-]*";
    Regex::new(&format!("{name}|{token}")).ok()
});

/// Values of `name: value` lines and, in running text, names and tokens with digits, each once: the most frequent first, equal ones
/// in an order that depends on their letters alone, so that a limit favours neither early nor late ones.
pub fn candidates(shown: &[String], most: Option<usize>) -> Vec<String> {
    let mut order: Vec<String> = Vec::new();
    let mut counts: HashMap<String, usize> = HashMap::new();
    for line in shown.iter().flat_map(|text| text.lines()) {
        for value in values(line.trim()) {
            let key = value.to_lowercase();
            let count = counts.entry(key).or_default();
            *count += 1;
            if *count == 1 {
                order.push(value.to_owned());
            }
        }
    }
    let mut places: Vec<usize> = (0..order.len()).collect();
    places.sort_by_cached_key(|place| {
        let key = order[*place].to_lowercase();
        (std::cmp::Reverse(counts[&key]), digest::of_bytes(key.as_bytes()))
    });
    let most = most.unwrap_or(usize::MAX);
    places.into_iter().take(most).map(|place| order[place].clone()).collect()
}

/// The value of a line with a short label, or what looks like one.
fn values(line: &str) -> Vec<&str> {
    if let Some((label, value)) = line.split_once(": ") {
        let is_label = label.split(' ').count() <= 3 && !label.ends_with(['.', '?']);
        if is_label && !value.trim().is_empty() {
            return vec![value.trim()];
        }
    }
    let Some(pattern) = LazyLock::force(&VALUE) else { return Vec::new() };
    pattern.find_iter(line).map(|found| found.as_str().trim_end_matches(['.', ',', ':', ')'])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labelled_values_and_values_in_prose_are_candidates_most_frequent_first() {
        let shown =
            ["phone: 512-555\nDone.".to_owned(), "The caller was Ann Lee, code K-77.\nphone: 512-555".to_owned()];
        let all = candidates(&shown, None);
        assert_eq!((all.len(), all[0].as_str()), (3, "512-555"));
        assert!(all.contains(&"Ann Lee".to_owned()) && all.contains(&"K-77".to_owned()));
        assert_eq!(candidates(&shown, Some(1)), ["512-555"]);
    }
}
