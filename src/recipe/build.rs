//! The section `[build]` of a recipe: what the builder makes of the traces, and who writes.

use std::path::Path;

use toml::Table;

use super::endpoint::read_endpoint;
use super::path;
use super::section::Section;
use super::settings::{Answers, BuildSettings, Share, Tables, WriterModel, WriterSettings, defaults};
use crate::dataset::{Check, Severities};
use crate::error::Fault;

/// Reads `[build]`.
pub(super) fn read(table: Table, folder: &Path, has_dpo: bool, faults: &mut Vec<Fault>) -> BuildSettings {
    let mut section = Section::new("build", table, faults);
    let answers: Answers = section.take_or("answers", Answers::default());
    let leaking: Option<Share> = section.take("leaking");
    let parquet: bool = section.take_or("parquet", false);
    let exclude: Vec<String> = section.take_or("exclude", Vec::new());
    let exclude = path::resolve_all(&exclude, folder, &mut section);
    let (writer, severity) = (section.table("writer"), section.table("severity"));
    let is_guarded = answers == Answers::Guarded;
    if leaking.is_some() && is_guarded {
        section.fault(Fault::new("`build.leaking` needs `build.answers = \"unguarded\"`"));
    }
    for (key, is_there) in [
        ("writer", writer.is_some()),
        ("severity", severity.is_some()),
        ("parquet", parquet),
        ("exclude", !exclude.is_empty()),
    ] {
        if is_there && !is_guarded {
            section.fault(Fault::new(format!("`build.{key}` needs `build.answers = \"guarded\"`")));
        }
    }
    if has_dpo && !is_guarded {
        let fault = Fault::new("`build.answers = \"unguarded\"` makes no preference pairs, but the recipe has `[dpo]`");
        section.fault(fault.hint("train the base model in a recipe of its own"));
    }
    section.finish();
    BuildSettings {
        answers,
        leaking: (!is_guarded).then(|| leaking.unwrap_or(Share::LEAKING)),
        tables: if parquet { Tables::JsonAndParquet } else { Tables::Json },
        writer: writer.and_then(|table| read_writer(table, folder, faults)),
        severity: severity.map_or_else(Severities::default, |table| read_severity(table, faults)),
        exclude,
    }
}

/// Reads `[build.severity]`: checks by name.
fn read_severity(table: Table, faults: &mut Vec<Fault>) -> Severities {
    let mut section = Section::new("build.severity", table, faults);
    let read = Check::ALL.into_iter().filter_map(|check| Some((check, section.take(check.name())?))).collect();
    section.finish();
    read
}

/// Reads `[build.writer]`.
fn read_writer(table: Table, folder: &Path, faults: &mut Vec<Fault>) -> Option<WriterSettings> {
    let mut section = Section::new("build.writer", table, faults);
    let kind: Option<String> = section.require("kind", "local or endpoint");
    let best_of = section.take_or("best_of", defaults::WRITER_BEST_OF);
    let tries = section.take_or("tries", defaults::WRITER_TRIES);
    let temperature = section.take_or("temperature", defaults::WRITER_TEMPERATURE);
    let token_limit = section.take_or("token_limit", defaults::WRITER_TOKENS);
    let model = match kind.as_deref() {
        Some("endpoint") => read_endpoint("build.writer", section, folder).map(Box::new).map(WriterModel::Endpoint),
        Some("local") => {
            let source: Option<String> = section.require("model", "a folder, a .gguf file or a hub id");
            let model = source.and_then(|source| match path::resolve_model(&source, folder) {
                Ok(model) => Some(model),
                Err(fault) => {
                    section.fault(fault);
                    None
                }
            });
            section.finish();
            model.map(|model| WriterModel::Local { model })
        }
        Some(other) => {
            section.fault(Fault::new("`build.writer.kind` is unknown").got(other).expected("local or endpoint"));
            None
        }
        None => None,
    };
    Some(WriterSettings { model: model?, best_of, tries, temperature, token_limit })
}
