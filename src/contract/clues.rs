//! Grounded clues: the private fragments of single tools from which the conclusion is drawn.
//!
//! In: a trace. Out: targets of type `clue`, each with its tool and JSON pointer.

use super::freeze::problem_of;
use super::reading::{ReadLeaf, ReadTool, Reading};
use super::terms::terms;
use super::words::{self, Stem};
use super::{Provenance, Target, TargetKind, TargetRole};
use crate::trace::{Leaf, LeafKind, Located, Tool};

/// Characters up to which a return's whole text is one clue; of longer texts only the quoted words are.
const LONGEST: usize = 80;

/// Content words that an unquoted clue shares with the chain.
const SHARED_WORDS: usize = 2;

/// All clues of a trace: declared ones, or those that the inference chain quotes and a supporting tool returns.
pub(super) fn clues(reading: &Reading<'_>) -> Vec<Target> {
    let mut clues = Clues { reading, targets: Vec::new(), stems: Vec::new() };
    match &reading.trace.truth {
        Some(truth) if !truth.clues.is_empty() => clues.add_declared(&truth.clues),
        _ => {
            clues.add_quoted();
            clues.add_used();
        }
    }
    clues.targets
}

struct Clues<'a> {
    reading: &'a Reading<'a>,
    targets: Vec<Target>,
    /// Stems of each target's value.
    stems: Vec<Vec<Stem>>,
}

impl Clues<'_> {
    fn add_declared(&mut self, declared: &[Located]) {
        let reading = self.reading;
        for located in declared {
            let tool = reading.tools.iter().find(|tool| tool.tool.tool_id == located.tool_id);
            let Some(tool) = tool else { continue };
            let leaf = tool.leaves.iter().find(|leaf| leaf.leaf.pointer == located.pointer);
            if let Some(leaf) = leaf {
                self.add(tool.tool, &leaf.leaf, vec![leaf.leaf.text.clone()], "truth");
            }
        }
    }

    /// Terms that the chain quotes: first in the tool that the chain names beside them, then anywhere in the support.
    fn add_quoted(&mut self) {
        let reading = self.reading;
        let chain = reading.trace.inference_chain.as_deref().unwrap_or_default();
        let mentions = Mentions::of(chain);
        for term in terms(chain).into_iter().filter(|term| term.text.len() > 2 && !term.text.starts_with("Type ")) {
            let sought = Sought::of(&term.text);
            let own = mentions.tool_at(term.range.start);
            let own = reading.supporting().find(|tool| Some(tool.tool.tool_id.as_str()) == own);
            let own: Vec<&ReadTool<'_>> = own.into_iter().collect();
            let all: Vec<&ReadTool<'_>> = reading.supporting().collect();
            // Verbatim places first; only a term that stands nowhere is looked for by its stems.
            let _ = self.place(&own, &sought, Likeness::Verbatim)
                || self.place(&own, &sought, Likeness::Stems)
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
                let is_short = leaf.leaf.text.chars().count() <= LONGEST;
                if leaf.leaf.kind == LeafKind::Text && is_short && shared.count() >= SHARED_WORDS {
                    self.add(tool.tool, &leaf.leaf, vec![leaf.leaf.text.clone()], "chain");
                }
            }
        }
    }

    fn place(&mut self, tools: &[&ReadTool<'_>], sought: &Sought<'_>, likeness: Likeness) -> bool {
        let mut found = false;
        for tool in tools {
            let accepts = |leaf: &&ReadLeaf| leaf.leaf.kind == LeafKind::Text && sought.stands_in(leaf, likeness);
            for leaf in tool.leaves.iter().filter(accepts) {
                found = true;
                self.add(tool.tool, &leaf.leaf, sought.forms(leaf), "chain");
            }
        }
        found
    }

    fn add(&mut self, tool: &Tool, leaf: &Leaf, mut forms: Vec<String>, field: &str) {
        forms.retain(|form| problem_of(form).is_none());
        if forms.is_empty() {
            return;
        }
        let value = forms.remove(0);
        let stems = words::stems(&value);
        let pointer = format!("/{}{}", tool.tool_id, leaf.pointer);
        if let Some(at) = self.stems.iter().position(|known| *known == stems) {
            let known = &mut self.targets[at].provenance;
            if !known.pointers.contains(&pointer) {
                known.pointers.push(pointer);
            }
            if !known.tools.contains(&tool.tool_id) {
                known.tools.push(tool.tool_id.clone());
            }
            return;
        }
        self.stems.push(stems);
        self.targets.push(Target {
            target_id: format!("clue-{}", self.targets.len() + 1),
            weak: words::is_common(&value),
            value,
            aliases: forms,
            kind: TargetKind::Clue,
            provenance: Provenance {
                item: Some(self.reading.trace.trace_id.clone()),
                tools: vec![tool.tool_id.clone()],
                pointers: vec![pointer],
                field: Some(field.to_owned()),
                role: Some(TargetRole::Clue),
            },
        });
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
        Self { text, lower: text.trim_end_matches(['.', ',']).to_lowercase(), content: words::content(text) }
    }

    fn stands_in(&self, leaf: &ReadLeaf, likeness: Likeness) -> bool {
        match likeness {
            Likeness::Verbatim => self.verbatim(leaf).is_some(),
            Likeness::Stems => {
                self.content.iter().any(|stem| stem.len() >= 4) && words::is_within(&self.content, &leaf.content)
            }
        }
    }

    /// The term as it stands in the text, whatever the case.
    fn verbatim<'b>(&self, leaf: &'b ReadLeaf) -> Option<&'b str> {
        let lower = leaf.lower.as_deref()?;
        lower.match_indices(&self.lower).find_map(|(start, found)| {
            let end = start + found.len();
            let free = |character: Option<char>| character.is_none_or(|character| !character.is_alphanumeric());
            let bounded = free(lower[..start].chars().next_back()) && free(lower[end..].chars().next());
            bounded.then(|| leaf.leaf.text.get(start..end))?
        })
    }

    /// A short text is a clue as a whole, with the quoted words as an alias if there are several; of a long text, those
    /// words.
    fn forms(&self, leaf: &ReadLeaf) -> Vec<String> {
        let text = &leaf.leaf.text;
        let quoted = self.verbatim(leaf).map(str::to_owned);
        if text.chars().count() > LONGEST {
            return quoted.into_iter().collect();
        }
        let mut forms = vec![text.clone()];
        forms.extend(quoted.filter(|quoted| quoted != text && words::count(self.text) > 1));
        forms
    }
}
