//! A trace read once: the words of its returns, goal and chain, for everything that derives a contract from them.
//!
//! In: a [`Trace`]. Out: [`Words`], which holds all stems in a few lists, and [`Reading`], whose values are parts of them.

use std::borrow::Cow;
use std::ops::Range;

use super::words::{self, Stem};
use crate::trace::{LeafKind, LeafView, Tool, Trace, each_leaf};

/// Values that a tool mostly has at most.
const USUAL_VALUES: usize = 32;
/// Stems that a trace mostly has at most.
const USUAL_STEMS: usize = 512;

/// All values of a trace with their stems.
pub(super) struct Words<'a> {
    leaves: Vec<Leaf<'a>>,
    /// For each tool where its leaves end.
    ends: Vec<usize>,
    /// JSON pointers, one after the other.
    pointers: String,
    /// What the requester wrote or can see anyway: goal and returns, with breaks between values.
    shown: Vec<Stem>,
    /// Stems of the goal, which come first.
    of_goal: usize,
    /// Content words of each value, sorted.
    content: Vec<Stem>,
}

/// A value with its places in the lists.
struct Leaf<'a> {
    key: Cow<'a, str>,
    text: Cow<'a, str>,
    kind: LeafKind,
    pointer: Range<usize>,
    stems: Range<usize>,
    content: Range<usize>,
}

impl<'a> Words<'a> {
    /// Reads a trace.
    pub fn of(trace: &'a Trace) -> Self {
        let mut words = Self {
            leaves: Vec::with_capacity(USUAL_VALUES),
            ends: Vec::with_capacity(trace.tools.len()),
            pointers: String::with_capacity(16 * USUAL_VALUES),
            shown: Vec::with_capacity(USUAL_STEMS),
            of_goal: 0,
            content: Vec::with_capacity(USUAL_STEMS / 2),
        };
        words::add_stems(&trace.goal, &mut words.shown);
        words.of_goal = words.shown.len();
        for tool in &trace.tools {
            each_leaf(&tool.return_text, |leaf| words.add(leaf));
            words.ends.push(words.leaves.len());
        }
        words
    }

    fn add(&mut self, leaf: LeafView<'_, 'a>) {
        let LeafView { pointer, key, text, kind } = leaf;
        let Self { leaves, pointers, shown, content, .. } = self;
        let (place, first) = (pointers.len(), content.len());
        pointers.push_str(pointer);
        shown.push(Stem::BREAK);
        words::add_stems(key, shown);
        let start = shown.len();
        words::each_word(&text, |word| {
            let stem = Stem::of(word);
            shown.push(stem);
            content.extend(words::content_stem(word, stem));
        });
        words::sort_from(content, first);
        leaves.push(Leaf {
            key: key.clone(),
            text,
            kind,
            pointer: place..pointers.len(),
            stems: start..shown.len(),
            content: first..content.len(),
        });
    }
}

/// A trace with the stems of what it holds.
pub(super) struct Reading<'a> {
    /// The trace.
    pub trace: &'a Trace,
    /// All tools in order.
    pub tools: Vec<ReadTool<'a>>,
    /// Stems of the goal.
    pub goal: &'a [Stem],
    shown: &'a [Stem],
}

/// A tool with its values.
pub(super) struct ReadTool<'a> {
    /// The tool.
    pub tool: &'a Tool,
    /// It is in the support.
    pub supports: bool,
    /// Its values in document order.
    pub leaves: Vec<ReadLeaf<'a>>,
}

/// A value with its words.
#[derive(Clone, Copy)]
pub(super) struct ReadLeaf<'a> {
    /// JSON pointer within the return.
    pub pointer: &'a str,
    /// The nearest key above it; empty at the root.
    pub key: &'a str,
    /// A string's content, or a number as written.
    pub text: &'a str,
    /// What JSON says it is.
    pub kind: LeafKind,
    /// Stems of its text, in order.
    pub stems: &'a [Stem],
    /// Stems of its content words, sorted.
    pub content: &'a [Stem],
}

impl<'a> Reading<'a> {
    /// A trace and its words.
    pub fn of(trace: &'a Trace, words: &'a Words<'_>) -> Self {
        let mut start = 0;
        let tools = trace.tools.iter().zip(&words.ends).map(|(tool, &end)| {
            let leaves = words.leaves[start..end].iter().map(|leaf| ReadLeaf {
                pointer: &words.pointers[leaf.pointer.clone()],
                key: &leaf.key,
                text: &leaf.text,
                kind: leaf.kind,
                stems: &words.shown[leaf.stems.clone()],
                content: &words.content[leaf.content.clone()],
            });
            start = end;
            ReadTool { tool, supports: trace.support.contains(&tool.tool_id), leaves: leaves.collect() }
        });
        Self { trace, tools: tools.collect(), goal: &words.shown[..words.of_goal], shown: &words.shown }
    }

    /// Whether a form stands in the goal or in a return.
    pub fn is_shown(&self, form: &str) -> bool {
        words::contains(self.shown, &words::stems(form))
    }

    /// The supporting tools.
    pub fn supporting(&self) -> impl Iterator<Item = &ReadTool<'a>> {
        self.tools.iter().filter(|tool| tool.supports)
    }
}
