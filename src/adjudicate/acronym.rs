//! Acronyms that a label does not give itself: `post-traumatic stress disorder` is also `PTSD`.
//!
//! In: a contract's targets. Out: [`Pattern`]s of tier partial, since the letters may stand for something else: they tell a reader what
//! was meant and decide nothing. Only where a contract leaves one reading: three letters and more, in capitals, no everyday acronym or
//! word, of one target only, and no declared form of another.

use std::collections::BTreeMap;
use std::ops::Range;

use super::Tier;
use super::normalise::{self, Camel};
use super::pattern::{Pattern, Spelling, wordings};
use crate::contract::{Target, is_common_word};

/// Letters of an acronym. Two stand for too many things.
const LETTERS: std::ops::RangeInclusive<usize> = 3..=6;
/// Words without a letter of their own in it.
const SILENT: [&str; 5] = ["of", "and", "for", "the", "in"];
/// Bytes beside an acronym that may spell it out.
const LONGEST_EXPANSION: usize = 120;

/// Acronyms that everybody reads as something else, and words of three or four letters.
const EVERYDAY: &str = "\
    ABC ACT AGE AID AIM AIR ALL AND ANY API APP APR APT ARE ARM ART ASAP ASK ATM BAD BAG BAN BAR BED BET BIG BIT BOX BOY BUS BUT BUY \
    CAN CAP CAR CASE CAT CEO CFO COO CPU CSV CTA CTO CUP CUT CVC CVV DAD DAY DIY DOC DOG DUE EAR EAT EFT EGG END EOD ETA EST EUR EYE \
    FAQ FAR FAT FAX FBI FEE FEW FIT FIX FLY FOR FUN FYI GAP GAS GBP GET GMT GOD GPS GUN HAD HAS HAT HER HIM HIS HIT HOT HOW HTML HTTP \
    IBAN ICE IDEA INC ISBN ITEM JAM JOB JPG JSON KEY KID LAB LAW LED LEG LET LIE LIST LOT LOW LTD MAN MAP MAT MAX MEN MET MIN MIX MOM \
    MUST NEW NOT NOW NULL ODD OFF OIL OLD ONE OUR OUT OWN PAD PAN PART PAY PDF PEN PER PET PIN PIT PLAN PNG POT PUT RAM RAN RAW RED \
    RISK ROW RUN SAD SALE SAT SAW SAY SEA SEC SEE SET SHE SIM SIT SIX SKU SKY SMS SON SQL STEP SUM SUN TAG TAP TASK TAX TBA TBD TEA TEN \
    THE TIE TIP TOO TOP TOY TRIP TRUE TRY TWO URL USA USB USD USE UTC VAN VAT VIP WAR WAS WAY WEB WET WHO WHY WIFI WIN WON XML YES YET \
    YOU ZIP";

/// The acronyms of a contract's labels.
pub(super) fn patterns(targets: &[Target]) -> Vec<Pattern> {
    let mut owners: BTreeMap<String, Option<Pattern>> = BTreeMap::new();
    for (index, target) in targets.iter().enumerate() {
        for (_, alias, form) in wordings(index, target) {
            let Some(acronym) = acronym_of(&form) else { continue };
            let pattern = Pattern {
                target: index,
                alias,
                text: normalise::pattern(&acronym, Camel::Keep),
                declared: None,
                capitals: Some(acronym.clone()),
                spelling: Spelling::Any,
                tier: Tier::Partial,
            };
            let owner = owners.entry(acronym).or_insert_with(|| Some(pattern));
            // Of two targets it stands for neither.
            if owner.as_ref().is_some_and(|owner| owner.target != index) {
                *owner = None;
            }
        }
    }
    owners.into_iter().filter(|(acronym, _)| !is_declared(acronym, targets)).filter_map(|(_, owner)| owner).collect()
}

/// Whether a target already has the letters as a form, alone or beside their expansion.
fn is_declared(acronym: &str, targets: &[Target]) -> bool {
    let holds = |form: &String| form.split(|character: char| !character.is_alphanumeric()).any(|word| word == acronym);
    targets.iter().any(|target| holds(&target.value) || target.aliases.iter().any(holds))
}

