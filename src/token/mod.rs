//! A model's own tokenizer and chat template; rows become token ids with answers marked.
//!
//! In: a Hugging Face folder or a GGUF file, and chat messages. Out: prompts and answers as token ids, and [`pack`]ed
//! trees of them. Rendering equals that of `transformers`: the goldens in `tests/cases/token` were made with it.

mod conversation;
mod encode;
mod folder;
mod gguf;
mod pack;
mod python_json;
mod template;

use std::collections::BTreeSet;
use std::path::Path;

use tokenizers::Tokenizer;

use crate::dataset::Message;
use crate::error::{Error, Fault, Result};
pub use conversation::EncodedConversation;
pub use encode::EncodedAnswer;
pub use folder::TOKENIZER_FILES;
pub use pack::{Packed, PackedSequence, Segment, Tree, pack};
use template::{ChatTemplate, Ending, SpecialTokens};

/// A file that belongs to a tokenizer, for an export to write as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenizerFile {
    /// File name without folder, e.g. `tokenizer.json`.
    pub name: String,
    /// Its content.
    pub bytes: Vec<u8>,
}

/// A tokenizer with its chat template and its special tokens.
pub struct ChatTokenizer {
    tokenizer: Tokenizer,
    template: ChatTemplate,
    /// Ids that end a turn: the end of turn that the template writes first, then the declared ends of sequence.
    terminators: Vec<u32>,
    /// Set where the tokenizer itself begins every text with this token.
    begin: Option<u32>,
    files: Vec<TokenizerFile>,
    place: String,
}

/// What a source (folder or GGUF) says of its tokenizer, before it is put together.
struct Parts {
    tokenizer: Tokenizer,
    template: String,
    special_tokens: SpecialTokens,
    /// Declared ends of sequence: `eos_token` and the list of the generation config.
    ends: BTreeSet<u32>,
    /// Whether the source asks for a beginning-of-sequence token apart from what the tokenizer's own rules add.
    add_begin: bool,
    files: Vec<TokenizerFile>,
    place: String,
}

impl std::fmt::Debug for ChatTokenizer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = formatter.debug_struct("ChatTokenizer");
        shown.field("place", &self.place).field("terminators", &self.terminators).finish_non_exhaustive()
    }
}

impl ChatTokenizer {
    /// Loads the tokenizer of a model: a folder with `tokenizer.json` and its companions, or a `.gguf` file.
    ///
    /// # Errors
    /// A [`Fault`] that names the missing or unusable file.
    pub fn load(path: &Path) -> Result<Self> {
        let parts = if path.is_dir() { folder::read(path)? } else { gguf::read(path)? };
        Self::from_parts(parts)
    }

    fn from_parts(parts: Parts) -> Result<Self> {
        let Parts { mut tokenizer, template, special_tokens, ends, add_begin, files, place } = parts;
        // A truncation or padding left in the file would cut or fill rows behind our back.
        tokenizer.with_padding(None);
        tokenizer.with_truncation(None).map_err(|error| Error::Failed(error.to_string()))?;
        let declared_begin = special_tokens.get("bos_token").and_then(|token| tokenizer.token_to_id(token));
        let own_begin = tokenizer.encode("", true).ok().and_then(|encoding| encoding.get_ids().first().copied());
        let begin = declared_begin.filter(|&id| add_begin || own_begin == Some(id));
        let template = ChatTemplate::compile(&template, special_tokens, &place)?;
        let mut this = Self { tokenizer, template, terminators: Vec::new(), begin, files, place };
        let turn = this.end_of_turn();
        this.terminators = turn.into_iter().chain(ends.into_iter().filter(|&id| Some(id) != turn)).collect();
        if this.terminators.is_empty() {
            return Err(Fault::new("the tokenizer declares no end-of-sequence token and its template writes none")
                .at(&this.place)
                .hint("set `eos_token` in tokenizer_config.json")
                .into());
        }
        Ok(this)
    }

