//! What transformers adds to Jinja: `tojson`, `raise_exception`, `strftime_now`, generation blocks, Python's methods.

use minijinja::value::{Kwargs, Value};
use minijinja::{Environment, Error, ErrorKind, State};

use super::Marked;
use crate::token::python_json::{Characters, Keys, Layout, Options, dumps};

/// The functions that print the marks of a generation block.
pub(super) const START: &str = "topalign_start_of_generation";
pub(super) const END: &str = "topalign_end_of_generation";
/// Set where marks are to be shown.
const SHOWS_MARKS: &str = "topalign_shows_marks";
/// Around marked text, for [`spans`] to find: two of Unicode's noncharacters, which no text interchange has.
const OPEN: char = '\u{fdd0}';
const CLOSE: char = '\u{fdd1}';

pub(super) fn add_to(environment: &mut Environment<'static>) {
    environment.set_unknown_method_callback(method);
    environment.add_filter("tojson", to_json);
    // Python's none is not iterable; minijinja's is, as an empty sequence.
    environment.add_test("iterable", |value: &Value| !value.is_none() && value.try_iter().is_ok());
    environment.add_function("raise_exception", raise_exception);
    environment.add_function("strftime_now", strftime_now);
    environment.add_function(START, |state: &mut State<'_, '_>| mark(state, OPEN));
    environment.add_function(END, |state: &mut State<'_, '_>| mark(state, CLOSE));
}

/// A method of Python's: those of texts that minijinja's own list lacks, then that list.
fn method(state: &mut State<'_, '_>, value: &Value, name: &str, arguments: &[Value]) -> Result<Value, Error> {
    let texts: Vec<&str> = arguments.iter().filter_map(Value::as_str).collect();
    if let (Some(text), [argument]) = (value.as_str(), texts.as_slice()) {
        let parts = |found: Option<(&str, &str)>, otherwise: [&str; 3]| {
            let [before, between, after] = found.map_or(otherwise, |(before, after)| [before, *argument, after]);
            Value::from_iter([before, between, after])
        };
        match name {
            "partition" => return Ok(parts(text.split_once(argument), [text, "", ""])),
            "rpartition" => return Ok(parts(text.rsplit_once(argument), ["", "", text])),
            "removeprefix" => return Ok(text.strip_prefix(argument).unwrap_or(text).into()),
            "removesuffix" => return Ok(text.strip_suffix(argument).unwrap_or(text).into()),
            _ => {}
        }
    }
    minijinja_contrib::pycompat::unknown_method_callback(state, value, name, arguments)
}

/// A mark, where marks are asked for.
fn mark(state: &mut State<'_, '_>, mark: char) -> String {
    if state.lookup(SHOWS_MARKS).is_some_and(|shows| shows.is_true()) { mark.to_string() } else { String::new() }
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
