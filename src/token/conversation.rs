//! Whole conversations as token ids, with the tokens that the assistant says marked.

use super::ChatTokenizer;
use super::encode::common_prefix;
use super::template::Marked;
use crate::dataset::{Message, Role};
use crate::error::{Error, Fault, Result};

/// A conversation in tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedConversation {
    /// All tokens.
    pub ids: Vec<u32>,
    /// Whether the assistant says the token, its terminators included. `[ids]`
    pub spoken: Vec<bool>,
}

impl ChatTokenizer {
    /// Ids of a conversation and which of them the assistant says: what the template's generation marks say, or, where it has
    /// none, each assistant turn from its first word to its terminator.
    ///
    /// # Errors
    /// A [`Fault`] if the template refuses the messages or rewrites earlier turns, or the assistant says nothing.
    pub fn encode_conversation(&self, messages: &[Message]) -> Result<EncodedConversation> {
        let Marked { text, spans } = match self.template.render_marked(messages)? {
            Some(marked) => marked,
            None => self.derive_spans(messages)?,
        };
        let encoding = self.tokenizer.encode(text.as_str(), false).map_err(|error| {
            // The library's words may quote the text.
            tracing::debug!("tokenizer: {error}");
            Error::Failed(format!("{}: cannot tokenise a rendered conversation", self.place))
        })?;
        let says = |&(start, end): &(usize, usize)| spans.iter().any(|span| start < span.end && end > span.start);
        let mut spoken: Vec<bool> = encoding.get_offsets().iter().map(says).collect();
        let mut ids = encoding.get_ids().to_vec();
        if let Some(begin) = self.begin.filter(|begin| ids.first() != Some(begin)) {
            ids.insert(0, begin);
            spoken.insert(0, false);
        }
        if !spoken.contains(&true) {
            return Err(Fault::new("the assistant says nothing in this conversation: there is nothing to train")
                .at(&self.place)
                .into());
        }
        Ok(EncodedConversation { ids, spoken })
    }

    /// Spans of the assistant's turns in a template without marks, from renderings that end with each of them.
    fn derive_spans(&self, messages: &[Message]) -> Result<Marked> {
        let text = self.render_conversation(messages)?;
        let mut spans = Vec::new();
        for (index, message) in messages.iter().enumerate().filter(|(_, message)| message.role == Role::Assistant) {
            let until = self.render_conversation(&messages[..=index])?;
            let start = self.anchor(&messages[..index], &until, &message.content)?.len();
            // What follows the turn may differ from what ends a conversation, but only after the turn's own words.
            let shared = common_prefix(&until, &text).len();
            let end = self.end_of_words(&until, start, &message.content);
            if shared < end {
                return Err(Fault::new("the chat template writes earlier turns differently once there are later ones")
                    .at(&self.place)
                    .expected("generation marks in the template, or turns that keep their text")
                    .into());
            }
            spans.push(start..end);
        }
        Ok(Marked { text, spans })
    }

    /// Where a turn that starts at `start` ends: after its terminator, or its words where the template writes none.
    fn end_of_words(&self, text: &str, start: usize, words: &str) -> usize {
        let turn = &text[start..];
        let after_words = turn.find(words.trim()).map_or(turn.len(), |at| at + words.trim().len());
        let ends = |id: &u32| {
            let token = self.tokenizer.id_to_token(*id)?;
            turn[after_words..].find(&token).map(|at| at + token.len())
        };
        let terminator = self.terminators.iter().filter_map(ends).min().unwrap_or(0);
        start + after_words + terminator
    }
}
