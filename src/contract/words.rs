//! Words and stems, for telling whether prose and data speak of the same thing.
//!
//! In: text. Out: lower-case words, and their stems as numbers. Deliberately coarse: it chooses what goes into a contract;
//! matching is the adjudicator's.

use std::sync::LazyLock;

/// Words without content of their own in goals and criteria.
const EMPTY: &str = "\
    the a an and or of to in on at for from with by is are was be my your his her their its it i you user agent \
    must should that this these as any all can will then if so into also me help check please confirm list provide \
    summarize identify identifies lists confirms links link connect connects note notes need find verify log logs \
    review data information info get show shows recent new current based using use about between not no have has \
    been which success response text api tool search history type";

/// Single words of everyday and office English: as a label or as a clue, one of them alone tells nothing.
const COMMON: &str = "\
    ability abnormal access account active activity address age alert alone appointment approved assessment assistant \
    attack available away balance bank basic beaten benefits betrayal billing blind block blocked book booking broke \
    budget building business busy call care careless cash category change check clear clinic code collection \
    committee community company competitor compliance confirmed conflict consultation contact control converting \
    converted credit crime criminal crisis daily danger dangerous date dating death debt declined default defect \
    delete deleted delivered denied deposit diet disabled disorder document donation download downloaded draft email \
    emergency employee enabled error escape escaping event evidence exit expense expecting exploding exposing failure \
    faith fake family federal fee file filing finance financial firing flight food forbidden form friend friends fund \
    funds gift group guide guilty health help hidden hiding high history home hospital hotel house housing identity illegal \
    inappropriate infection injection injury insurance interview interviewing intruders investigation invoice \
    irresponsible issue item job jewelry label law lazy leak leaking lease leave leaving legal letter levy library lie lifestyle \
    limit loan locked login loss losses low mail manager masking medical medication meeting member membership memo \
    message milk missing mobile money month monthly mother move moving name network night none normal note notice \
    nursing office officer offshore online open order organizer other overdue overlap owner package paid pain park \
    partial partner party pass password payment pending personal pharmacy phone photo plan police policy positive \
    private problem processed product profile program project protocol public pumping purchase queue radical rally \
    read recall received recovery recurring refill registered reminder rent report reporting request research \
    resistance restricted result resume review risk routine rule rules sack safety salary sale saved savings schedule \
    scheduled school secrecy secret secure security seized sender sent separation service session set settings shame \
    shared shelter shipped sick silent single social spiral split sponsor spouse staff status stop storage store \
    stress strict subject submitted success sue summary supervisor support supporter surveillance system target \
    targeted tax terminal termination threat ticket time total tracker transaction transfer transition travel \
    treatment trip trust unknown unstable update updated upload urgent user vendor verified victim violation visible \
    visit wages weekly withdrawal withholding work";

static EMPTY_STEMS: LazyLock<Stems> = LazyLock::new(|| Stems::of(EMPTY.split(' ')));

static COMMON_WORDS: LazyLock<Vec<&str>> = LazyLock::new(|| {
    let mut words: Vec<&str> = COMMON.split(' ').collect();
    words.sort_unstable();
    words
});

/// A stem as a number, its length in the lowest byte. Up to seven bytes are the stem itself; two different longer ones of the same
/// length are equal by a chance of 2^-56.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stem(u64);

impl Stem {
    /// Between two texts: no word has it.
    pub const BREAK: Self = Self(0);

    /// The stem of one lower-case word.
    pub fn of(word: &str) -> Self {
        let stem = stem(word).as_bytes();
        let letters = match (stem.first_chunk::<4>(), stem.last_chunk::<4>()) {
            // Two words that overlap.
            (Some(first), Some(last)) if stem.len() < 8 => {
                let last = u64::from(u32::from_le_bytes(*last)) << (8 * (stem.len() - 4));
                u64::from(u32::from_le_bytes(*first)) | last
            }
            // FNV-1a, 64 bits: short keys, and the same number on every machine.
            (Some(_), _) => stem
                .iter()
                .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)),
            (None, _) => stem.iter().rev().fold(0, |letters, byte| letters << 8 | u64::from(*byte)),
        };
        Self(letters << 8 | stem.len().min(255) as u64)
    }

    /// Bytes of the stem.
    pub fn len(self) -> u64 {
        self.0 & 255
    }
}

