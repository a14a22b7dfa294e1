//! A tokenizer's own Jinja chat template, rendered as `transformers` renders it.
//!
//! In: template text, special tokens and messages. Out: the conversation's text.

use std::sync::LazyLock;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Serde, Value};
use minijinja::{Environment, ErrorKind};
use regex::Regex;

use super::python_json::{Layout, dumps};
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
}

const NAME: &str = "chat_template";

impl ChatTemplate {
    /// Compiles `source`; `place` names it in errors.
    pub(super) fn compile(source: &str, special_tokens: SpecialTokens, place: &str) -> Result<Self> {
        let mut environment = Environment::new();
        environment.set_syntax(syntax(place)?);
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_filter("tojson", to_json);
        environment.add_function("raise_exception", raise_exception);
        environment.add_function("strftime_now", strftime_now);
        environment.add_template_owned(NAME, without_generation_marks(source)).map_err(|error| {
            Fault::new(format!("the chat template does not parse: {error:#}"))
                .at(place)
                .expected("a Jinja template as transformers accepts it")
        })?;
        Ok(Self { environment, special_tokens, place: place.to_owned() })
    }

    /// The conversation's text.
    pub(super) fn render(&self, messages: &[Message], ending: Ending) -> Result<String> {
        // transformers passes `tools` and `documents` as none, so that templates may ask `tools is not none`.
        let context = minijinja::context! {
            messages => Value::from(Serde(messages)),
            add_generation_prompt => ending == Ending::GenerationPrompt,
            tools => Value::from(()),
            documents => Value::from(()),
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

/// transformers' white space: a block tag takes the blanks before it and the line break after it.
fn syntax(place: &str) -> Result<SyntaxConfig> {
    let built = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    built.map_err(|error| Fault::new(format!("no such template syntax: {error}")).at(place).into())
}

/// `{% generation %}` only marks spans for transformers' assistant mask; a block that is always taken renders the same.
fn without_generation_marks(source: &str) -> String {
    static OPEN: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\{%([-+]?)\s*generation\s*([-+]?)%\}").ok());
    static CLOSE: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"\{%([-+]?)\s*endgeneration\s*([-+]?)%\}").ok());
    let mut text = source.to_owned();
    for (pattern, replacement) in [(&*OPEN, "{%$1 if true $2%}"), (&*CLOSE, "{%$1 endif $2%}")] {
        if let Some(pattern) = pattern {
            text = pattern.replace_all(&text, replacement).into_owned();
        }
    }
    text
}

/// Python's `json.dumps(value, ensure_ascii=False, indent=indent)`.
#[expect(clippy::needless_pass_by_value, reason = "a filter's arguments come by value")]
fn to_json(value: &Value, indent: Option<Value>, options: Kwargs) -> Result<Value, minijinja::Error> {
    let indent = match indent {
        Some(indent) => Some(indent),
        None => options.get::<Option<Value>>("indent")?,
    };
    // `ensure_ascii=False` is transformers' default; escaping is not offered to templates that ask for it.
    let _ = options.get::<Option<bool>>("ensure_ascii")?;
    options.assert_all_used()?;
    let layout = match indent.filter(|indent| !indent.is_none() && !indent.is_undefined()) {
        None => Layout::Line,
        Some(indent) => Layout::Indented(usize::try_from(indent)?),
    };
    let text = dumps(value, layout)
        .map_err(|error| minijinja::Error::new(ErrorKind::InvalidOperation, "no JSON form").with_source(error))?;
    Ok(Value::from_safe_string(text))
}

fn raise_exception(message: &str) -> Result<Value, minijinja::Error> {
    Err(minijinja::Error::new(ErrorKind::InvalidOperation, message.to_owned()))
}

/// Today in the template's format. `SOURCE_DATE_EPOCH` fixes the day, for renderings that must not change over time.
fn strftime_now(format: &str) -> Result<String, minijinja::Error> {
    let fixed = std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|seconds| seconds.parse().ok());
    let now = match fixed.and_then(|seconds| jiff::Timestamp::from_second(seconds).ok()) {
        Some(timestamp) => timestamp.to_zoned_datetime(jiff::tz::TimeZone::UTC),
        None => jiff::ZonedDateTime::now(),
    };
    jiff::fmt::strtime::format(format, &now)
        .map_err(|error| minijinja::Error::new(ErrorKind::InvalidOperation, "bad date format").with_source(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(source: &str, messages: &[Message]) -> Result<String> {
        let special = SpecialTokens::from([("bos_token".to_owned(), "<s>".to_owned())]);
        ChatTemplate::compile(source, special, "template")?.render(messages, Ending::GenerationPrompt)
    }

    #[derive(serde::Deserialize)]
    struct Goldens {
        templates: Vec<Golden>,
    }

    #[derive(serde::Deserialize)]
    struct Golden {
        name: String,
        source: String,
        messages: Vec<Message>,
        add_generation_prompt: bool,
        text: Option<String>,
        error: Option<String>,
    }

    #[test]
    fn renderings_equal_those_of_transformers() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases/token/goldens.json");
        let goldens: Goldens = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        assert!(goldens.templates.len() > 30);
        let special = SpecialTokens::from([("bos_token".into(), "<s>".into()), ("eos_token".into(), "</s>".into())]);
        for golden in goldens.templates {
            let template = ChatTemplate::compile(&golden.source, special.clone(), "template").unwrap();
            let ending = if golden.add_generation_prompt { Ending::GenerationPrompt } else { Ending::Conversation };
            match (template.render(&golden.messages, ending), golden.text) {
                (Ok(text), Some(expected)) => assert_eq!(text, expected, "{}", golden.name),
                (Err(error), None) => assert!(error.to_string().contains(&golden.error.unwrap()), "{error}"),
                (rendered, expected) => panic!("{}: {rendered:?} but transformers {expected:?}", golden.name),
            }
        }
    }

    #[test]
    fn generation_marks_parse_and_keep_their_white_space_control() {
        let source = "{% for m in messages %}[ {%- generation -%} \n {{ m.content }} {% endgeneration %}]{% endfor %}";
        assert_eq!(render(source, &[Message::assistant("a")]).unwrap(), "[a ]");
    }

    #[test]
    fn loops_can_break_and_continue() {
        let source = "{% for m in messages %}{% if loop.first %}{% continue %}{% endif %}{{ m.content }}{% if loop.index == 2 %}{% break %}{% endif %}{% endfor %}";
        let messages = [Message::user("a"), Message::user("b"), Message::user("c")];
        assert_eq!(render(source, &messages).unwrap(), "b");
    }

    #[test]
    fn raised_exceptions_are_faults_with_the_template_words() {
        let fault = render("{{ raise_exception('no system turn') }}", &[]).unwrap_err();
        assert!(fault.to_string().contains("no system turn"), "{fault}");
        assert_eq!(fault.exit_status(), 2);
    }

    #[test]
    fn absent_special_tokens_and_tools_behave_as_in_transformers() {
        let source =
            "{{ eos_token }}|{{ tools is none }}|{{ add_generation_prompt }}|{{ strftime_now('%Y') | length }}";
        assert_eq!(render(source, &[]).unwrap(), "|True|True|4");
    }

    #[test]
    fn python_string_methods_work() {
        let source = "{{ messages[0].content.strip().split('</think>')[-1].lstrip('\\n') }}";
        assert_eq!(render(source, &[Message::user(" x</think>\n\ny ")]).unwrap(), "y");
    }

    #[test]
    fn templates_that_do_not_parse_are_faults() {
        assert_eq!(render("{% if %}", &[]).unwrap_err().exit_status(), 2);
    }
}