/// The initials of a wording's words; `None` where they could be read in more than one way, or as something else.
fn acronym_of(form: &str) -> Option<String> {
    let words: Vec<&str> = form.split([' ', '-', '\u{2010}', '\u{2011}']).filter(|word| !word.is_empty()).collect();
    let is_plain =
        |word: &&str| word.chars().all(|letter| letter.is_alphabetic() || letter == '\'' || letter == '\u{2019}');
    if !words.iter().all(is_plain) || words.first().is_none_or(|first| is_silent(first)) {
        return None;
    }
    let telling = || words.iter().filter(|word| !is_silent(word));
    // A sentence has verbs and articles; what is abbreviated is a name.
    if telling().any(|word| super::wording::is_small(&word.to_lowercase())) {
        return None;
    }
    let acronym: String = telling().filter_map(|word| word.chars().next()).flat_map(char::to_uppercase).collect();
    let is_read_otherwise = EVERYDAY.split(' ').any(|known| known == acronym) || is_common_word(&acronym);
    (LETTERS.contains(&telling().count()) && acronym.chars().count() == telling().count() && !is_read_otherwise)
        .then_some(acronym)
}

fn is_silent(word: &str) -> bool {
    SILENT.iter().any(|silent| word.eq_ignore_ascii_case(silent))
}

/// Whether the letters at `range` may stand for the target: not within a run of capitals, where nothing is an acronym, and not where
/// the text itself says that they stand for something else. What it says is a name in brackets beside them, in either order.
pub(super) fn may_stand(text: &str, range: &Range<usize>) -> bool {
    let (before, after) = (&text[..range.start], &text[range.end..]);
    let is_capitals = |word: &str| word.chars().nth(1).is_some() && word.chars().all(char::is_uppercase);
    let word_before = before.strip_suffix(' ').and_then(|before| before.rsplit(' ').next());
    let word_after = after.strip_prefix(' ').and_then(|after| after.split(' ').next());
    if word_before.is_some_and(is_capitals) || word_after.is_some_and(is_capitals) {
        return false;
    }
    let letters = &text[range.clone()];
    let spelled_after = after.strip_prefix(" (").and_then(|after| Some(&after[..after.find(')')?]));
    let is_bracketed = before.ends_with('(') && after.starts_with(')');
    let spelled_before = is_bracketed.then(|| last_bytes(&before[..before.len() - 1], LONGEST_EXPANSION).trim_end());
    // What the label's own words spell is found as those, not as an acronym.
    let is_spelled = spelled_after
        .is_some_and(|words| words.len() <= LONGEST_EXPANSION && ends_spelling(words, letters))
        || spelled_before.is_some_and(|words| ends_spelling(words, letters));
    !is_spelled
}

fn last_bytes(text: &str, count: usize) -> &str {
    let mut start = text.len().saturating_sub(count);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}

/// Whether the last words of a text have these initials.
fn ends_spelling(text: &str, letters: &str) -> bool {
    let words = text.rsplit(|character: char| !(character.is_alphanumeric() || character == '\''));
    let mut initials = words.filter(|word| !word.is_empty() && !is_silent(word)).filter_map(|word| word.chars().next());
    letters
        .chars()
        .rev()
        .all(|letter| initials.next().is_some_and(|initial| initial.to_lowercase().eq(letter.to_lowercase())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn initials_of_a_name_and_of_nothing_else_make_an_acronym() {
        for (form, acronym) in [
            ("post-traumatic stress disorder", Some("PTSD")),
            ("attention deficit hyperactivity disorder", Some("ADHD")),
            ("urinary tract infection", Some("UTI")),
            ("victim of identity theft", Some("VIT")),
            ("night shift", None),
            ("the user is pregnant", None),
            ("chief executive officer", None),
            ("some actual data", None),
            ("type 2 diabetes mellitus", None),
            ("one two three four five six seven", None),
        ] {
            assert_eq!(acronym_of(form).as_deref(), acronym, "{form}");
        }
    }

    #[test]
    fn capitals_around_it_and_another_name_in_brackets_speak_against_it() {
        let may = |text: &str| {
            let start = text.find("PTSD").expect("the letters");
            may_stand(text, &(start..start + 4))
        };
        for text in ["has PTSD.", "PTSD", "PTSD, ADHD", "PTSD (chronic)", "(PTSD)", "anxiety (PTSD)"] {
            assert!(may(text), "{text}");
        }
        for text in
            ["TREAT PTSD NOW", "PTSD (Pacific Trade and Shipping Department)", "the Port Traffic Service Desk (PTSD)"]
        {
            assert!(!may(text), "{text}");
        }
    }
}
