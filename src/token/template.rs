//! A tokenizer's own Jinja chat template, rendered as `transformers` renders it.
//!
//! In: template text, special tokens and messages. Out: the conversation's text, and where the assistant speaks in it.

mod functions;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::LazyLock;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value};
use minijinja::{Environment, ErrorKind};
use regex::Regex;

use crate::dataset::Message;
use crate::error::{Fault, Result};

/// Whether a rendering ends with the header of the assistant's next turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// The conversation as it is.
    Conversation,
    /// The conversation and the header that the model continues from.
    GenerationPrompt,
}

/// Special tokens that templates may name: `bos_token`, `eos_token`, ... Only those that the tokenizer has.
pub(super) type SpecialTokens = std::collections::BTreeMap<String, String>;

/// A compiled template.
#[derive(Debug)]
pub(super) struct ChatTemplate {
    environment: Environment<'static>,
    special_tokens: SpecialTokens,
    place: String,
    marks: Marks,
}

/// Whether a template says where the assistant speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Marks {
    /// It has `{% generation %}` blocks.
    Given,
    Absent,
}

/// What a template is given besides the special tokens.
#[derive(Debug, Clone)]
struct Given {
    messages: Value,
    /// Schemas of tools, or none.
    tools: Value,
    /// Further variables by name, e.g. `enable_thinking`.
    variables: Value,
}

/// A conversation's text and the byte ranges of it that the assistant says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Marked {
    pub(super) text: String,
    pub(super) spans: Vec<Range<usize>>,
}

const NAME: &str = "chat_template";

impl ChatTemplate {
    /// Compiles `source`; `place` names it in errors.
    pub(super) fn compile(source: &str, special_tokens: SpecialTokens, place: &str) -> Result<Self> {
        let mut environment = Environment::new();
        environment.set_syntax(syntax(place)?);
        functions::add_to(&mut environment);
        let (source, marks) = with_marks_printed(source);
        environment.add_template_owned(NAME, source).map_err(|error| {
            Fault::new(format!("the chat template does not parse: {error:#}"))
                .at(place)
                .expected("a Jinja template as transformers accepts it")
        })?;
        Ok(Self { environment, special_tokens, place: place.to_owned(), marks })
    }

    /// The conversation's text.
    pub(super) fn render(&self, messages: &[Message], ending: Ending) -> Result<String> {
        self.render_given(&Given::messages(messages), ending, false)
    }

    /// The conversation's text with the spans that the template marks as the assistant's; `None` where it marks none.
    pub(super) fn render_marked(&self, messages: &[Message]) -> Result<Option<Marked>> {
        self.render_marked_given(&Given::messages(messages), Ending::Conversation)
    }

    fn render_marked_given(&self, given: &Given, ending: Ending) -> Result<Option<Marked>> {
        if self.marks == Marks::Absent {
            return Ok(None);
        }
        let marked = functions::spans(&self.render_given(given, ending, true)?);
        let plain = self.render_given(given, ending, false)?;
        // A message that holds the marks' own characters, or a template that computes with its marked text.
        let marked = marked.filter(|marked| marked.text == plain).ok_or_else(|| {
            Fault::new("the chat template's generation marks cannot be told from its text").at(&self.place)
        })?;
        Ok(Some(marked))
    }

    fn render_given(&self, given: &Given, ending: Ending, shows_marks: bool) -> Result<String> {
        // transformers passes `tools` and `documents` as none, so that templates may ask `tools is not none`.
        let own = minijinja::context! {
            messages => given.messages.clone(),
            add_generation_prompt => ending == Ending::GenerationPrompt,
            tools => given.tools.clone(),
            documents => Value::from(()),
        };
        let context = minijinja::context! {
            ..minijinja::context! { topalign_shows_marks => shows_marks },
            ..given.variables.clone(),
            ..own,
            ..Value::from(Serde(&self.special_tokens)),
        };
        let rendered = self.environment.get_template(NAME).and_then(|template| template.render(context));
        // The template's own words may quote a message, so only those of `raise_exception` are shown.
        rendered.map_err(|error| {
            let reason = match error.kind() {
                ErrorKind::InvalidOperation => error.detail().unwrap_or("invalid operation").to_owned(),
                kind => kind.to_string(),
            };
            let line = error.line().map_or(String::new(), |line| format!(":{line}"));
            Fault::new(format!("the chat template refuses these messages: {reason}"))
                .at(format!("{}{line}", self.place))
                .hint("some templates accept no system turn or require alternating user and assistant turns")
                .into()
        })
    }
}

impl Given {
    fn messages(messages: &[Message]) -> Self {
        Self { messages: Value::from(Serde(messages)), tools: Value::from(()), variables: minijinja::context! {} }
    }
}

/// transformers' white space: a block tag takes the blanks before it and the line break after it.
fn syntax(place: &str) -> Result<SyntaxConfig> {
    let built = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    built.map_err(|error| Fault::new(format!("no such template syntax: {error}")).at(place).into())
}

/// `{% generation %}` blocks with a mark printed at either end. As in transformers, where the block is a call, what it sets is
/// its own; the outer and the inner tag each take the white space of their side.
fn with_marks_printed(source: &str) -> (String, Marks) {
    static OPEN: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\{%([-+]?)\s*generation\s*([-+]?)%\}").ok());
    static CLOSE: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"\{%([-+]?)\s*endgeneration\s*([-+]?)%\}").ok());
    let (Some(open), Some(close)) = (&*OPEN, &*CLOSE) else { return (source.to_owned(), Marks::Absent) };
    if !open.is_match(source) {
        return (source.to_owned(), Marks::Absent);
    }
    let start = format!("{{%$1 with %}}{{{{ {}() }}}}{{% if true $2%}}", functions::START);
    let end = format!("{{%$1 endif %}}{{{{ {}() }}}}{{% endwith $2%}}", functions::END);
    (close.replace_all(&open.replace_all(source, start), end).into_owned(), Marks::Given)
}
