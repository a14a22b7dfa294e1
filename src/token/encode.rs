//! Prompts and answers as token ids: what is read, and what is trained.

use super::{ChatTokenizer, Ending, Tree};
use crate::dataset::Message;
use crate::error::{Fault, Result};

/// A prompt and its answer in tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedAnswer {
    /// The conversation and the header of the assistant's turn.
    pub prompt: Vec<u32>,
    /// The answer from its first word to its one terminator: the trained tokens.
    pub answer: Vec<u32>,
    /// Tokens of the prompt that merged with the answer's beginning and so went to the answer; ordinarily 0.
    pub merged_at_seam: usize,
}

impl ChatTokenizer {
    /// Ids of a conversation and the header that the model continues from.
    ///
    /// # Errors
    /// A [`Fault`] if the template refuses the messages.
    pub fn encode_prompt(&self, messages: &[Message]) -> Result<Vec<u32>> {
        self.encode_text(&self.render_prompt(messages)?)
    }

    /// Ids of a conversation and of one answer to it, split where the answer's words begin.
    ///
    /// # Errors
    /// A [`Fault`] if the template refuses the messages, rewrites earlier turns once there is an answer, or the answer
    /// is empty or holds a terminator itself.
    pub fn encode_answer(&self, messages: &[Message], answer: &str) -> Result<EncodedAnswer> {
        if answer.trim().is_empty() {
            return Err(Fault::new("the answer is empty: there is nothing to train").into());
        }
        let conversation: Vec<Message> =
            messages.iter().cloned().chain(std::iter::once(Message::assistant(answer))).collect();
        let full_text = self.render_conversation(&conversation)?;
        let prompt_text = self.anchor(messages, &full_text, answer)?;
        let prompt = self.encode_text(&prompt_text)?;
        let full = self.encode_text(&full_text)?;
        let shared = prompt.iter().zip(&full).take_while(|(left, right)| left == right).count();
        let answer = self.end_once(&full[shared..], answer)?;
        Ok(EncodedAnswer { prompt: full[..shared].to_vec(), answer, merged_at_seam: prompt.len() - shared })
    }

    /// One prompt with several answers, for [`super::pack`]; `rows` are row ids with their answers.
    ///
    /// # Errors
    /// As [`ChatTokenizer::encode_answer`], with the row's id as the place.
    pub fn encode_tree(&self, messages: &[Message], rows: &[(&str, &str)]) -> Result<Tree> {
        let mut encoded = Vec::with_capacity(rows.len());
        for (row_id, answer) in rows {
            encoded.push(self.encode_answer(messages, answer).map_err(|error| at_row(error, row_id))?);
        }
        // Answers share one prompt: where a seam merged, the shortest prompt is everybody's.
        let shared = encoded.iter().map(|row| row.prompt.len()).min().unwrap_or(0);
        let prompt = encoded.first().map_or_else(Vec::new, |row| row.prompt[..shared].to_vec());
        let answers = encoded.into_iter().map(|row| [&row.prompt[shared..], &row.answer].concat()).collect();
        Ok(Tree { row_ids: rows.iter().map(|(row_id, _)| (*row_id).to_owned()).collect(), prompt, answers })
    }

    /// The conversation's text with the assistant's header, also from templates that ignore `add_generation_prompt`.
    fn render_prompt(&self, messages: &[Message]) -> Result<String> {
        const ANSWER: &str = "topalign-answer-marker";
        let prompt = self.template.render(messages, Ending::GenerationPrompt)?;
        let conversation = self.template.render(messages, Ending::Conversation)?;
        if prompt != conversation {
            return Ok(prompt);
        }
        let answered: Vec<Message> =
            messages.iter().cloned().chain(std::iter::once(Message::assistant(ANSWER))).collect();
        let full = self.render_conversation(&answered)?;
        // Without the marker in its place the template offers nothing better than the conversation itself.
        let header =
            full.strip_prefix(&conversation).and_then(|rest| rest.split_once(ANSWER)).map(|(header, _)| header);
        Ok(prompt + header.unwrap_or_default())
    }

    /// The prompt's text as a prefix of the full text. Where the generation prompt is none (it may open a block that the
    /// finished turn does not have), the longest common prefix serves, as long as it holds the whole conversation.
    pub(super) fn anchor(&self, messages: &[Message], full_text: &str, answer: &str) -> Result<String> {
        let prompt_text = self.render_prompt(messages)?;
        if full_text.starts_with(&prompt_text) {
            return Ok(prompt_text);
        }
        let common = common_prefix(&prompt_text, full_text);
        let conversation = self.render_conversation(messages)?;
        let first_word = answer.trim_start();
        let holds_conversation = common.len() >= conversation.len();
        let starts_at_content = full_text[common.len()..].trim_start().starts_with(first_word.trim_end());
        if holds_conversation && starts_at_content {
            return Ok(common.to_owned());
        }
        Err(Fault::new(
            "the chat template writes the prompt differently once it is answered, so the answer has no start",
        )
        .at(&self.place)
        .expected("a generation prompt that the finished conversation begins with")
        .into())
    }

    /// The answer's tokens up to its first terminator, which is added where the template writes none.
    fn end_once(&self, tokens: &[u32], answer: &str) -> Result<Vec<u32>> {
        let holds_terminator = self
            .terminators
            .iter()
            .filter_map(|&id| self.tokenizer.id_to_token(id))
            .any(|terminator| answer.contains(&terminator));
        if holds_terminator {
            return Err(Fault::new("the answer holds a terminator in its text, so it would end early")
                .hint("remove special tokens such as <|im_end|> from answers")
                .into());
        }
        if let Some(end) = tokens.iter().position(|&id| self.is_terminator(id)) {
            return Ok(tokens[..=end].to_vec());
        }
        Ok(tokens.iter().copied().chain(self.terminators.first().copied()).collect())
    }
}

pub(super) fn common_prefix<'a>(left: &str, right: &'a str) -> &'a str {
    let shared = left.chars().zip(right.chars()).take_while(|(left, right)| left == right);
    &right[..shared.map(|(_, character)| character.len_utf8()).sum()]
}

fn at_row(error: crate::error::Error, row_id: &str) -> crate::error::Error {
    use crate::error::Error;
    match error {
        Error::Invalid(faults) => Error::Invalid(faults.into_iter().map(|fault| fault.at(row_id)).collect()),
        other => other,
    }
}