/// A fixed set of stems. Most stems are not in it, which a table of bits tells without a search.
pub(super) struct Stems {
    sorted: Vec<Stem>,
    /// One bit of 1,024 for each.
    bits: [u64; 16],
}

impl Stems {
    /// The stems of lower-case words.
    pub fn of<'a>(words: impl IntoIterator<Item = &'a str>) -> Self {
        let sorted = sorted(words.into_iter().map(Stem::of).collect());
        let mut bits = [0; 16];
        for stem in &sorted {
            let (word, bit) = Self::place(*stem);
            bits[word] |= bit;
        }
        Self { sorted, bits }
    }

    /// Whether `stem` is one of them.
    pub fn contains(&self, stem: Stem) -> bool {
        let (word, bit) = Self::place(stem);
        self.bits[word] & bit != 0 && self.sorted.binary_search(&stem).is_ok()
    }

    /// The bit of a stem: the upper ten of a product with the golden ratio.
    fn place(stem: Stem) -> (usize, u64) {
        let place = stem.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 54;
        ((place >> 6) as usize, 1 << (place & 63))
    }
}

/// Whether a term is one common word.
pub(super) fn is_common(term: &str) -> bool {
    let is_listed = |word: &str| COMMON_WORDS.binary_search(&word).is_ok();
    let (mut count, mut common) = (0, false);
    each_word(term, |word| {
        count += 1;
        common = count == 1 && (is_listed(word) || word.strip_suffix('s').is_some_and(is_listed));
    });
    count == 1 && common
}

/// The words of a text with a space between them: what two texts of the same words have in common.
pub(super) fn joined(text: &str) -> String {
    let mut joined = String::with_capacity(text.len());
    each_word(text, |word| {
        joined.push_str(if joined.is_empty() { "" } else { " " });
        joined.push_str(word);
    });
    joined
}

/// Number of words.
pub(super) fn count(text: &str) -> usize {
    let mut count = 0;
    each_word(text, |_| count += 1);
    count
}

/// Calls `take` with each lower-case word; `snake_case`, `camelCase` and hyphens separate, apostrophes with what follows are dropped.
pub(super) fn each_word(text: &str, mut take: impl FnMut(&str)) {
    if text.is_ascii() {
        each_ascii_word(text, &mut take);
        return;
    }
    let mut word = String::with_capacity(24);
    let mut before = ' ';
    let mut characters = text.chars().peekable();
    let mut end = |word: &mut String| {
        if !word.is_empty() {
            take(word);
            word.clear();
        }
    };
    while let Some(character) = characters.next() {
        let next = characters.peek().copied().unwrap_or(' ');
        if is_possessive(before, character, next) {
            characters.next();
            before = ' ';
            end(&mut word);
            continue;
        }
        if character.is_alphanumeric() {
            let starts = character.is_uppercase()
                && (before.is_lowercase() || (before.is_uppercase() && next.is_lowercase() && next != 's'));
            if starts {
                end(&mut word);
            }
            word.extend(character.to_lowercase());
        } else {
            end(&mut word);
        }
        before = character;
    }
    end(&mut word);
}

/// What an ASCII byte is in a word.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Between,
    Small,
    Capital,
    Digit,
}

static CLASSES: [Class; 256] = {
    let mut classes = [Class::Between; 256];
    let mut byte = 0;
    while byte < 256 {
        classes[byte] = match byte as u8 {
            b'a'..=b'z' => Class::Small,
            b'A'..=b'Z' => Class::Capital,
            b'0'..=b'9' => Class::Digit,
            _ => Class::Between,
        };
        byte += 1;
    }
    classes
};

