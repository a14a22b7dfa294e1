//! Paths in recipes: variables expanded, relative ones read from the recipe's folder.

use std::path::{Path, PathBuf};

use super::section::Section;
use crate::error::Fault;

/// Resolves a file path.
pub fn resolve(text: &str, folder: &Path) -> Result<PathBuf, Fault> {
    let path = expand(text)?;
    Ok(if path.is_absolute() { path } else { tidy(&folder.join(path)) })
}

/// Resolves file paths; those that cannot be are faults of the section.
pub(super) fn resolve_all(texts: &[String], folder: &Path, section: &mut Section<'_>) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for text in texts {
        match resolve(text, folder) {
            Ok(path) => paths.push(path),
            Err(fault) => section.fault(fault),
        }
    }
    paths
}

/// Resolves a model: a path where one is written (it starts with `.` or `/`, uses a variable, ends in `.gguf`, or is there
/// relative to the recipe's folder), else a hub id.
pub fn resolve_model(text: &str, folder: &Path) -> Result<String, Fault> {
    let path = resolve(text, folder)?;
    let written_as_path = text.starts_with(['.', '/']) || text.contains("${") || has_gguf_ending(text);
    Ok(if written_as_path || path.exists() { path.to_string_lossy().into_owned() } else { text.to_owned() })
}

fn has_gguf_ending(text: &str) -> bool {
    Path::new(text).extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gguf"))
}

/// Expands a leading or inner `${NAME}` or `${NAME:-default}`. A relative value of a variable starts from the working
/// folder, as it would in a shell; a default starts from the recipe's folder, as other paths of the recipe do.
fn expand(text: &str) -> Result<PathBuf, Fault> {
    let unclosed =
        || Fault::new("a variable in a path is not closed").got(text).expected("`${NAME}` or `${NAME:-default}`");
    let mut expanded = String::new();
    let mut rest = text.to_owned();
    while let Some((before, opened)) = rest.split_once("${") {
        let (inside, after) = opened.split_once('}').ok_or_else(unclosed)?;
        let (name, default) = match inside.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inside, None),
        };
        expanded.push_str(before);
        rest = match (std::env::var(name), default) {
            // Not read again: a variable that names itself would never end.
            (Ok(value), _) if !value.is_empty() => {
                expanded = absolute(value, expanded);
                after.to_owned()
            }
            (_, Some(default)) => format!("{default}{after}"),
            _ => {
                return Err(Fault::new(format!("environment variable `{name}` is not set"))
                    .got(text)
                    .hint(format!("export {name}, or give a default: `${{{name}:-...}}`")));
            }
        };
    }
    Ok(PathBuf::from(expanded + &rest))
}

/// The value after what stands before it.
fn absolute(value: String, before: String) -> String {
    if before.is_empty()
        && Path::new(&value).is_relative()
        && let Ok(here) = std::env::current_dir()
    {
        return here.join(value).to_string_lossy().into_owned();
    }
    before + &value
}

/// `recipes/../data` reads better as `data` in messages and manifests; done only where the folder before `..` is a plain name.
fn tidy(path: &Path) -> PathBuf {
    use std::path::Component;
    let mut tidy = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir if matches!(tidy.components().next_back(), Some(Component::Normal(_))) => {
                tidy.pop();
            }
            Component::CurDir => {}
            other => tidy.push(other),
        }
    }
    tidy
}
