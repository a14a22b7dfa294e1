//! What success criteria and goal ask for, and how strongly they ask for a value.
//!
//! In: criteria, goal, tools. Out: [`Scored`] leaves. Criteria mostly list one thing for each tool in order ("confirm the
//! room, the contact and the log"); then each tool's values are held against its own item.

use std::sync::LazyLock;

use super::key::{self, Kinds};
use super::reading::{ReadLeaf, ReadTool};
use super::words::{self, Stem, Stems};
use crate::trace::LeafKind;

/// Characters: nobody repeats longer texts word by word.
const LONGEST: usize = 90;
/// Words of a text that is a phrase rather than a sentence.
const LONGEST_PHRASE: usize = 9;

/// Different words for one thing: criteria say `purchase` where a tool says `order`.
const CONCEPTS: [&[&str]; 12] = [
    &["order", "purchase", "bought", "buy", "shopping", "product", "item"],
    &["search", "query", "queries", "searched", "term", "topic", "research"],
    &["medication", "drug", "rx", "meds", "prescription", "medicine", "refill", "dose", "dosage"],
    &["meeting", "appointment", "appt", "event", "session", "consult", "consultation", "visit"],
    &["message", "sms", "text", "chat", "msg"],
    &["location", "place", "destination", "loc", "dest", "site", "city", "venue"],
    &["document", "file", "doc", "filename", "attachment"],
    &["amount", "sum", "price", "cost", "quote"],
    &["recipient", "beneficiary", "payee"],
    &["transfer", "wire"],
    &["ticket", "flight", "booking"],
    &["setting", "configuration", "mode", "config"],
];

static CONCEPT_OF: LazyLock<Concepts> = LazyLock::new(Concepts::new);

/// The stem of the first word for each word of a concept.
struct Concepts {
    words: Stems,
    pairs: Vec<(Stem, Stem)>,
}

impl Concepts {
    fn new() -> Self {
        let pairs = |group: &[&str]| {
            let first = Stem::of(group[0]);
            group.iter().map(|word| (Stem::of(word), first)).collect::<Vec<_>>()
        };
        let mut pairs: Vec<(Stem, Stem)> = CONCEPTS.iter().flat_map(|group| pairs(group)).collect();
        pairs.sort_unstable();
        Self { words: Stems::of(CONCEPTS.into_iter().flatten().copied()), pairs }
    }

    fn of(&self, stem: Stem) -> Stem {
        if !self.words.contains(stem) {
            return stem;
        }
        self.pairs.binary_search_by_key(&stem, |(word, _)| *word).map_or(stem, |at| self.pairs[at].1)
    }
}

/// Content stems of a text with one stem for each concept, sorted; a search counts, which elsewhere has no content of its own.
fn concepts_of(text: &str) -> Vec<Stem> {
    let mut stems = Vec::with_capacity(text.len() / 6 + 1);
    add_concepts(text, &mut stems);
    words::sorted(stems)
}

fn add_concepts(text: &str, stems: &mut Vec<Stem>) {
    let concepts = &*CONCEPT_OF;
    words::each_word(text, |word| {
        stems.extend(words::content_stem(word, Stem::of(word)).map(|stem| concepts.of(stem)));
        if word.starts_with("search") {
            stems.push(concepts.of(Stem::of("search")));
        }
    });
}

/// A leaf with how strongly it is asked for.
#[expect(clippy::struct_excessive_bools, reason = "independent observations of one leaf")]
pub(super) struct Scored<'a> {
    /// The leaf.
    pub leaf: &'a ReadLeaf<'a>,
    /// 0: not asked for.
    pub score: u32,
    /// The criteria name its value or key.
    pub is_named: bool,
    /// What of it must stand word by word: a sentence's number that the criteria name, or all of it.
    pub text: &'a str,
    /// The criteria name every word of its key.
    pub is_key_named: bool,
    /// And the key has several.
    pub is_key_spelled: bool,
    /// The criteria name several words of its value, or all.
    pub is_value_named: bool,
    /// Too long to be repeated word by word.
    pub is_sentence: bool,
    /// Its key holds what a return is about.
    pub is_main: bool,
    /// Its key holds bookkeeping, or a state that says nothing without its subject.
    pub is_bookkeeping: bool,
}

