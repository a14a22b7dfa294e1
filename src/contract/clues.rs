//! Grounded clues: the private fragments of single tools from which the conclusion is drawn.
//!
//! In: a trace. Out: targets of type `clue`, each with its tool and JSON pointer.

use std::ops::Range;

use super::freeze::problem_of;
use super::reading::{ReadLeaf, ReadTool, Reading};
use super::terms::terms;
use super::words::{self, Stem};
use super::{Provenance, Target, TargetKind, TargetRole};
use crate::trace::{LeafKind, Located, Tool};

/// Characters up to which a return's whole text is one clue; of longer texts only the quoted words are.
const LONGEST: usize = 80;

/// Content words that an unquoted clue shares with the chain.
const SHARED_WORDS: usize = 2;

/// A clue with the stems of its value.
pub(super) struct Clue {
    /// The target.
    pub target: Target,
    /// Stems of its value, in order.
    pub stems: Vec<Stem>,
}

/// All clues of a trace: declared ones, or those that the inference chain quotes and a supporting tool returns.
pub(super) fn clues(reading: &Reading<'_>) -> Vec<Clue> {
    let mut clues = Clues { reading, found: Vec::new() };
    match &reading.trace.truth {
        Some(truth) if !truth.clues.is_empty() => clues.add_declared(&truth.clues),
        _ => {
            clues.add_quoted();
            clues.add_used();
        }
    }
    clues.found
}

struct Clues<'a> {
    reading: &'a Reading<'a>,
    found: Vec<Clue>,
}

impl<'a> Clues<'a> {
    fn add_declared(&mut self, declared: &[Located]) {
        let reading = self.reading;
        for located in declared {
            let tool = reading.tools.iter().find(|tool| tool.tool.tool_id == located.tool_id);
            let Some(tool) = tool else { continue };
            let leaf = tool.leaves.iter().find(|leaf| leaf.pointer == located.pointer);
            if let Some(leaf) = leaf {
                self.add(tool.tool, leaf, vec![leaf.text], "truth");
            }
        }
    }

    /// Terms that the chain quotes: first in the tool that the chain names beside them, then anywhere in the support.
    fn add_quoted(&mut self) {
        let reading = self.reading;
        let chain = reading.trace.inference_chain.as_deref().unwrap_or_default();
        let mentions = Mentions::of(chain);
        let all: Vec<&ReadTool<'_>> = reading.supporting().collect();
        for term in terms(chain).into_iter().filter(|term| term.text.len() > 2 && !term.text.starts_with("Type ")) {
            let sought = Sought::of(&term.text);
            let own = mentions.tool_at(term.range.start);
            let own = reading.supporting().find(|tool| Some(tool.tool.tool_id.as_str()) == own);
            let own = own.as_slice();
            // Verbatim places first; only a term that stands nowhere is looked for by its stems.
            let _ = self.place(own, &sought, Likeness::Verbatim)
                || self.place(own, &sought, Likeness::Stems)
                || self.place(&all, &sought, Likeness::Verbatim)
                || self.place(&all, &sought, Likeness::Stems);
        }
    }

    /// Short texts that the chain draws on without quoting them: several of their content words stand in it.
    fn add_used(&mut self) {
        let reading = self.reading;
        let chain = words::content(reading.trace.inference_chain.as_deref().unwrap_or_default());
        for tool in reading.supporting() {
            for leaf in &tool.leaves {
                let shared = leaf.content.iter().filter(|stem| stem.len() >= 4 && chain.binary_search(stem).is_ok());
                if leaf.kind == LeafKind::Text && shared.count() >= SHARED_WORDS && is_short(leaf.text) {
                    self.add(tool.tool, leaf, vec![leaf.text], "chain");
                }
            }
        }
    }

    fn place(&mut self, tools: &[&'a ReadTool<'a>], sought: &Sought<'_>, likeness: Likeness) -> bool {
        let mut found = false;
        for tool in tools {
            for leaf in tool.leaves.iter().filter(|leaf| leaf.kind == LeafKind::Text) {
                if let Some(forms) = sought.forms(leaf, likeness) {
                    found = true;
                    self.add(tool.tool, leaf, forms, "chain");
                }
            }
        }
        found
    }

    fn add(&mut self, tool: &Tool, leaf: &ReadLeaf<'a>, forms: Vec<&'a str>, field: &str) {
        let mut forms = forms.into_iter().filter(|form| problem_of(form).is_none());
        let Some(value) = forms.next() else { return };
        let pointer = format!("/{}{}", tool.tool_id, leaf.pointer);
        let stems = if value == leaf.text { leaf.stems.to_vec() } else { words::stems(value) };
        if let Some(known) = self.found.iter_mut().find(|known| known.stems == stems) {
            let known = &mut known.target.provenance;
            if !known.pointers.contains(&pointer) {
                known.pointers.push(pointer);
            }
            if !known.tools.contains(&tool.tool_id) {
                known.tools.push(tool.tool_id.clone());
            }
            return;
        }
        let target = Target {
            target_id: format!("clue-{}", self.found.len() + 1),
            weak: words::is_common(value),
            value: value.to_owned(),
            aliases: forms.map(str::to_owned).collect(),
            kind: TargetKind::Clue,
            provenance: Provenance {
                item: Some(self.reading.trace.trace_id.clone()),
                tools: vec![tool.tool_id.clone()],
                pointers: vec![pointer],
                field: Some(field.to_owned()),
                role: Some(TargetRole::Clue),
            },
        };
        self.found.push(Clue { target, stems });
    }
}

