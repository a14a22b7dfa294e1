//! What a file holds, told by its content and never by its name.
//!
//! In: a file, or the keys of its first row. Out: a [`Format`].

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::rows::{Row, Rows};
use crate::error::{Error, Fault, Result};

/// What a file holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Format {
    /// Told by the content.
    #[default]
    Auto,
    /// TOP-Bench v1: keys with spaces, `Available Tools List`.
    #[value(name = "topbench-v1")]
    TopBenchV1,
    /// TOP-Bench v2: a JSON array with `metadata`, `user_goal`, `available_tools`.
    #[value(name = "topbench-v2")]
    TopBenchV2,
    /// TOP-Bench v3: rows with `scenario_input_id`; also this project's own scenarios.
    #[value(name = "topbench-v3")]
    TopBenchV3,
    /// `traces.jsonl` as this program writes it.
    Canonical,
    /// Run results of TOP-Bench's reference runner: one row an id, with the selected tools and the final response.
    #[value(name = "topbench-run")]
    TopBenchRun,
    /// `AgentLeak`: one object a file with `llm_calls` and `channel_messages`; two sessions each.
    #[value(name = "agentleak")]
    AgentLeak,
    /// Chat-completions logs: rows with `messages`, with or without `response.choices`.
    #[value(name = "openai-chat")]
    OpenAiChat,
    /// Inspect logs: an `.eval` archive or one JSON object with `eval` and `samples`.
    Inspect,
    /// `AgentDojo` runs: one object a file with `suite_name`, `user_task_id`, `messages`.
    #[value(name = "agentdojo")]
    AgentDojo,
}

/// What a format becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// `traces.jsonl`.
    Traces,
    /// `observations.jsonl` and, where the source says what is private, `contracts.jsonl`.
    Sessions,
    /// `responses.jsonl`.
    Responses,
}

/// The formats in words, for errors.
const SUPPORTED: &str = "`Available Tools List` (topbench-v1), `metadata` and `user_goal` (topbench-v2), `scenario_input_id` \
    (topbench-v3), `trace_id` and `goal` (canonical), an id with selected tools or a final response (topbench-run), \
    `llm_calls` and `channel_messages` (agentleak), `suite_name` and `user_task_id` (agentdojo), `eval` and `samples` or an \
    `.eval` archive (inspect), or `messages` (openai-chat)";

impl Format {
    /// What it becomes; [`Format::Auto`] is not known yet.
    pub fn family(self) -> Option<Family> {
        match self {
            Self::Auto => None,
            Self::TopBenchV1 | Self::TopBenchV2 | Self::TopBenchV3 | Self::Canonical => Some(Family::Traces),
            Self::TopBenchRun => Some(Family::Responses),
            Self::AgentLeak | Self::OpenAiChat | Self::Inspect | Self::AgentDojo => Some(Family::Sessions),
        }
    }

    /// The name of `--format`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::TopBenchV1 => "topbench-v1",
            Self::TopBenchV2 => "topbench-v2",
            Self::TopBenchV3 => "topbench-v3",
            Self::Canonical => "canonical",
            Self::TopBenchRun => "topbench-run",
            Self::AgentLeak => "agentleak",
            Self::OpenAiChat => "openai-chat",
            Self::Inspect => "inspect",
            Self::AgentDojo => "agentdojo",
        }
    }

    /// The format of a file.
    ///
    /// # Errors
    /// [`Error::Read`], or a [`Fault`] that names the supported formats.
    pub fn of_file(path: &Path) -> Result<Self> {
        if is_archive(path)? {
            return Ok(Self::Inspect);
        }
        Self::of_rows(&mut Rows::open(path)?)
    }

    /// The format of the first row that is not null.
    ///
    /// # Errors
    /// A [`Fault`] that names the supported formats.
    pub fn of_rows(rows: &mut Rows<'_>) -> Result<Self> {
        let place = rows.place().to_owned();
        while let Some(row) = rows.next_row()? {
            if row.text != "null" {
                return Self::of_row(&row, &place);
            }
        }
        Err(Fault::new("no rows").at(place).expected("at least one trace or session").into())
    }

    /// The format of a row, by its keys.
    ///
    /// # Errors
    /// A [`Fault`] that names the supported formats.
    pub fn of_row(row: &Row<'_>, place: &str) -> Result<Self> {
        let members: BTreeMap<String, &RawValue> = serde_json::from_str(row.text).unwrap_or_default();
        let keys: Vec<String> = members.keys().map(|key| plain(key)).collect();
        if let Some(format) = Self::of_keys(&keys) {
            return Ok(format);
        }
        // A file that maps ids to run results, some of them null.
        let values = members.values().find(|value| value.get().starts_with('{'));
        let inner: BTreeMap<String, &RawValue> =
            values.and_then(|value| serde_json::from_str(value.get()).ok()).unwrap_or_default();
        let inner: Vec<String> = inner.keys().map(|key| plain(key)).collect();
        if has_run_result(&inner) {
            return Ok(Self::TopBenchRun);
        }
        let found = members.keys().take(8).map(|key| key.chars().take(40).collect::<String>());
        Err(Fault::new("the keys of the first row are of no supported trace format and of no session log")
            .at(place)
            .got(found.collect::<Vec<_>>().join(", "))
            .expected(SUPPORTED)
            .hint("name the format with --format to see what the rows lack")
            .into())
    }

    /// By plain keys; an earlier line wins.
    fn of_keys(keys: &[String]) -> Option<Self> {
        let has = |key: &str| keys.iter().any(|other| other == key);
        if has("traceid") && has("goal") {
            Some(Self::Canonical)
        } else if has("llmcalls") && has("channelmessages") {
            Some(Self::AgentLeak)
        } else if has("suitename") && has("usertaskid") {
            Some(Self::AgentDojo)
        } else if has("eval") && (has("samples") || has("status")) {
            Some(Self::Inspect)
        } else if has("usergoal") && has("metadata") && has("availabletools") {
            Some(Self::TopBenchV2)
        } else if has("scenarioinputid") && !has_run_result(keys) || has("benignusergoal") {
            Some(Self::TopBenchV3)
        } else if has("availabletoolslist") || has("evaluationbenchmark") {
            Some(Self::TopBenchV1)
        } else if has("messages") {
            Some(Self::OpenAiChat)
        } else if has_run_result(keys) {
            Some(Self::TopBenchRun)
        } else {
            None
        }
    }
}

fn has_run_result(keys: &[String]) -> bool {
    const RESULTS: &[&str] = &[
        "selectedtoolids",
        "selectedtools",
        "toolselection",
        "finalresponse",
        "finalanswer",
        "round1",
        "round2",
        "firstround",
        "secondround",
        "stage1",
        "stage2",
    ];
    keys.iter().any(|key| RESULTS.contains(&key.as_str()))
}

/// A key without spaces, underscores, hyphens and case: `Trajectory ID` is `trajectory_id`.
pub(crate) fn plain(key: &str) -> String {
    key.chars().filter(|character| character.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Whether the file is a zip archive.
pub(crate) fn is_archive(path: &Path) -> Result<bool> {
    let file = std::fs::File::open(path).map_err(|source| Error::read(path, source))?;
    let mut start = Vec::new();
    file.take(4).read_to_end(&mut start).map_err(|source| Error::read(path, source))?;
    Ok(start == b"PK\x03\x04")
}
