//! Grounded clues: the private fragments of single tools from which the conclusion is drawn.
//!
//! In: a trace. Out: targets of type `clue`, each with its tool and JSON pointer.

use std::collections::BTreeSet;

use super::freeze::problem_of;
use super::terms::terms;
use super::words;
use super::{Provenance, Target, TargetKind};
use crate::trace::{Leaf, LeafKind, Located, Tool, Trace, leaves};

/// Characters up to which a return's whole text is one clue; of longer texts only the quoted words are.
const LONGEST: usize = 80;

/// Content words that an unquoted clue shares with the chain.
const SHARED_WORDS: usize = 2;

/// All clues of a trace: declared ones, or those that the inference chain quotes and a supporting tool returns.
pub(super) fn clues(trace: &Trace) -> Vec<Target> {
    let mut clues = Clues { trace, targets: Vec::new(), seen: BTreeSet::new() };
    match &trace.truth {
        Some(truth) if !truth.clues.is_empty() => clues.add_declared(&truth.clues),
        _ => {
            clues.add_quoted();
            clues.add_used();
        }
    }
    clues.targets
}

struct Clues<'a> {
    trace: &'a Trace,
    targets: Vec<Target>,
    seen: BTreeSet<(String, String)>,
}

impl Clues<'_> {
    fn add_declared(&mut self, declared: &[Located]) {
        for located in declared {
            let Some(tool) = self.trace.tool(&located.tool_id) else { continue };
            let leaf = leaves(&tool.return_text).into_iter().find(|leaf| leaf.pointer == located.pointer);
            if let Some(leaf) = leaf {
                self.add(tool, &leaf, vec![leaf.text.clone()], "truth");
            }
        }
    }

    fn add_quoted(&mut self) {
        let chain = self.trace.inference_chain.as_deref().unwrap_or_default();
        let supporting: Vec<(&Tool, Vec<Leaf>)> = self
            .trace
            .tools
            .iter()
            .filter(|tool| self.trace.support.contains(&tool.tool_id))
            .map(|tool| (tool, leaves(&tool.return_text)))
            .collect();
        for term in terms(chain).into_iter().filter(|term| term.text.len() > 2 && !term.text.starts_with("Type ")) {
            // Verbatim places first; only a term that stands nowhere is looked for by its stems.
            let verbatim = |leaf: &Leaf| verbatim(&leaf.text, &term.text).is_some();
            let stemmed = |leaf: &Leaf| shares_stems(&leaf.text, &term.text);
            let found = self.place(&supporting, &term.text, verbatim);
            if !found {
                self.place(&supporting, &term.text, stemmed);
            }
        }
    }

    /// Short texts that the chain draws on without quoting them: several of their content words stand in it.
    fn add_used(&mut self) {
        let chain = words::content(self.trace.inference_chain.as_deref().unwrap_or_default());
        let trace = self.trace;
        for tool in trace.tools.iter().filter(|tool| trace.support.contains(&tool.tool_id)) {
            for leaf in leaves(&tool.return_text) {
                let shared = words::content(&leaf.text).intersection(&chain).filter(|stem| stem.len() >= 4).count();
                let is_short = leaf.text.chars().count() <= LONGEST;
                if leaf.kind == LeafKind::Text && is_short && shared >= SHARED_WORDS {
                    self.add(tool, &leaf, vec![leaf.text.clone()], "chain");
                }
            }
        }
    }

    fn place(&mut self, tools: &[(&Tool, Vec<Leaf>)], term: &str, accepts: impl Fn(&Leaf) -> bool) -> bool {
        let mut found = false;
        for (tool, leaves) in tools {
            for leaf in leaves.iter().filter(|leaf| leaf.kind == LeafKind::Text && accepts(leaf)) {
                found = true;
                self.add(tool, leaf, forms(leaf, term), "chain");
            }
        }
        found
    }

    fn add(&mut self, tool: &Tool, leaf: &Leaf, mut forms: Vec<String>, field: &str) {
        forms.retain(|form| problem_of(form).is_none());
        let pointer = format!("/{}{}", tool.tool_id, leaf.pointer);
        if forms.is_empty() {
            return;
        }
        let value = forms.remove(0);
        if let Some(known) = self.targets.iter_mut().find(|target| words::stems(&target.value) == words::stems(&value))
        {
            if !known.provenance.pointers.contains(&pointer) {
                known.provenance.pointers.push(pointer);
            }
            if !known.provenance.tools.contains(&tool.tool_id) {
                known.provenance.tools.push(tool.tool_id.clone());
            }
            return;
        }
        if !self.seen.insert((pointer.clone(), value.clone())) {
            return;
        }
        self.targets.push(Target {
            target_id: format!("clue-{}", self.targets.len() + 1),
            weak: words::is_common(&value),
            value,
            aliases: forms,
            kind: TargetKind::Clue,
            provenance: Provenance {
                item: Some(self.trace.trace_id.clone()),
                tools: vec![tool.tool_id.clone()],
                pointers: vec![pointer],
                field: Some(field.to_owned()),
            },
        });
    }
}

/// A short text is a clue as a whole, with the quoted words as an alias if there are several; of a long text, those words.
fn forms(leaf: &Leaf, term: &str) -> Vec<String> {
    let quoted = verbatim(&leaf.text, term);
    if leaf.text.chars().count() > LONGEST {
        return quoted.into_iter().collect();
    }
    let mut forms = vec![leaf.text.clone()];
    forms.extend(quoted.filter(|quoted| *quoted != leaf.text && words::words(quoted).len() > 1));
    forms
}

/// The term as it stands in the text, whatever the case.
fn verbatim(text: &str, term: &str) -> Option<String> {
    let (lower, wanted) = (text.to_lowercase(), term.trim_end_matches(['.', ',']).to_lowercase());
    if lower.len() != text.len() {
        return None;
    }
    lower.match_indices(&wanted).find_map(|(start, found)| {
        let end = start + found.len();
        let free = |character: Option<char>| character.is_none_or(|character| !character.is_alphanumeric());
        let bounded = free(lower[..start].chars().next_back()) && free(lower[end..].chars().next());
        bounded.then(|| text.get(start..end).map(str::to_owned))?
    })
}

/// All content words of the term, by stem, occur in the text.
fn shares_stems(text: &str, term: &str) -> bool {
    let wanted = words::content(term);
    let has_long = wanted.iter().any(|stem| stem.len() >= 4);
    has_long && wanted.is_subset(&words::content(text))
}
