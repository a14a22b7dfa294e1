//! A page from what a run left in its folder.
//!
//! In: a run folder of `topalign run`, or the output folder of `topalign evaluate`. Out: a [`Page`] with whatever is there; only
//! the evaluation's summary must be.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{CountTable, Example, Page, select_examples};
use crate::completion::Completion;
use crate::contract::Contract;
use crate::error::{Error, Fault, Result};
use crate::evaluate::{Summary, Verdict};
use crate::generate::read_calls;
use crate::run::{digest, jsonl};
use crate::trace::Trace;
use crate::train::RunManifest;

/// Traces that a page holds at most.
const MOST_EXAMPLES: usize = 1_000;

/// Digits of a digest that are shown.
const SHORT: usize = 16;

/// Reads a run folder.
///
/// # Errors
/// No `evaluation/summary.json` nor `summary.json`; a file that is there but unreadable or not of the expected form.
pub fn collect(folder: &Path) -> Result<Page> {
    let evaluation = [folder.join("evaluation"), folder.to_path_buf()]
        .into_iter()
        .find(|candidate| candidate.join("summary.json").is_file())
        .ok_or_else(|| {
            Fault::new("no evaluation to report")
                .at(folder.display())
                .expected("`evaluation/summary.json` of a run folder, or `summary.json`")
                .hint("`topalign run` and `topalign evaluate` write it")
        })?;
    let summary: Summary = read_json(&evaluation.join("summary.json"))?;
    let mut verdicts: Vec<Verdict> = read_rows(&evaluation.join("verdicts.jsonl"))?;
    verdicts.retain(Verdict::is_own);
    let completions = read_completions(folder)?;
    let order = order(&completions, &verdicts);
    let (examples, examples_left_out) = examples(folder, &completions, &verdicts, &order)?;
    let agreement = folder.join("agreement/summary.json");
    Ok(Page {
        title: title(folder),
        facts: facts(folder, &evaluation, &summary)?,
        sft_log: read_rows(&folder.join("sft/log.jsonl"))?,
        dpo_log: read_rows(&folder.join("dpo/log.jsonl"))?,
        data_counts: data_counts(folder)?,
        examples,
        examples_left_out,
        agreement: if agreement.is_file() { Some(read_json(&agreement)?) } else { None },
        recipe: std::fs::read_to_string(folder.join("recipe.resolved.toml")).ok(),
        summary,
        order,
    })
}

fn title(folder: &Path) -> String {
    let name = folder.canonicalize().unwrap_or_else(|_| folder.to_path_buf());
    name.file_name().map_or_else(|| "run".to_owned(), |name| name.to_string_lossy().into_owned())
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let bytes = std::fs::read(path).map_err(|source| Error::read(path, source))?;
    serde_json::from_slice(&bytes)
        .map_err(|error| Fault::new(format!("not of the expected form: {error}")).at(path.display()).into())
}

/// A file's rows; none if the file is absent: a run without DPO has no such log.
fn read_rows<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>> {
    if path.is_file() { jsonl::read(path) } else { Ok(Vec::new()) }
}

/// The files of completions, by name.
fn completion_files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder.join("completions"))
        .map(|entries| entries.filter_map(|entry| Some(entry.ok()?.path())).collect())
        .unwrap_or_default();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "jsonl"));
    files.sort();
    files
}

fn read_completions(folder: &Path) -> Result<BTreeMap<String, Vec<Completion>>> {
    let mut systems: BTreeMap<String, Vec<Completion>> = BTreeMap::new();
    for file in completion_files(folder) {
        for completion in jsonl::read::<Completion>(&file)? {
            systems.entry(completion.system.clone()).or_default().push(completion);
        }
    }
    Ok(systems)
}

/// Systems as the verdicts name them first: the order in which the pipeline evaluates them.
fn order(completions: &BTreeMap<String, Vec<Completion>>, verdicts: &[Verdict]) -> Vec<String> {
    let mut order: Vec<String> = Vec::new();
    for system in verdicts.iter().map(|verdict| &verdict.system).chain(completions.keys()) {
        if !order.contains(system) {
            order.push(system.clone());
        }
    }
    order
}

fn facts(folder: &Path, evaluation: &Path, summary: &Summary) -> Result<Vec<(String, String)>> {
    let mut facts = Vec::new();
    let mut add = |name: &str, value: String| facts.push((name.to_owned(), value));
    for (name, file) in [
        ("Recipe", "recipe.resolved.toml"),
        ("Traces", "traces.jsonl"),
        ("Contracts", "contracts.jsonl"),
        ("Held-out traces", "split/held-out.jsonl"),
        ("SFT rows", "data/sft.jsonl"),
        ("Preference pairs", "data/dpo.jsonl"),
    ] {
        let path = folder.join(file);
        if path.is_file() {
            add(name, format!("{file}, sha256 {}\u{2026}", short(&digest::of_file(&path)?)));
        }
    }
    add("Verdicts", format!("sha256 {}\u{2026}", short(&digest::of_file(&evaluation.join("summary.json"))?)));
    for stage in ["sft", "dpo"] {
        if let Some(manifest) = RunManifest::read(&folder.join(stage)) {
            add(&stage.to_uppercase(), training(&manifest));
        }
    }
    for (system, calls) in calls(folder)? {
        add(&format!("Calls of {system}"), calls);
    }
    add("Statistics", format!("{} resamples of near-duplicate groups, seed {}", summary.resamples, summary.seed));
    add("Judge", summary.judge.clone());
    if let Some(times) = stage_times(folder) {
        add("Wall time", times);
    }
    Ok(facts)
}

