//! A run folder is read into a [`Page`].
//!
//! In: `evaluation/`, `completions/`, `split/held-out.jsonl` (or `traces.jsonl`), `data/manifest.json`, `sft/log.jsonl`,
//! `dpo/log.jsonl`, `recipe.resolved.toml`, `stages.json`, or a folder that `topalign evaluate` wrote. Out: [`Page`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::example::{Answer, Example};
use super::page::{Curve, Page};
use super::table::order;
use crate::completion::Completion;
use crate::error::{Error, Fault, Result};
use crate::evaluate::Verdict;
use crate::run::jsonl;
use crate::trace::Trace;
use crate::train::{LOG, read_log};

/// Name of the page in a run folder.
pub const FILE: &str = "report.html";

/// Reads what there is; what there is not is named in [`Page::absent`].
///
/// # Errors
/// A folder that holds none of a run's pieces, or a piece that is there and cannot be read.
pub fn collect(run_dir: &Path) -> Result<Page> {
    if !run_dir.is_dir() {
        return Err(Fault::new("no such folder").at(run_dir.display()).into());
    }
    let evaluation =
        if run_dir.join("evaluation").is_dir() { run_dir.join("evaluation") } else { run_dir.to_path_buf() };
    let mut page = Page { title: title(run_dir), ..Page::default() };
    let mut found = 0;
    let mut note = |present: bool, what: &str| {
        found += usize::from(present);
        if !present {
            page.absent.push(what.to_owned());
        }
    };
    page.summary = json(&evaluation.join("summary.json"))?;
    note(page.summary.is_some(), "evaluation");
    page.examples = examples(run_dir, &evaluation)?;
    note(!page.examples.is_empty(), "answers with their traces and verdicts");
    page.data = counts(&run_dir.join("data"))?;
    note(!page.data.is_empty(), "built data");
    for stage in ["sft", "dpo"] {
        let log = run_dir.join(stage).join(LOG);
        note(log.is_file(), &format!("{stage} log"));
        if log.is_file() {
            page.curves.push(Curve { stage: stage.to_owned(), rows: read_log(&log)? });
        }
    }
    page.recipe = text(&run_dir.join("recipe.resolved.toml"))?;
    note(page.recipe.is_some(), "resolved recipe");
    page.stages = stages(&run_dir.join("stages.json"))?;
    note(!page.stages.is_empty(), "record of stages");
    if found == 0 {
        return Err(Fault::new("the folder holds nothing of a run")
            .at(run_dir.display())
            .hint("give the folder that `topalign run` or `topalign evaluate` wrote")
            .into());
    }
    Ok(page)
}

fn title(run_dir: &Path) -> String {
    let absolute = run_dir.canonicalize().unwrap_or_else(|_| run_dir.to_path_buf());
    absolute.file_name().map_or_else(|| "run".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// The file's text, `None` if there is no file.
fn text(path: &Path) -> Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::read(path, error)),
    }
}

/// The file's JSON, `None` if there is no file.
fn json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    let parse = |text: String| {
        serde_json::from_str(&text).map_err(|error| {
            let what = format!("not the JSON expected here: line {}, column {}", error.line(), error.column());
            Fault::new(what).at(path.display()).into()
        })
    };
    text(path)?.map(parse).transpose()
}

/// Rows of a file, none if there is no file.
fn rows<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>> {
    if path.is_file() { jsonl::read(path) } else { Ok(Vec::new()) }
}

/// Stages with their seconds, in the order of the record.
fn stages(path: &Path) -> Result<Vec<(String, f64)>> {
    let records: Option<serde_json::Map<String, Value>> = json(path)?;
    let seconds = |(name, record): (String, Value)| Some((name, record.get("seconds")?.as_f64()?));
    Ok(records.unwrap_or_default().into_iter().filter_map(seconds).collect())
}

/// The numbers of a build's manifest by their path, digests left out.
fn counts(folder: &Path) -> Result<Vec<(String, String)>> {
    let manifest: Option<Value> = json(&folder.join("manifest.json"))?;
    let mut counts = Vec::new();
    if let Some(manifest) = manifest {
        flatten("", manifest.get("counts").unwrap_or(&manifest), &mut counts);
    }
    Ok(counts)
}

fn flatten(path: &str, value: &Value, counts: &mut Vec<(String, String)>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let path = if path.is_empty() { name.clone() } else { format!("{path} / {name}") };
                flatten(&path, value, counts);
            }
        }
        Value::Number(number) => counts.push((path.to_owned(), number.to_string())),
        Value::Null | Value::Bool(_) | Value::String(_) | Value::Array(_) => {}
    }
}

fn examples(run_dir: &Path, evaluation: &Path) -> Result<Vec<Example>> {
    let verdicts: Vec<Verdict> = rows(&evaluation.join("verdicts.jsonl"))?;
    let mut traces: Vec<Trace> = rows(&run_dir.join("split/held-out.jsonl"))?;
    if traces.is_empty() {
        traces = rows(&run_dir.join("traces.jsonl"))?;
    }
    let mut completions: BTreeMap<(String, String, u64), Completion> = BTreeMap::new();
    for file in completion_files(&run_dir.join("completions"))? {
        for row in rows::<Completion>(&file)? {
            completions.insert((row.trace_id.clone(), row.system.clone(), row.seed), row);
        }
    }
    let mut answers: BTreeMap<String, Vec<Answer>> = BTreeMap::new();
    for verdict in verdicts {
        let key = (verdict.trace_id.clone(), verdict.system.clone(), verdict.seed);
        if let Some(Completion { response, rationale, .. }) = completions.remove(&key) {
            answers.entry(key.0).or_default().push(Answer { verdict, response, rationale });
        }
    }
    let example = |trace: Trace| {
        let mut answers = answers.remove(&trace.trace_id)?;
        answers.sort_by_key(|answer| (order(&answer.verdict.system), answer.verdict.seed));
        let difficulty = trace.difficulty.map_or_else(|| "no difficulty", crate::trace::Difficulty::code);
        let kind = format!("{}, {difficulty}", trace.domain.code());
        let Trace { trace_id, goal, sensitive_conclusion, .. } = trace;
        Some(Example { trace_id, kind, goal, sensitive_conclusion, answers })
    };
    Ok(traces.into_iter().filter_map(example).collect())
}

fn completion_files(folder: &Path) -> Result<Vec<PathBuf>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(|error| Error::read(folder, error))? {
        let path = entry.map_err(|error| Error::read(folder, error))?.path();
        if path.extension().is_some_and(|extension| extension == "jsonl") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
