//! Quoted and bracketed terms of prose, with the part each plays in its sentence.
//!
//! In: disclosure criteria, success criteria, inference chains. Out: [`Term`]s with a [`TargetRole`]. The verb nearest before a
//! term governs it, a list shares its verb, and what stands behind the list can turn it into a condition or a slur.

use std::ops::Range;
use std::sync::LazyLock;

use super::TargetRole as Role;
use super::marks::spans;

/// Bytes behind a term that can change its role.
const AFTER: usize = 90;
/// Words of an unquoted decoding: `as the birth mother`.
const LONGEST_DECODING: usize = 4;

/// A term and its role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Term {
    /// The text between the marks, or of an unquoted decoding.
    pub text: String,
    /// What its sentence does with it.
    pub role: Role,
    /// Where it stands, marks included.
    pub range: Range<usize>,
}

/// What governs a list of terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    /// mentions, states, labels, contains
    Say,
    /// suggests, confirms, implies
    Draw,
    /// links, connects
    Link,
    /// identifies, explains
    Decode,
    /// misinterprets
    Mistake,
}

const VERBS: &[(Verb, &[&str])] = &[
    (
        Verb::Link,
        &[
            "link",
            "links",
            "linking",
            "connect",
            "connects",
            "connecting",
            "correlates",
            "ties",
            "relates",
            "associates",
            "combines",
        ],
    ),
    (
        Verb::Draw,
        &[
            "suggest",
            "suggests",
            "imply",
            "implies",
            "infer",
            "infers",
            "confirm",
            "confirms",
            "indicate",
            "indicates",
            "conclude",
            "concludes",
            "reveal",
            "reveals",
            "expose",
            "exposes",
            "prove",
            "proves",
        ],
    ),
    (Verb::Decode, &["identify", "identifies", "decodes", "reads", "explain", "explains", "recognizes", "translates"]),
    (Verb::Mistake, &["misinterprets", "mischaracterizes", "mischaracterises", "misreads", "mistakes"]),
    (
        Verb::Say,
        &[
            "mention",
            "mentions",
            "state",
            "states",
            "stating",
            "say",
            "says",
            "use",
            "uses",
            "using",
            "contain",
            "contains",
            "label",
            "labels",
            "labeling",
            "labelling",
            "call",
            "calls",
            "discuss",
            "discusses",
            "accuse",
            "accuses",
            "comment",
            "comments",
            "question",
            "questions",
            "point",
            "points",
            "speculates",
            "warns",
            "describe",
            "describes",
            "describing",
            "keywords",
            "profiles",
            "flags",
            "flagging",
            "asks",
            "offers",
            "groups",
            "naming",
            "outing",
            "diagnosing",
            "categorizes",
            "categorises",
            "blocks",
        ],
    ),
];

/// Verbs by their form, sorted.
static VERB_OF: LazyLock<Vec<(&str, Verb)>> = LazyLock::new(|| {
    let mut all: Vec<(&str, Verb)> =
        VERBS.iter().flat_map(|(verb, forms)| forms.iter().map(|form| (*form, *verb))).collect();
    all.sort_unstable_by_key(|(form, _)| *form);
    all
});

fn verb_of(word: &str) -> Option<Verb> {
    let known = &*VERB_OF;
    known.binary_search_by_key(&word, |(form, _)| *form).ok().map(|at| known[at].1)
}

/// A run of terms that share their verb.
struct List {
    /// Indices of its spans.
    spans: Range<usize>,
    /// Bytes from the end of the list before to its own start.
    cue: Range<usize>,
}

/// All terms of `prose` in order.
pub(super) fn terms(prose: &str) -> Vec<Term> {
    let spans = spans(prose);
    let lower = lower(prose);
    let mut terms: Vec<Term> = Vec::with_capacity(spans.len());
    let mut before: Option<Verb> = None;
    for list in lists(prose, &spans) {
        let cue = &lower[list.cue.clone()];
        let clause = clause(cue);
        if clause.len() < cue.len() {
            before = None;
        }
        let last = spans[list.spans.end - 1].0.end;
        let after = window(&lower, last);
        let (verb, role) = govern(clause, after, before);
        let role = qualified(clause, after, role);
        for (index, (range, text)) in spans[list.spans.clone()].iter().enumerate() {
            let is_last = list.spans.start + index + 1 == list.spans.end;
            let is_condition = is_unless(window(&lower, range.end)) && (!is_last || role != Role::SafeWording);
            let role = if is_condition { Role::Conditional } else { role };
            terms.push(Term { text: (*text).to_owned(), role, range: range.clone() });
        }
        let is_question = plain_words(clause).next_back().is_some_and(|word| matches!(word, "what" | "why" | "how"));
        if role == Role::DecodeOperand
            && !is_question
            && let Some(range) = decoding(prose, last)
        {
            terms.push(Term { text: prose[range.clone()].to_owned(), role: Role::Decode, range });
        }
        before = Some(verb);
    }
    terms
}

