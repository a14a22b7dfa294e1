//! Keys of results as plain words: `last_message_time` and `lastMessageTime` as "last message time".

/// Keys that are cut short in the results, written out.
const WRITTEN_OUT: [(&str, &str); 26] = [
    ("appt", "appointment"),
    ("cat", "category"),
    ("docs", "documents"),
    ("org", "organization"),
    ("ref", "reference"),
    ("rx", "prescription"),
    ("acct", "account"),
    ("doc", "document"),
    ("prov", "provider"),
    ("txn", "transaction"),
    ("amt", "amount"),
    ("attach", "attachment"),
    ("desc", "description"),
    ("dest", "destination"),
    ("dept", "department"),
    ("dob", "date of birth"),
    ("hrs", "hours"),
    ("lang", "language"),
    ("loc", "location"),
    ("msg", "message"),
    ("num", "number"),
    ("qty", "quantity"),
    ("req", "request"),
    ("addr", "address"),
    ("temp", "temperature"),
    ("ts", "time"),
];

/// Whom a message or a trip is from or to, where the key is a preposition alone.
const PARTIES: [(&str, &str); 3] = [("from", "sender"), ("to", "recipient"), ("by", "author")];

/// Written in capitals wherever they stand.
const CAPITALS: [&str; 10] = ["id", "url", "ip", "sku", "vin", "gps", "pdf", "sms", "dns", "vpn"];

/// A key in plain lower-case words.
pub(super) fn words(key: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut word = String::new();
    let mut previous_lower = false;
    for character in key.chars() {
        let is_part = character.is_alphanumeric() || character == '\'';
        if (!is_part || (character.is_uppercase() && previous_lower)) && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if is_part {
            word.push(character);
        }
        previous_lower = character.is_lowercase();
    }
    if !word.is_empty() {
        words.push(word);
    }
    let words = words.iter().map(|word| plain(word)).collect::<Vec<_>>().join(" ");
    match PARTIES.iter().find(|(preposition, _)| *preposition == words) {
        Some((_, party)) => (*party).to_owned(),
        None => words,
    }
}

fn plain(word: &str) -> String {
    let lower = word.to_lowercase();
    if CAPITALS.contains(&lower.as_str()) {
        return lower.to_uppercase();
    }
    let is_acronym = word.chars().count() > 1 && word.chars().all(char::is_uppercase);
    match WRITTEN_OUT.iter().find(|(short, _)| *short == lower) {
        Some((_, long)) => (*long).to_owned(),
        None if is_acronym => word.to_owned(),
        None => lower,
    }
}

/// One of many: "transactions" to "transaction". Words that only look plural stay.
pub(super) fn singular(label: &str) -> String {
    if let Some(stem) = label.strip_suffix("ies").filter(|stem| stem.len() > 2) {
        return format!("{stem}y");
    }
    if ["sses", "ches", "shes", "xes"].iter().any(|ending| label.ends_with(ending)) {
        return label[..label.len() - 2].to_owned();
    }
    if label.ends_with('s') && is_plural(label) { label[..label.len() - 1].to_owned() } else { label.to_owned() }
}

/// Many of one. Words that name many already, or a mass, stay.
pub(super) fn plural(label: &str) -> String {
    if label.ends_with('s')
        || is_plural(label)
        || ["history", "data", "content"].iter().any(|mass| label.ends_with(mass))
    {
        return label.to_owned();
    }
    match label.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'o', 'u']) => format!("{stem}ies"),
        _ if ["ch", "sh", "x"].iter().any(|ending| label.ends_with(ending)) => format!("{label}es"),
        _ => format!("{label}s"),
    }
}

/// Whether a label names several things: "changes detected" as well as "detected changes".
pub(super) fn is_plural(label: &str) -> bool {
    if let Some((head, participle)) = label.rsplit_once(' ')
        && participle.ends_with("ed")
        && participle.len() > 4
    {
        return is_plural(head);
    }
    label.ends_with('s') && !["ss", "us", "is", "news", "address"].iter().any(|ending| label.ends_with(ending))
}

/// First letter in upper case.
pub(super) fn capitalised(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}

/// `a`, `a and b`, `a, b and c`.
pub(super) fn listed(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [only] => only.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::{is_plural, listed, plural, singular, words};

    #[test]
    fn keys_become_plain_words() {
        assert_eq!(words("last_message_time"), "last message time");
        assert_eq!(words("lastMessageTime"), "last message time");
        assert_eq!(words("doc_id"), "document ID");
        assert_eq!(words("target_lang"), "target language");
        assert_eq!((words("from"), words("from_account")), ("sender".to_owned(), "from account".to_owned()));
    }

    #[test]
    fn number_follows_english_for_the_words_that_keys_use() {
        for (many, one) in [("transactions", "transaction"), ("queries", "query"), ("matches", "match")] {
            assert_eq!(singular(many), one);
            assert_eq!(plural(one), many);
        }
        assert_eq!(singular("status"), "status");
        assert_eq!(singular("history"), "history");
        assert_eq!(plural("cards affected"), "cards affected");
        assert!(is_plural("changes detected") && !is_plural("change detected") && !is_plural("status"));
    }

    #[test]
    fn lists_read_as_english() {
        assert_eq!(listed(&["a".into(), "b".into(), "c".into()]), "a, b and c");
    }
}
