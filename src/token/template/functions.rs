//! What transformers adds to Jinja: `tojson`, `raise_exception`, `strftime_now`, generation blocks, Python's methods.

use minijinja::value::{Kwargs, Value};
use minijinja::{Environment, Error, ErrorKind, State};

use super::Marked;
use crate::token::python_json::{Characters, Keys, Layout, Options, dumps};

/// The function that a generation block calls.
pub(super) const GENERATION: &str = "topalign_generation";
/// Set where marks are to be shown.
const SHOWS_MARKS: &str = "topalign_shows_marks";
/// Around marked text, for [`spans`] to find: two of Unicode's noncharacters, which no text interchange has.
const OPEN: char = '\u{fdd0}';
const CLOSE: char = '\u{fdd1}';

pub(super) fn add_to(environment: &mut Environment<'static>) {
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.add_filter("tojson", to_json);
    environment.add_function("raise_exception", raise_exception);
    environment.add_function("strftime_now", strftime_now);
    environment.add_function(GENERATION, generation);
}

/// The block's text, between marks where they are asked for.
#[expect(clippy::needless_pass_by_value, reason = "a function's arguments come by value")]
fn generation(state: &mut State<'_, '_>, options: Kwargs) -> Result<Value, Error> {
    let text = options.get::<Value>("caller")?.call(state, &[])?.to_string();
    let shows = state.lookup(SHOWS_MARKS).is_some_and(|shows| shows.is_true());
    Ok(Value::from_safe_string(if shows { format!("{OPEN}{text}{CLOSE}") } else { text }))
}

/// The text without its marks, and the byte ranges that stood between them; `None` if they do not pair up.
pub(super) fn spans(marked: &str) -> Option<Marked> {
    let (mut text, mut spans, mut start) = (String::with_capacity(marked.len()), Vec::new(), None);
    for character in marked.chars() {
        match (character, start) {
            (OPEN, None) => start = Some(text.len()),
            (CLOSE, Some(from)) => {
                spans.push(from..text.len());
                start = None;
            }
            (OPEN | CLOSE, _) => return None,
            _ => text.push(character),
        }
    }
    start.is_none().then_some(Marked { text, spans })
}

/// Python's `json.dumps`, with `ensure_ascii` off unless asked for.
#[expect(clippy::needless_pass_by_value, reason = "a filter's arguments come by value")]
fn to_json(value: &Value, indent: Option<Value>, options: Kwargs) -> Result<Value, Error> {
    let indent = match indent {
        Some(indent) => Some(indent),
        None => options.get::<Option<Value>>("indent")?,
    };
    let asked = |key: &str| Ok::<_, Error>(options.get::<Option<bool>>(key)?.unwrap_or(false));
    let separators = options.get::<Option<Vec<String>>>("separators")?;
    let layout = match indent.filter(|indent| !indent.is_none() && !indent.is_undefined()) {
        None => Layout::Line,
        Some(indent) => Layout::Indented(usize::try_from(indent)?),
    };
    let mut settings = Options::new(layout);
    if asked("sort_keys")? {
        settings.keys = Keys::Sorted;
    }
    if asked("ensure_ascii")? {
        settings.characters = Characters::Ascii;
    }
    if let Some([item, key]) = separators.as_deref() {
        (settings.item_separator, settings.key_separator) = (item.clone(), key.clone());
    }
    options.assert_all_used()?;
    let text = dumps(value, &settings)
        .map_err(|error| Error::new(ErrorKind::InvalidOperation, "no JSON form").with_source(error))?;
    Ok(Value::from_safe_string(text))
}

fn raise_exception(message: &str) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, message.to_owned()))
}

/// Today in the template's format. `SOURCE_DATE_EPOCH` fixes the day, for renderings that must not change over time.
fn strftime_now(format: &str) -> Result<String, Error> {
    let fixed = std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|seconds| seconds.parse().ok());
    let now = match fixed.and_then(|seconds| jiff::Timestamp::from_second(seconds).ok()) {
        Some(timestamp) => timestamp.to_zoned_datetime(jiff::tz::TimeZone::UTC),
        None => jiff::ZonedDateTime::now(),
    };
    jiff::fmt::strtime::format(format, &now)
        .map_err(|error| Error::new(ErrorKind::InvalidOperation, "bad date format").with_source(error))
}