/// What the systems behind endpoints took, run by run.
fn calls(folder: &Path) -> Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    for file in completion_files(folder) {
        let runs: Vec<String> = read_calls(&file)?.iter().map(ToString::to_string).collect();
        if !runs.is_empty() {
            let system = file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
            found.push((system, runs.join("; resumed: ")));
        }
    }
    Ok(found)
}

fn short(digest: &str) -> &str {
    digest.get(..SHORT).unwrap_or(digest)
}

fn training(manifest: &RunManifest) -> String {
    let mut parts = vec![
        format!("topalign {}", manifest.version),
        format!("seed {}", manifest.seed.0),
        format!("{} {}", manifest.device, manifest.dtype),
        format!("{} steps", manifest.steps),
        format!("{} trained values", manifest.parameters.trained),
    ];
    parts.extend(manifest.commit.as_deref().map(|commit| format!("commit {}", short(commit))));
    if let Some(outcome) = &manifest.outcome {
        parts.push(format!("{:.0} s", outcome.seconds));
        parts.extend(outcome.peak_memory_bytes.map(|bytes| format!("peak {:.1} GiB", bytes as f64 / 2_f64.powi(30))));
    } else {
        parts.push("not finished".to_owned());
    }
    parts.extend(manifest.resumed_from.map(|step| format!("resumed from step {step}")));
    parts.join(", ")
}

fn stage_times(folder: &Path) -> Option<String> {
    let stages: BTreeMap<String, Value> = read_json(&folder.join("stages.json")).ok()?;
    let parts: Vec<(f64, String)> =
        stages.iter().filter_map(|(name, record)| Some((record.get("seconds")?.as_f64()?, name.clone()))).collect();
    let total: f64 = parts.iter().map(|(seconds, _)| seconds).sum();
    let named: Vec<String> = parts
        .iter()
        .filter(|(seconds, _)| *seconds >= 1.0)
        .map(|(seconds, name)| format!("{name} {seconds:.0} s"))
        .collect();
    (!parts.is_empty()).then(|| format!("{total:.0} s in all: {}", named.join(", ")))
}

/// The counts that the builder wrote.
fn data_counts(folder: &Path) -> Result<Vec<CountTable>> {
    let path = folder.join("data/manifest.json");
    if !path.is_file() {
        return Ok(Vec::new());
    }
    let manifest: Value = read_json(&path)?;
    let Some(counts) = manifest.get("counts").and_then(Value::as_object) else { return Ok(Vec::new()) };
    let number = |value: &Value| value.as_u64().map(|count| count as usize);
    let plain: Vec<(String, usize)> =
        counts.iter().filter_map(|(name, value)| Some((name.replace('_', " "), number(value)?))).collect();
    let mut tables = vec![CountTable { heading: "Traces".to_owned(), counts: plain }];
    for (heading, key) in [
        ("SFT rows by stage", "sft"),
        ("Preference pairs by kind", "pairs"),
        ("Traces in quarantine", "traces_out"),
        ("Pairs in quarantine", "pairs_out"),
        ("Failed checks in quarantine", "failed_checks"),
    ] {
        let of_key = counts.get(key).and_then(Value::as_object);
        let counts = of_key.into_iter().flatten().filter_map(|(name, value)| Some((name.clone(), number(value)?)));
        tables.push(CountTable { heading: heading.to_owned(), counts: counts.collect() });
    }
    tables.retain(|table| !table.counts.is_empty());
    Ok(tables)
}

fn examples(
    folder: &Path,
    completions: &BTreeMap<String, Vec<Completion>>,
    verdicts: &[Verdict],
    order: &[String],
) -> Result<(Vec<Example>, usize)> {
    let traces: Vec<Trace> = read_rows(&folder.join("split/held-out.jsonl"))?;
    let contracts: Vec<Contract> = read_rows(&folder.join("contracts.jsonl"))?;
    let in_order: Vec<Completion> =
        order.iter().filter_map(|system| completions.get(system)).flatten().cloned().collect();
    let mut found = select_examples(&traces, &contracts, &in_order, verdicts, usize::MAX);
    let left_out = found.len().saturating_sub(MOST_EXAMPLES);
    found.truncate(MOST_EXAMPLES);
    Ok((found, left_out))
}