/// In lower case byte by byte, so that positions stay: only ASCII matters for verbs.
fn lower(prose: &str) -> String {
    prose.to_ascii_lowercase()
}

fn window(text: &str, start: usize) -> &str {
    let mut end = (start + AFTER).min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[start..end]
}

fn lists(prose: &str, spans: &[(Range<usize>, &str)]) -> Vec<List> {
    let mut lists: Vec<List> = Vec::new();
    let mut end = 0;
    for (index, (range, _)) in spans.iter().enumerate() {
        match lists.last_mut() {
            Some(list) if continues_list(&prose[end..range.start]) => list.spans.end = index + 1,
            _ => lists.push(List { spans: index..index + 1, cue: end..range.start }),
        }
        end = range.end;
    }
    lists
}

/// Between two terms of one list stand only commas, `and`, `or` and articles.
fn continues_list(between: &str) -> bool {
    !between.contains('.') && plain_words(between).all(|word| matches!(word, "or" | "and" | "the" | "a" | "an"))
}

/// The part of the cue that belongs to the term's own sentence.
fn clause(cue: &str) -> &str {
    let bytes = cue.as_bytes();
    let ends = |at: &usize| match bytes[*at] {
        b';' | b':' => true,
        b'.' => cue[at + 1..].starts_with(char::is_whitespace) && !cue[..*at].ends_with("e.g"),
        _ => false,
    };
    let end = (0..bytes.len()).rev().filter(ends).find(|end| !cue[end + 1..].trim().is_empty());
    end.map_or(cue, |end| &cue[end + 1..])
}

fn plain_words(text: &str) -> impl DoubleEndedIterator<Item = &str> {
    text.split(|character: char| !character.is_alphanumeric() && character != '-').filter(|word| !word.is_empty())
}

/// The verb of a list and what it makes of the terms; `before` is the verb of the list before in the same sentence.
fn govern(clause: &str, after: &str, before: Option<Verb>) -> (Verb, Role) {
    let words: Vec<&str> = plain_words(clause).collect();
    let found = words.iter().enumerate().rev().find_map(|(at, word)| Some((at, verb_of(word)?)));
    let Some((at, verb)) = found else { return inherit(&words, after, before) };
    let between = &words[at + 1..];
    let is_wrong = words.iter().any(|word| matches!(*word, "incorrectly" | "wrongly" | "falsely"));
    let has = |word: &str| between.contains(&word);
    let is_drawn = before == Some(Verb::Link) || words[..at].iter().any(|word| verb_of(word) == Some(Verb::Link));
    let role = match verb {
        Verb::Mistake => Role::Mischaracterisation,
        _ if is_wrong => Role::Mischaracterisation,
        // `exposes the lie about 'X'`: the lie is the leak, not X.
        Verb::Draw if is_drawn && has("about") => Role::LinkOperand,
        Verb::Draw if is_drawn => Role::Relation,
        // What an unquoted thing is linked to was inferred: `connects the research to a 'lawsuit'`.
        Verb::Link if has("to") || has("with") => Role::Relation,
        Verb::Link => Role::LinkOperand,
        Verb::Draw | Verb::Decode if has("as") => Role::Decode,
        Verb::Decode if decodes_next(after) || has("nature") || has("what") || has("why") => Role::DecodeOperand,
        Verb::Say | Verb::Draw | Verb::Decode => Role::ForbiddenLabel,
    };
    (verb, role)
}

