//! What an answer is held against: the contract, the prompt's text, the values of the results shown in it, and the values of
//! the tools that were not shown.
//!
//! In: prompt turns and, where there are any, contract and trace. Out: [`Ground`].

use crate::adjudicate::{Decision, Disclosure, Matcher, decide, disclosures};
use crate::contract::{Contract, Required};
use crate::dataset::{Message, Role};
use crate::error::Result;
use crate::trace::{Leaf, LeafKind, Trace, leaves};

use super::grounding::Source;
use super::text::Text;

/// Shorter values of a tool that was not shown appear in any text by chance.
const SHORTEST_NOISE: usize = 4;

/// The ground of one prompt.
#[derive(Debug, Clone)]
pub struct Ground<'a> {
    pub(super) contract: Option<(&'a Contract, Matcher)>,
    pub(super) trace: Option<&'a Trace>,
    pub(super) source: Source,
    /// The prompt without the results: the goal.
    pub(super) request: Text<'static>,
    /// Values of the results shown.
    pub(super) shown: Vec<Leaf>,
    /// Values of the results not shown, unless the prompt holds them too.
    pub(super) noise: Vec<String>,
}

impl<'a> Ground<'a> {
    /// Prepares the ground of a prompt.
    ///
    /// # Errors
    /// A contract that does not validate.
    pub fn new(prompt: &[Message], contract: Option<&'a Contract>, trace: Option<&'a Trace>) -> Result<Self> {
        let turns: Vec<&str> = prompt
            .iter()
            .filter(|turn| matches!(turn.role, Role::User | Role::Tool))
            .map(|turn| turn.content.as_str())
            .collect();
        let text = turns.join("\n");
        let (mut shown, mut request) = leaves_within(&text);
        if let Some(trace) = trace {
            for tool in trace.tools.iter().filter(|tool| text.contains(&tool.return_text)) {
                shown.extend(
                    leaves(&tool.return_text).into_iter().filter(|leaf| !shown.contains(leaf)).collect::<Vec<_>>(),
                );
                request = request.replace(&tool.return_text, "");
            }
        }
        let source = Source::new(&text);
        let noise = trace.map(|trace| noise(trace, &text, &source)).unwrap_or_default();
        let contract =
            contract.map(|contract| Matcher::new(contract).map(|matcher| (contract, matcher))).transpose()?;
        Ok(Self { contract, trace, source, request: Text::new(request), shown, noise })
    }

    /// The unauthorised matches of a text on a channel; none without a contract.
    pub fn disclosures(&self, channel: &str, text: &str) -> Vec<Disclosure> {
        self.contract
            .as_ref()
            .map_or_else(Vec::new, |(contract, matcher)| disclosures(contract, matcher, channel, text))
    }

    /// What they amount to.
    pub fn decision(&self, channel: &str, text: &str) -> Decision {
        decide(&self.disclosures(channel, text))
    }

    /// Whether a value stands in the request itself.
    pub fn is_requested(&self, value: &str) -> bool {
        self.request.holds(value)
    }

    /// How many values of the results shown a text tells that neither the task nor the request names.
    pub fn unasked(&self, text: &str) -> usize {
        let text = Text::new(text);
        let is_unasked = |leaf: &&Leaf| {
            leaf.kind != LeafKind::Constant
                && leaf.text.chars().count() >= SHORTEST_NOISE
                && !self.required().iter().any(|required| required.value.contains(&leaf.text))
                && text.holds(&leaf.text)
                && !self.is_requested(&leaf.text)
        };
        self.shown.iter().filter(is_unasked).count()
    }

    /// Whether a text holds every required value; `false` without a contract or required values.
    pub fn is_complete(&self, text: &str) -> bool {
        let (required, text) = (self.required(), Text::new(text));
        !required.is_empty() && required.iter().all(|required| text.holds(&required.value))
    }

    /// The text of the prompt.
    pub fn source_text(&self) -> &str {
        self.source.text()
    }

    /// The values that a complete answer holds; none without a contract.
    pub fn required(&self) -> &'a [Required] {
        self.contract.as_ref().map_or(&[], |(contract, _)| &contract.required)
    }
}

/// Values of the tools whose results the prompt does not show.
fn noise(trace: &Trace, prompt: &str, source: &Source) -> Vec<String> {
    trace
        .tools
        .iter()
        .filter(|tool| !prompt.contains(&tool.return_text))
        .flat_map(|tool| leaves(&tool.return_text))
        .filter(|leaf| leaf.kind != LeafKind::Constant && is_telling(&leaf.text))
        .filter(|leaf| !source.holds_text(&leaf.text))
        .map(|leaf| leaf.text)
        .collect()
}

/// Long enough, and no single lower-case or title-case word, which is ordinary English as likely as a value.
fn is_telling(text: &str) -> bool {
    let is_single_word = text.chars().all(char::is_alphabetic) && text.chars().skip(1).all(char::is_lowercase);
    text.chars().count() >= SHORTEST_NOISE && !is_single_word
}

/// The leaves of every JSON object or array within a text, and the text outside of them.
fn leaves_within(text: &str) -> (Vec<Leaf>, String) {
    let mut found = Vec::new();
    let mut outside = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(['{', '[']) {
        outside.push_str(&rest[..start]);
        let mut values = serde_json::Deserializer::from_str(&rest[start..]).into_iter::<&serde_json::value::RawValue>();
        if let Some(Ok(value)) = values.next() {
            found.extend(leaves(value.get()));
            rest = &rest[start + value.get().len()..];
        } else {
            outside.push_str(&rest[start..=start]);
            rest = &rest[start + 1..];
        }
    }
    outside.push_str(rest);
    (found, outside)
}
