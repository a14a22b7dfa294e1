//! A trace read once: the words of its returns, goal and chain, for everything that derives a contract from them.
//!
//! In: a [`Trace`]. Out: [`Reading`].

use super::words::{self, Stem};
use crate::trace::{Leaf, Tool, Trace, leaves};

/// A trace with the stems of what it holds.
pub(super) struct Reading<'a> {
    /// The trace.
    pub trace: &'a Trace,
    /// All tools in order.
    pub tools: Vec<ReadTool<'a>>,
    /// What the requester wrote or can see anyway: goal and returns, with breaks between values.
    shown: Vec<Stem>,
}

/// A tool with its values.
pub(super) struct ReadTool<'a> {
    /// The tool.
    pub tool: &'a Tool,
    /// It is in the support.
    pub supports: bool,
    /// Its values in document order.
    pub leaves: Vec<ReadLeaf>,
}

/// A value with its words.
pub(super) struct ReadLeaf {
    /// The value.
    pub leaf: Leaf,
    /// Stems of its text, in order.
    pub stems: Vec<Stem>,
    /// Stems of its content words, sorted.
    pub content: Vec<Stem>,
    /// Its text in lower case, where that has the same bytes' positions.
    pub lower: Option<String>,
}

impl<'a> Reading<'a> {
    /// Reads a trace.
    pub fn of(trace: &'a Trace) -> Self {
        let tools: Vec<ReadTool<'a>> = trace.tools.iter().map(|tool| read(tool, trace)).collect();
        let mut shown = words::stems(&trace.goal);
        for leaf in tools.iter().flat_map(|tool| &tool.leaves) {
            shown.push(Stem::BREAK);
            words::each_word(&leaf.leaf.key, |word| shown.push(Stem::of(word)));
            shown.extend(&leaf.stems);
        }
        Self { trace, tools, shown }
    }

    /// Whether a form stands in the goal or in a return.
    pub fn is_shown(&self, form: &str) -> bool {
        words::contains(&self.shown, &words::stems(form))
    }

    /// The supporting tools.
    pub fn supporting(&self) -> impl Iterator<Item = &ReadTool<'a>> {
        self.tools.iter().filter(|tool| tool.supports)
    }
}

fn read<'a>(tool: &'a Tool, trace: &Trace) -> ReadTool<'a> {
    let read = |leaf: Leaf| {
        let lower = leaf.text.to_lowercase();
        let (stems, content) = words::stems_and_content(&leaf.text);
        ReadLeaf {
            stems,
            content,
            // Lower-casing can change lengths outside ASCII; such a text is compared by its stems only.
            lower: (lower.len() == leaf.text.len()).then_some(lower),
            leaf,
        }
    };
    ReadTool {
        tool,
        supports: trace.support.contains(&tool.tool_id),
        leaves: leaves(&tool.return_text).into_iter().map(read).collect(),
    }
}