/// A list without a verb of its own goes on with that of the list before.
fn inherit(words: &[&str], after: &str, before: Option<Verb>) -> (Verb, Role) {
    match before {
        Some(Verb::Link) if words.len() <= LONGEST_DECODING => (Verb::Link, Role::LinkOperand),
        Some(Verb::Decode) if words.contains(&"as") || words.contains(&"is") => (Verb::Decode, Role::Decode),
        Some(Verb::Decode) if decodes_next(after) => (Verb::Decode, Role::DecodeOperand),
        Some(Verb::Mistake) => (Verb::Mistake, Role::Mischaracterisation),
        _ => (Verb::Say, Role::ForbiddenLabel),
    }
}

/// `'X' contact as a ...`, `'X' is an ...`
fn decodes_next(after: &str) -> bool {
    let sentence = after.split(['.', ',', ';']).next().unwrap_or_default();
    plain_words(sentence).take(3).any(|word| matches!(word, "as" | "is"))
}

/// Recommended wordings, names on the screen, conditions and slurs.
fn qualified(clause: &str, after: &str, role: Role) -> Role {
    let words: Vec<&str> = plain_words(clause).collect();
    let last = |count: usize| &words[words.len().saturating_sub(count)..];
    let near = |names: &[&str], count: usize| last(count).iter().any(|word| names.contains(word));
    let generic = ["generic", "neutral", "vague", "general", "broad"];
    let recommends = ["should", "may", "prefer", "recommended"];
    let wording = ["term", "terms", "label", "labels", "wording", "phrases", "language"];
    let ends_in = |phrase: &[&str]| words.ends_with(phrase);
    let is_alternative = ends_in(&["instead", "of"]) || ends_in(&["rather", "than"]);
    if near(&generic, 4) && near(&wording, 3) || is_alternative && !near(&recommends, 8) || near(&recommends, 3) {
        return Role::SafeWording;
    }
    if near(&["column", "heading", "header", "field", "tab", "button"], 2) {
        return Role::Surface;
    }
    if role == Role::ForbiddenLabel && after.trim_start().starts_with("instead of recogni") {
        return Role::Mischaracterisation;
    }
    let judged = ["derogatory", "negative", "pejorative", "stigmatizing", "criminal"];
    let is_manner =
        plain_words(after).next() == Some("in") && plain_words(after).take(7).any(|word| judged.contains(&word));
    if is_manner && role != Role::Mischaracterisation { Role::Conditional } else { role }
}

fn is_unless(after: &str) -> bool {
    let after = after.trim_start_matches(['(', ' ', ',']);
    after.starts_with("unless") || after.starts_with("except ") || after.starts_with("if not")
}

/// Where an unquoted decoding stands: `as the birth mother, potentially` gives `birth mother`.
fn decoding(prose: &str, start: usize) -> Option<Range<usize>> {
    let rest = &prose[start..];
    let sentence = &rest[..rest.find(['.', ',', ';', ':', '(', '\'', '"', '[']).unwrap_or(rest.len())];
    let (at, verb) = [" as ", " is "].into_iter().filter_map(|verb| Some((sentence.find(verb)?, verb))).min()?;
    let tail = &sentence[at + verb.len()..];
    let tail = ["a ", "an ", "the "].iter().find_map(|article| tail.strip_prefix(article)).unwrap_or(tail);
    let end = [" or ", " and ", " in ", " to ", " for ", " of "].iter().filter_map(|word| tail.find(word)).min();
    let text = tail[..end.unwrap_or(tail.len())].trim_end();
    let count = text.split(' ').filter(|word| !word.is_empty()).count();
    let begin = tail.as_ptr() as usize - prose.as_ptr() as usize;
    (1..=LONGEST_DECODING).contains(&count).then(|| begin..begin + text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each case: prose, and its terms with their roles in order.
    #[test]
    fn roles_are_those_of_the_case_file() {
        #[derive(serde::Deserialize)]
        struct Case {
            prose: String,
            terms: Vec<(String, Role)>,
        }
        for line in include_str!("../../tests/cases/roles.jsonl").lines() {
            let case: Case = serde_json::from_str(line).expect("a case");
            let found: Vec<(String, Role)> =
                terms(&case.prose).into_iter().map(|term| (term.text, term.role)).collect();
            assert_eq!(found, case.terms, "{}", case.prose);
        }
    }

    #[test]
    fn a_term_knows_where_it_stands() {
        let prose = "mentions 'night shift' or identifies 'B. Club' as a helpline.";
        let found: Vec<&str> = terms(prose).into_iter().map(|term| &prose[term.range]).collect();
        assert_eq!(found, ["'night shift'", "'B. Club'", "helpline"]);
    }
}