    /// Ids that end a turn, the template's own end of turn first; decoding stops at any of them, and an export declares
    /// all of them.
    pub fn terminators(&self) -> &[u32] {
        &self.terminators
    }

    /// Whether this id ends a turn.
    pub fn is_terminator(&self, id: u32) -> bool {
        self.terminators.contains(&id)
    }

    /// Number of ids, added tokens included.
    pub fn vocabulary_size(&self) -> usize {
        self.tokenizer.get_vocab_size(true)
    }

    /// The files that a model folder needs so that others load the same tokenizer and template. From a folder they are
    /// byte for byte what was read (with `chat_template.jinja` beside them); from a GGUF file they are rebuilt.
    pub fn files(&self) -> &[TokenizerFile] {
        &self.files
    }

    /// The text of these ids, without special tokens.
    ///
    /// # Errors
    /// [`Error::Failed`] if the tokenizer cannot decode them.
    pub fn decode(&self, ids: &[u32]) -> Result<String> {
        self.decode_with(ids, true)
    }

    /// The text of these ids with special tokens written out: for audits and tests of what a model really reads.
    ///
    /// # Errors
    /// As [`ChatTokenizer::decode`].
    pub fn decode_verbatim(&self, ids: &[u32]) -> Result<String> {
        self.decode_with(ids, false)
    }

    fn decode_with(&self, ids: &[u32], skip_special_tokens: bool) -> Result<String> {
        self.tokenizer
            .decode(ids, skip_special_tokens)
            .map_err(|error| Error::Failed(format!("{}: cannot decode tokens: {error}", self.place)))
    }

    /// The text of a conversation as the template renders it, without the header of a next turn.
    ///
    /// # Errors
    /// A [`Fault`] if the template refuses the messages.
    pub fn render_conversation(&self, messages: &[Message]) -> Result<String> {
        self.template.render(messages, Ending::Conversation)
    }

    /// The system prompt that the template injects when a conversation has none, so that an audit can show it.
    pub fn injected_system_prompt(&self) -> Option<String> {
        const SYSTEM: &str = "topalign-system-marker";
        let user = Message::user("topalign-user-marker");
        let with = self.render_conversation(&[Message::system(SYSTEM), user.clone()]).ok()?;
        let without = self.render_conversation(&[user]).ok()?;
        let (before, after) = with.split_once(SYSTEM)?;
        let injected = without.strip_prefix(before)?.strip_suffix(after)?;
        (!injected.trim().is_empty()).then(|| injected.to_owned())
    }

    /// Ids of a rendered text; a beginning-of-sequence token is added only where the tokenizer asks for one and the
    /// template did not write it.
    fn encode_text(&self, text: &str) -> Result<Vec<u32>> {
        let encoding = self.tokenizer.encode(text, false).map_err(|error| {
            // The library's words may quote the text.
            tracing::debug!("tokenizer: {error}");
            Error::Failed(format!("{}: cannot tokenise a rendered conversation", self.place))
        })?;
        let ids = encoding.get_ids();
        match self.begin {
            Some(begin) if ids.first() != Some(&begin) => {
                Ok(std::iter::once(begin).chain(ids.iter().copied()).collect())
            }
            _ => Ok(ids.to_vec()),
        }
    }

    /// The first special token that the template writes after an assistant's words.
    fn end_of_turn(&self) -> Option<u32> {
        const ANSWER: &str = "topalign-answer-marker";
        let messages = [Message::user("topalign-user-marker"), Message::assistant(ANSWER)];
        let text = self.render_conversation(&messages).ok()?;
        let (_, after) = text.rsplit_once(ANSWER)?;
        let special = self.tokenizer.get_added_tokens_decoder();
        let encoding = self.tokenizer.encode(after, false).ok()?;
        encoding.get_ids().iter().copied().find(|id| special.get(id).is_some_and(|token| token.special))
    }
}