/// The same of ASCII alone, which most texts are: a word in lower case is handed on where it stands.
fn each_ascii_word(text: &str, take: &mut impl FnMut(&str)) {
    let bytes = text.as_bytes();
    let class_at = |at: usize| bytes.get(at).map_or(Class::Between, |byte| CLASSES[usize::from(*byte)]);
    let mut short = [0_u8; 32];
    let mut start = 0;
    while let Some(byte) = bytes.get(start) {
        let first = CLASSES[usize::from(*byte)];
        if first == Class::Between {
            start += 1;
            continue;
        }
        let mut has_capitals = first == Class::Capital;
        let (mut before, mut end) = (first, start + 1);
        loop {
            let class = class_at(end);
            if class == Class::Between {
                break;
            }
            if class == Class::Capital {
                let is_last_capital =
                    before == Class::Capital && class_at(end + 1) == Class::Small && bytes[end + 1] != b's';
                if before == Class::Small || is_last_capital {
                    break;
                }
                has_capitals = true;
            }
            before = class;
            end += 1;
        }
        let word = &text[start..end];
        match short.get_mut(..word.len()) {
            _ if !has_capitals => take(word),
            Some(lower) => {
                lower.copy_from_slice(word.as_bytes());
                lower.make_ascii_lowercase();
                take(std::str::from_utf8(lower).unwrap_or_default());
            }
            None => take(&word.to_ascii_lowercase()),
        }
        start = if bytes[end..].starts_with(b"'s") { end + 2 } else { end };
    }
}

fn is_possessive(before: char, character: char, next: char) -> bool {
    before.is_alphanumeric() && matches!(character, '\'' | '\u{2019}') && next == 's'
}

/// Stems of all words, in order.
pub(super) fn stems(text: &str) -> Vec<Stem> {
    let mut stems = Vec::with_capacity(text.len() / 6 + 1);
    add_stems(text, &mut stems);
    stems
}

/// [`stems`], behind those that are there.
pub(super) fn add_stems(text: &str, stems: &mut Vec<Stem>) {
    each_word(text, |word| stems.push(Stem::of(word)));
}

/// Stems of the words that carry content, sorted, each once.
pub(super) fn content(text: &str) -> Vec<Stem> {
    let mut stems = Vec::with_capacity(text.len() / 6 + 1);
    each_word(text, |word| stems.extend(content_stem(word, Stem::of(word))));
    sorted(stems)
}

/// The stem of a word that carries content.
pub(super) fn content_stem(word: &str, stem: Stem) -> Option<Stem> {
    let is_long = word.len() > 2 || word.bytes().any(|byte| byte.is_ascii_digit());
    (is_long && !EMPTY_STEMS.contains(stem)).then_some(stem)
}

pub(super) fn sorted(mut stems: Vec<Stem>) -> Vec<Stem> {
    sort_from(&mut stems, 0);
    stems
}

/// Sorts the stems from `start` on, each once.
pub(super) fn sort_from(stems: &mut Vec<Stem>, start: usize) {
    stems[start..].sort_unstable();
    let mut kept = start;
    for at in start..stems.len() {
        if kept == start || stems[kept - 1] != stems[at] {
            stems[kept] = stems[at];
            kept += 1;
        }
    }
    stems.truncate(kept);
}

/// How many of `stems` stand in `whole`, which is sorted.
pub(super) fn shared(stems: &[Stem], whole: &[Stem]) -> usize {
    stems.iter().filter(|stem| whole.binary_search(stem).is_ok()).count()
}

/// Whether all of `stems`, and at least one, stand in `whole`, which is sorted.
pub(super) fn is_within(stems: &[Stem], whole: &[Stem]) -> bool {
    !stems.is_empty() && shared(stems, whole) == stems.len()
}

/// A coarse stem, which is a beginning of the word: plural, `-ie`, `-ing`, `-ed`, `-er`, `-ment`, `-ion`, `-al`, `-ly` and
/// `-at(e)` endings go, and the second of two equal letters before them.
fn stem(word: &str) -> &str {
    const ENDINGS: [(&str, usize); 14] = [
        ("ies", 3),
        ("ie", 3),
        ("s", 3),
        ("ing", 4),
        ("ed", 4),
        ("ment", 4),
        ("ion", 4),
        ("al", 4),
        ("ly", 4),
        ("er", 4),
        ("or", 4),
        ("e", 4),
        ("y", 4),
        ("at", 5),
    ];
    /// For each last letter the endings that it can close, a bit each.
    const CLOSED_BY: [u16; 256] = {
        let mut endings = [0; 256];
        let mut index = 0;
        while index < ENDINGS.len() {
            let ending = ENDINGS[index].0.as_bytes();
            endings[ending[ending.len() - 1] as usize] |= 1 << index;
            index += 1;
        }
        endings
    };
    let mut stem = word;
    // Endings are tried in their order, each once.
    let mut left = u16::MAX;
    while let Some(last) = stem.as_bytes().last() {
        let possible = CLOSED_BY[usize::from(*last)] & left;
        if possible == 0 {
            break;
        }
        let index = possible.trailing_zeros();
        left &= !0 << index << 1;
        let (ending, shortest) = ENDINGS[index as usize];
        let Some(shorter) = stem.strip_suffix(ending).filter(|shorter| shorter.len() >= shortest) else { continue };
        if ending == "s" && stem.ends_with("ss") {
            continue;
        }
        // The doubled letter goes with its ending, so that `transferred` can lose `er` as `transfer` does.
        stem = if matches!(ending, "ing" | "ed") { single(shorter) } else { shorter };
    }
    single(stem)
}

