//! The strict reading of an answer that was asked for as one JSON object.

use serde::de::DeserializeOwned;

/// Reads an answer that is one JSON value, plain or in one Markdown fence, with nothing before or after; `None` for anything
/// else. Nothing is searched for in prose: a judge that rambles has not answered.
pub fn read_answer<T: DeserializeOwned>(text: &str) -> Option<T> {
    serde_json::from_str(unfenced(text.trim())?).ok()
}

/// What stands in the fence, or the text itself if there is none.
fn unfenced(text: &str) -> Option<&str> {
    let Some(rest) = text.strip_prefix("```") else { return Some(text) };
    let (language, rest) = rest.split_once('\n')?;
    let is_json = language.trim().is_empty() || language.trim().eq_ignore_ascii_case("json");
    let inside = rest.strip_suffix("```")?;
    (is_json && !inside.contains("```")).then_some(inside)
}
