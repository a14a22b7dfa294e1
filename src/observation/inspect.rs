//! Inspect logs: an `.eval` archive with one JSON file a sample, or one JSON object with `samples`.
//!
//! In: an archive or a row. Out: a [`SessionLog`] a sample (an archive is read sample by sample). A sample that failed gives an
//! observation of status `error`. No contract: an evaluation log does not say what is private.

use std::collections::BTreeMap;
use std::io::{Read as _, Seek};

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::message::{Message, Session};
use super::openai::error_text;
use super::{Context, SessionLog, Status};
use crate::error::{Fault, Result};
use crate::run::json::describe;
use crate::trace::Row;

/// A single file of an archive is not read beyond this.
const LARGEST_ENTRY_BYTES: u64 = 1 << 30;

#[derive(Deserialize)]
struct Log {
    #[serde(default)]
    eval: Header,
    #[serde(default)]
    samples: Option<Vec<Box<RawValue>>>,
}

#[derive(Deserialize, Default)]
struct Header {
    #[serde(default)]
    task: Option<String>,
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    eval_id: Option<String>,
    #[serde(default)]
    run_id: Option<String>,
}

#[derive(Deserialize)]
struct Sample {
    id: Value,
    #[serde(default)]
    epoch: Option<u64>,
    #[serde(default)]
    messages: Vec<Message>,
    #[serde(default)]
    error: Value,
    #[serde(default)]
    attachments: BTreeMap<String, String>,
}

/// Reads a JSON log: all of its samples.
///
/// # Errors
/// A [`Fault`] that says what the log lacks.
pub fn parse(row: &Row<'_>, context: &Context<'_>) -> Result<SessionLog, Fault> {
    let log: Log = row.parse()?;
    let mut whole = SessionLog::default();
    for (index, sample) in log.samples.unwrap_or_default().iter().enumerate() {
        let one = of_sample(sample.get(), &log.eval, context).map_err(|fault| fault.at(format!("samples[{index}]")))?;
        whole.observations.extend(one.observations);
    }
    Ok(whole)
}

/// Reads an archive, a sample at a time.
///
/// # Errors
/// A [`Fault`] for what is no archive, is cut, or uses a compression that is not read; or what `visit` returns.
pub fn each(
    file: impl std::io::Read + Seek,
    context: &Context<'_>,
    place: &str,
    visit: &mut dyn FnMut(SessionLog) -> Result<()>,
) -> Result<()> {
    let broken = |error: zip::result::ZipError| {
        Fault::new(format!("not a whole zip archive: {error}"))
            .at(place)
            .hint("an `.eval` file without its end was not written to its end")
    };
    let mut archive = zip::ZipArchive::new(file).map_err(broken)?;
    let names = archive.file_names().map(|name| name.map(std::borrow::Cow::into_owned));
    let mut names = names.collect::<Result<Vec<String>, _>>().map_err(broken)?;
    names.sort();
    let mut header = Header::default();
    // The header is written last: a run that was interrupted has only the journal's start.
    for name in ["header.json", "_journal/start.json"] {
        if names.iter().any(|other| other == name) {
            let text = entry(&mut archive, name, place)?;
            header = serde_json::from_str::<Log>(&text)
                .map_err(|error| {
                    Fault::new(format!("not a log header: {}", describe(&error))).at(format!("{place}!{name}"))
                })?
                .eval;
            break;
        }
    }
    let samples: Vec<&String> = names
        .iter()
        .filter(|name| {
            name.starts_with("samples/") && std::path::Path::new(name).extension().is_some_and(|e| e == "json")
        })
        .collect();
    if samples.is_empty() {
        return Err(Fault::new("no `samples/*.json` in the archive").at(place).into());
    }
    for name in samples {
        let text = entry(&mut archive, name, place)?;
        visit(of_sample(&text, &header, context).map_err(|fault| fault.at(format!("{place}!{name}")))?)?;
    }
    Ok(())
}

fn entry(archive: &mut zip::ZipArchive<impl std::io::Read + Seek>, name: &str, place: &str) -> Result<String, Fault> {
    let failed = |error: &dyn std::fmt::Display| {
        Fault::new(format!("cannot read the entry: {error}"))
            .at(format!("{place}!{name}"))
            .expected("an entry that is stored or compressed with deflate or zstd")
    };
    let file = archive.by_name(name).map_err(|error| failed(&error))?;
    let mut text = String::new();
    file.take(LARGEST_ENTRY_BYTES).read_to_string(&mut text).map_err(|error| failed(&error))?;
    Ok(text)
}

fn of_sample(text: &str, header: &Header, context: &Context<'_>) -> Result<SessionLog, Fault> {
    let sample: Sample = serde_json::from_str(text)
        .map_err(|error| Fault::new(format!("the sample does not have the expected form: {}", describe(&error))))?;
    let id = sample.id.as_str().map_or_else(|| sample.id.to_string(), str::to_owned);
    let epoch = sample.epoch.unwrap_or(1);
    let mut extra = serde_json::Map::new();
    for (key, value) in [("model", header.model.as_deref().or(context.model)), ("task", header.task.as_deref())] {
        if let Some(value) = value {
            extra.insert(key.to_owned(), value.into());
        }
    }
    let session = Session {
        id: format!("{}/{id}/{epoch}", header.eval_id.as_deref().or(header.run_id.as_deref()).unwrap_or(context.file)),
        contract_id: context.contract_id,
        pair_key: Some(serde_json::json!({"item": id, "seed": epoch})),
        condition: None,
        extra,
        attachments: sample.attachments,
    };
    let mut observations = session.observe(&sample.messages);
    if let Some(error) = error_text(&sample.error) {
        observations.push(session.gap(&observations, Status::Error, &error));
    } else if !observations.iter().any(|observation| observation.channel == "response") {
        observations.push(session.gap(&observations, Status::Missing, ""));
    }
    Ok(SessionLog { observations, ..SessionLog::default() })
}