/// Without the second of two equal letters at the end.
fn single(stem: &str) -> &str {
    let bytes = stem.as_bytes();
    match bytes {
        [.., one, two] if one == two && one.is_ascii_alphabetic() && bytes.len() > 3 => &stem[..bytes.len() - 1],
        _ => stem,
    }
}

/// Whether `part` occurs in `whole` as a run of stems.
pub(super) fn contains(whole: &[Stem], part: &[Stem]) -> bool {
    let Some((first, rest)) = part.split_first() else { return false };
    // Most windows differ in their first word.
    whole.windows(part.len()).any(|window| window[0] == *first && window[1..] == *rest)
}

/// Whether `part` occurs in `whole` in order with at most one other word within: `hostile work environment` holds `hostile
/// environment`.
pub(super) fn contains_loosely(whole: &[Stem], part: &[Stem]) -> bool {
    contains(whole, part)
        || part.len() > 1
            && whole.windows(part.len() + 1).filter(|window| window[0] == part[0]).any(|window| {
                let mut wanted = part.iter().peekable();
                for stem in window {
                    wanted.next_if(|next| *next == stem);
                }
                wanted.peek().is_none()
            })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_a_word_share_their_stem_and_different_words_do_not() {
        for (one, other) in [
            ("queries", "query"),
            ("planning", "plan"),
            ("calls", "calling"),
            ("transferred", "transfer"),
            ("reallocation", "reallocate"),
            ("allocated", "allocating"),
            ("confirmation", "confirm"),
            ("bookie", "book"),
        ] {
            assert_eq!(Stem::of(one), Stem::of(other), "{one}, {other}");
        }
        for (one, other) in [("loan", "loss"), ("cash", "cast"), ("gas", "gap")] {
            assert_ne!(Stem::of(one), Stem::of(other), "{one}, {other}");
        }
    }

    fn words(text: &str) -> Vec<String> {
        let mut words = Vec::new();
        each_word(text, |word| words.push(word.to_owned()));
        words
    }

    proptest::proptest! {
        #[test]
        fn words_of_ascii_are_read_as_those_of_any_text(text in "[a-cA-Cs0-9' _.-]{0,24}") {
            let mut ascii = words(&text);
            // One letter outside ASCII sends the same text down the general way.
            let mut general = words(&format!("{text} \u{e9}"));
            general.pop();
            proptest::prop_assert_eq!(&mut ascii, &mut general);
        }
    }

    #[test]
    fn stems_of_up_to_seven_bytes_are_told_apart_by_all_their_letters() {
        let stems: Vec<u64> = ["", "a", "ab", "abc", "abcd", "abcdx", "abcdxk", "abcdxkv"]
            .into_iter()
            .map(|word| Stem::of(word).0)
            .collect();
        let spelled = |word: &str| word.bytes().rev().fold(0, |letters, byte| letters << 8 | u64::from(byte));
        let expected = ["", "a", "ab", "abc", "abcd", "abcdx", "abcdxk", "abcdxkv"];
        assert_eq!(stems, expected.map(|word| spelled(word) << 8 | word.len() as u64));
    }

    #[test]
    fn identifiers_and_possessives_are_split_into_words() {
        assert_eq!(words("lastMessage_time"), ["last", "message", "time"]);
        assert_eq!(words("Women's APIKey"), ["women", "api", "key"]);
        assert_eq!(count("a 4B-room"), 3);
    }

    #[test]
    fn one_everyday_word_is_common_and_a_diagnosis_is_not() {
        assert!(is_common("Leaving") && is_common("Interviews") && is_common("medication"));
        assert!(!is_common("Dialysis") && !is_common("leaving religion"));
    }
}
