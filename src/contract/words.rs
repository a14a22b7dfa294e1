//! Words and stems, for telling whether prose and data speak of the same thing.
//!
//! In: text. Out: lower-case stems. Deliberately coarse: it chooses what goes into a contract; matching is the
//! adjudicator's.

use std::collections::BTreeSet;
use std::sync::LazyLock;

/// Words without content of their own in goals and criteria.
const EMPTY: &str = "\
    the a an and or of to in on at for from with by is are was be my your his her their its it i you user agent \
    must should that this these as any all can will then if so into also me help check please confirm list provide \
    summarize identify identifies lists confirms links link connect connects note notes need find verify log logs \
    review data information info get show shows recent new current based using use about between not no have has \
    been which success response text api tool search history type";

/// Single words too common to decide that a conclusion was stated.
const COMMON: &str = "\
    ability abnormal activist address age alert allergy alone anxiety attack baby barren beaten betrayal betting \
    blind broke care careless cash chronic clinic competitor compulsive conflict control convert converting crazy \
    crime criminal crisis danger dangerous dating death debt deceptive defect defecting default disability \
    disloyal disorder dying escape escaping evading evasion expecting exploding exposing failure faith fake family \
    firing forbidden fraud guilty hiding help hormones identity illegal inappropriate infection injection \
    interview interviewing intruders investigation irresponsible issue job lazy leak leaking leave leaving levy \
    lie lifestyle loss losses masking maternity medication milk misconduct money mother nursing offshore organizer \
    overlap pain partner positive problem protest pumping radical recall recovery relationship reporting \
    resistance risk romance sack secrecy secret seized seizure separation shame shelter sick spectrum spiral split \
    spouse spying status stealing stop stress sue supporter surveillance target targeted terminal termination \
    therapy threat tracker transition treatment underground unstable victim violation violence violent virus \
    withholding work";

static EMPTY_STEMS: LazyLock<BTreeSet<String>> = LazyLock::new(|| EMPTY.split(' ').map(stem).collect());

/// Whether a term is one common word.
pub(super) fn is_common(term: &str) -> bool {
    let words = words(term);
    words.len() == 1 && COMMON.split(' ').any(|common| common == words[0])
}

/// Lower-case words; `snake_case`, `camelCase` and hyphens separate, apostrophes with what follows are dropped.
pub(super) fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let next = characters.peek().copied().unwrap_or(' ');
        if is_possessive(before, character, next) {
            characters.next();
            before = ' ';
            words.push(String::new());
            continue;
        }
        let starts = character.is_uppercase()
            && (before.is_lowercase() || (before.is_uppercase() && next.is_lowercase() && next != 's'));
        if starts || !character.is_alphanumeric() {
            words.push(String::new());
        }
        if character.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.extend(character.to_lowercase());
        }
        before = character;
    }
    words.retain(|word| !word.is_empty());
    words
}

fn is_possessive(before: char, character: char, next: char) -> bool {
    before.is_alphanumeric() && matches!(character, '\'' | '\u{2019}') && next == 's'
}

/// Stems of all words, in order.
pub(super) fn stems(text: &str) -> Vec<String> {
    words(text).iter().map(|word| stem(word)).collect()
}

/// Stems of the words that carry content.
pub(super) fn content(text: &str) -> BTreeSet<String> {
    words(text)
        .iter()
        .filter(|word| word.len() > 2 || word.chars().any(|character| character.is_ascii_digit()))
        .map(|word| stem(word))
        .filter(|stem| !EMPTY_STEMS.contains(stem))
        .collect()
}

/// A coarse stem: plural, `-ie`, `-ing`, `-ed`, `-er`, `-ment`, `-ion`, `-al` and `-ly` endings go.
pub(super) fn stem(word: &str) -> String {
    let mut stem = word.to_owned();
    for (ending, shortest) in [
        ("ies", 3),
        ("ie", 3),
        ("s", 3),
        ("ing", 4),
        ("ed", 4),
        ("ment", 5),
        ("ation", 4),
        ("ion", 5),
        ("al", 5),
        ("ly", 5),
        ("er", 5),
        ("or", 5),
        ("e", 4),
        ("y", 4),
    ] {
        if stem.ends_with("ss") && ending == "s" {
            continue;
        }
        if let Some(shorter) = stem.strip_suffix(ending)
            && shorter.len() >= shortest.min(4).max(shortest - 1)
        {
            stem = shorter.to_owned();
        }
    }
    stem
}

/// Whether `part` occurs in `whole` as a run of stems.
pub(super) fn contains(whole: &[String], part: &[String]) -> bool {
    !part.is_empty() && whole.windows(part.len()).any(|window| window == part)
}