/// Where a chain names its tools: `T1 shows 'X'` before, or `'X' (T1)` behind what it says of them.
struct Mentions<'a> {
    /// Position and id of each.
    places: Vec<(usize, &'a str)>,
    /// The tool stands behind.
    is_behind: bool,
}

impl<'a> Mentions<'a> {
    fn of(chain: &'a str) -> Self {
        let bytes = chain.as_bytes();
        let mut places = Vec::new();
        for (at, _) in chain.match_indices('T') {
            let digits = bytes[at + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            let is_word = at > 0 && bytes[at - 1].is_ascii_alphanumeric();
            if (1..=2).contains(&digits) && !is_word {
                places.push((at, &chain[at..=at + digits]));
            }
        }
        // What is drawn from all of them belongs to none.
        let end = ["Combin", "combin"].iter().filter_map(|word| chain.rfind(word)).max();
        if let (Some(end), Some(last)) = (end, places.last())
            && end > last.0
        {
            places.push((end, ""));
        }
        let is_behind = places.first().is_some_and(|(at, id)| {
            *at > 0 && bytes[at - 1] == b'(' && matches!(bytes.get(at + id.len()), Some(b')' | b','))
        });
        Self { places, is_behind }
    }

    fn tool_at(&self, position: usize) -> Option<&'a str> {
        let mut before = self.places.iter().rev().skip_while(|(at, _)| *at > position);
        let mut behind = self.places.iter().skip_while(|(at, _)| *at < position);
        let place = if self.is_behind { behind.next() } else { before.next() };
        place.map(|(_, id)| *id)
    }
}

/// How a term stands in a text.
#[derive(Clone, Copy)]
enum Likeness {
    /// As quoted, whatever the case.
    Verbatim,
    /// All its content words, by stem.
    Stems,
}

/// A term to look for.
struct Sought<'a> {
    text: &'a str,
    lower: String,
    content: Vec<Stem>,
}

impl<'a> Sought<'a> {
    fn of(text: &'a str) -> Self {
        let mut content = words::content(text);
        // Short words alone say too little.
        if !content.iter().any(|stem| stem.len() >= 4) {
            content.clear();
        }
        Self { text, lower: text.trim_end_matches(['.', ',']).to_lowercase(), content }
    }

    /// The term as it stands in the text, whatever the case.
    fn verbatim<'b>(&self, leaf: &ReadLeaf<'b>) -> Option<&'b str> {
        if leaf.text.is_ascii() && !self.lower.is_empty() {
            return ascii_range(leaf.text.as_bytes(), self.lower.as_bytes()).map(|range| &leaf.text[range]);
        }
        let lower = leaf.text.to_lowercase();
        // Lower-casing can change lengths outside ASCII; such a text is compared by its stems only.
        if lower.len() != leaf.text.len() {
            return None;
        }
        lower.match_indices(&self.lower).find_map(|(start, found)| {
            let end = start + found.len();
            let free = |character: Option<char>| character.is_none_or(|character| !character.is_alphanumeric());
            let bounded = free(lower[..start].chars().next_back()) && free(lower[end..].chars().next());
            bounded.then(|| leaf.text.get(start..end))?
        })
    }

    /// What the term is in a text that holds it: a short text is a clue as a whole, with the quoted words as an alias if there are
    /// several; of a long text, those words.
    fn forms<'b>(&self, leaf: &ReadLeaf<'b>, likeness: Likeness) -> Option<Vec<&'b str>> {
        let quoted = match likeness {
            Likeness::Verbatim => Some(self.verbatim(leaf)?),
            Likeness::Stems if words::is_within(&self.content, leaf.content) => self.verbatim(leaf),
            Likeness::Stems => return None,
        };
        if !is_short(leaf.text) {
            return Some(quoted.into_iter().collect());
        }
        let mut forms = vec![leaf.text];
        forms.extend(quoted.filter(|quoted| *quoted != leaf.text && words::count(self.text) > 1));
        Some(forms)
    }
}

fn is_short(text: &str) -> bool {
    text.len() <= LONGEST || text.chars().count() <= LONGEST
}

/// Where `lower` stands in ASCII text as words of its own, whatever the case.
fn ascii_range(text: &[u8], lower: &[u8]) -> Option<Range<usize>> {
    let first = *lower.first()?;
    let is_free = |at: Option<usize>| at.and_then(|at| text.get(at)).is_none_or(|byte| !byte.is_ascii_alphanumeric());
    let mut from = 0;
    loop {
        let start = from + memchr::memchr2(first, first.to_ascii_uppercase(), text.get(from..)?)?;
        let end = start + lower.len();
        if !text.get(start..end)?.eq_ignore_ascii_case(lower) {
            from = start + 1;
        } else if is_free(start.checked_sub(1)) && is_free(Some(end)) {
            return Some(start..end);
        } else {
            from = end;
        }
    }
}