/// What the criteria and the goal ask for.
pub(super) struct Demand {
    /// All of the criteria.
    criteria: Vec<Stem>,
    goal: Vec<Stem>,
    /// One item for each essential tool, where the criteria list as many.
    items: Vec<Vec<Stem>>,
    /// Numbers that the criteria name, as written: `$1.3M`.
    numbers: Vec<String>,
    /// One of them is an amount.
    asks_money: bool,
}

/// Lists that are filled anew for each leaf.
#[derive(Default)]
struct Scratch {
    key: Vec<Stem>,
    value: Vec<Stem>,
}

impl Demand {
    /// Reads criteria and goal; `tools` is the number of essential tools.
    pub fn of(criteria: &str, goal: &str, tools: usize) -> Self {
        // Whole criteria say what their items say: what stands between those has no content.
        let items: Vec<Vec<Stem>> = items(criteria).map(concepts_of).filter(|item| !item.is_empty()).collect();
        let all = words::sorted(items.iter().flatten().copied().collect());
        let numbers: Vec<String> = numbers(criteria).map(str::to_owned).collect();
        Self {
            criteria: all,
            goal: concepts_of(goal),
            items: if items.len() == tools { items } else { Vec::new() },
            asks_money: numbers.iter().any(|number| number.starts_with('$')),
            numbers,
        }
    }

    /// Whether the criteria list one item for each tool.
    pub fn is_itemised(&self) -> bool {
        !self.items.is_empty()
    }

    /// Whether anything asks for the tool.
    pub fn asks_for(&self, index: usize, tool: &ReadTool<'_>) -> bool {
        if self.items.get(index).is_some() {
            return true;
        }
        let mut name = Vec::new();
        add_concepts(&tool.tool.name, &mut name);
        add_concepts(&tool.tool.description, &mut name);
        words::shared(&name, &self.criteria) > 0
    }

    /// The usable leaves of a tool.
    pub fn score<'a>(&self, index: usize, tool: &'a ReadTool<'_>) -> Vec<Scored<'a>> {
        let mut scratch = Scratch::default();
        let mut scored = Vec::with_capacity(tool.leaves.len());
        for leaf in tool.leaves.iter().filter(|leaf| leaf.kind != LeafKind::Constant) {
            let kinds = key::kinds(leaf.key);
            let number = self.number_in(leaf);
            if is_usable(leaf.text) || number.is_some() || is_count(leaf.text, kinds) {
                scored.push(self.score_leaf(index, leaf, kinds, number, &mut scratch));
            }
        }
        scored
    }

