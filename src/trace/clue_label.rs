//! `clue_id` inside a tool's return is a label of the benchmark: taken out before anything is shown to a model.
//!
//! In: a return's text. Out: the text without it, all else as written, and the labels with their places.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::value::RawValue;

use super::format::plain;
use super::leaves::Members;

/// Objects within objects beyond this are not searched but dropped: a label must not hide there.
const DEEPEST: usize = 64;

/// Removes every member whose key is `clue_id` or `clue_ids` in any spelling.
pub(super) fn remove(text: &str) -> (String, Vec<(String, String)>) {
    let mut labels = Vec::new();
    let shown = match serde_json::from_str::<&RawValue>(text) {
        Ok(value) => without(value.get(), "", 0, &mut labels).unwrap_or_else(|| text.to_owned()),
        Err(_) => from_prose(text, &mut labels),
    };
    (shown, labels)
}

/// The value without labels; `None` if it has none, so that its text stays as written.
fn without(raw: &str, pointer: &str, depth: usize, labels: &mut Vec<(String, String)>) -> Option<String> {
    if depth > DEEPEST {
        return Some("null".to_owned());
    }
    let before = labels.len();
    match raw.as_bytes().first() {
        Some(b'{') => {
            let members = serde_json::from_str::<Members<'_>>(raw).ok()?.0;
            let mut kept = Vec::new();
            let mut is_changed = false;
            for (name, value) in members {
                let place = format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"));
                if matches!(plain(&name).as_str(), "clueid" | "clueids") {
                    labels.push((place, value.get().trim_matches('"').to_owned()));
                    continue;
                }
                let inner = without(value.get(), &place, depth + 1, labels);
                is_changed |= inner.is_some();
                let name = serde_json::Value::String(name);
                kept.push(format!("{name}: {}", inner.as_deref().unwrap_or(value.get())));
            }
            (is_changed || labels.len() > before).then(|| format!("{{{}}}", kept.join(", ")))
        }
        Some(b'[') => {
            let items = serde_json::from_str::<Vec<&RawValue>>(raw).ok()?;
            let inner: Vec<Option<String>> = items
                .iter()
                .enumerate()
                .map(|(index, item)| without(item.get(), &format!("{pointer}/{index}"), depth + 1, labels))
                .collect();
            inner.iter().any(Option::is_some).then(|| {
                let kept = items.iter().zip(&inner).map(|(item, inner)| inner.as_deref().unwrap_or(item.get()));
                format!("[{}]", kept.collect::<Vec<_>>().join(", "))
            })
        }
        _ => None,
    }
}

fn from_prose(text: &str, labels: &mut Vec<(String, String)>) -> String {
    static LABEL: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r#"(?i)["']?clue[\s_-]?ids?["']?\s*[:=]\s*["']?([\w.-]+)["']?\s*[,;]?\s*"#).ok());
    let Some(pattern) = LazyLock::force(&LABEL) else { return text.to_owned() };
    labels.extend(pattern.captures_iter(text).map(|found| (String::new(), found[1].to_owned())));
    pattern.replace_all(text, "").into_owned()
}