    /// A number of the criteria that stands in a leaf.
    fn number_in<'a>(&self, leaf: &ReadLeaf<'a>) -> Option<&'a str> {
        if self.numbers.is_empty() {
            return None;
        }
        numbers(leaf.text).find(|number| self.numbers.iter().any(|named| named == number))
    }

    fn score_leaf<'a>(
        &self,
        index: usize,
        leaf: &'a ReadLeaf<'a>,
        kinds: Kinds,
        number: Option<&'a str>,
        scratch: &mut Scratch,
    ) -> Scored<'a> {
        let own = self.items.get(index);
        let item = own.unwrap_or(&self.criteria);
        let Scratch { key, value } = scratch;
        key.clear();
        add_concepts(leaf.key, key);
        words::sort_from(key, 0);
        value.clear();
        value.extend(leaf.content.iter().map(|stem| CONCEPT_OF.of(*stem)));
        words::sort_from(value, 0);
        let in_value = |stems: &[Stem]| words::shared(value, stems).min(2) as u32;
        let kind = asks_for_kind(item, leaf.text, kinds) || self.asks_money && leaf.text.contains('$');
        let key_named = words::shared(key, item) > 0;
        let mut score = if words::is_within(value, item) { 4 } else { 2 * in_value(item) };
        score += if words::is_within(value, &self.goal) { 2 } else { in_value(&self.goal) };
        score += if key_named { 3 } else { u32::from(words::shared(key, &self.goal) > 0) };
        if own.is_some() {
            score += in_value(&self.criteria).min(1);
        }
        score += if kind { 4 } else { 0 };
        score += if number.is_some() { 4 } else { 0 };
        // A category that repeats the request's own word says nothing.
        if kinds.has(Kinds::CATEGORY) {
            score = score.min(2);
        }
        let is_bookkeeping = kinds.has(Kinds::BOOKKEEPING);
        let is_main = kinds.has(Kinds::MAIN);
        let is_sentence = leaf.stems.len() > LONGEST_PHRASE;
        // Bookkeeping is asked for only by name.
        if is_bookkeeping && !key_named && !words::is_within(value, item) && !kind {
            score = 0;
        } else if is_main && score > 0 {
            score += 1;
        }
        let in_criteria = words::shared(value, &self.criteria);
        let is_value_named = in_criteria >= 2 || in_criteria > 0 && in_criteria == value.len();
        let is_key_named = words::is_within(key, item);
        Scored {
            score,
            is_named: is_value_named || words::shared(key, &self.criteria) > 0,
            text: number.filter(|_| is_sentence).unwrap_or(leaf.text),
            is_key_named,
            is_key_spelled: key.len() > 1 && is_key_named,
            is_value_named,
            is_sentence: is_sentence && number.is_none(),
            is_main,
            is_bookkeeping: is_bookkeeping || kinds.has(Kinds::STATE),
            leaf,
        }
    }
}

/// Words with a digit in prose, with their currency and without the punctuation around them.
fn numbers(text: &str) -> impl Iterator<Item = &str> {
    text.split(char::is_whitespace)
        .map(|word| word.trim_matches(|character: char| !character.is_alphanumeric() && character != '$'))
        .filter(|word| word.len() > 1 && word.bytes().any(|byte| byte.is_ascii_digit()))
}

/// The things that criteria list.
fn items(criteria: &str) -> impl Iterator<Item = &str> {
    criteria.split(',').flat_map(|part| part.split(" and "))
}

/// "flight times" asks for times, "total cost" for amounts.
fn asks_for_kind(item: &[Stem], text: &str, key: Kinds) -> bool {
    let asks = |names: &Stems| item.iter().any(|stem| names.contains(*stem));
    if !has_digit(text) {
        return false;
    }
    let is_money = key.has(Kinds::MONEY) || text.contains(['$', '€', '£']);
    let is_time = key.has(Kinds::TIME) || text.contains(':');
    is_money && asks(&MONEY) || is_time && asks(&TIME) || key.has(Kinds::COUNT) && asks(&COUNT)
}

fn has_digit(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_digit())
}

static MONEY: LazyLock<Stems> = LazyLock::new(|| {
    Stems::of(["amount", "cost", "total", "expense", "payment", "fee", "charge", "balance", "withdrawal", "spending"])
});
static TIME: LazyLock<Stems> = LazyLock::new(|| Stems::of(["time", "date", "schedule", "deadline", "timeline"]));
static COUNT: LazyLock<Stems> = LazyLock::new(|| Stems::of(["count", "number", "volume", "frequency", "duration"]));

fn is_count(text: &str, key: Kinds) -> bool {
    key.has(Kinds::COUNT) && has_digit(text)
}

/// A value that can be looked for in an answer.
fn is_usable(text: &str) -> bool {
    let is_constant =
        ["success", "ok", "query", "today", "tomorrow", "now", "true", "false", "yes", "no", "none", "n/a"]
            .iter()
            .any(|word| text.eq_ignore_ascii_case(word));
    let is_bare = text.len() < 3 && text.bytes().all(|byte| byte.is_ascii_digit());
    (2..=LONGEST).contains(&text.chars().count()) && !is_bare && text.chars().any(char::is_alphanumeric) && !is_constant
}
