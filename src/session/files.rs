//! The edge: a recipe in, a run folder out.
//!
//! `contracts.jsonl` and `manifest.json` (as `started`) come first, then the sessions, then their logs, the analysis under
//! `exposure/`, `known.json`, `frontier.json`, and last the manifest as `complete`.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::frontier::{FrontierRow, frontier};
use super::known::{KnownRow, known};
use super::model::Models;
use super::progress::{Existing, Progress};
use super::row::{SessionRow, SessionStatus};
use super::run::play_all;
use super::settings::Settings;
use super::slate::Slate;
use crate::device::Compute;
use crate::error::{Error, Result};
use crate::exposure::{self, Files, Summary, analyse};
use crate::run::{atomic, digest, jsonl};
use crate::statistic::Resampling;

/// The logs of a run, as `topalign exposure` reads them.
const LOGS: [&str; 6] =
    ["contracts.jsonl", "observations.jsonl", "candidates.jsonl", "actions.jsonl", "sessions.jsonl", "requests.jsonl"];

/// What a run is and how far it got.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Manifest {
    status: String,
    version: String,
    commit: Option<String>,
    recipe_digest: String,
    seed: u64,
    started_at: String,
    finished_at: Option<String>,
    sessions: usize,
    /// Sessions that an earlier process had finished.
    resumed: usize,
    /// Seconds of playing, in the process that finished.
    play_seconds: Option<f64>,
    /// Seconds of the analysis.
    analysis_seconds: Option<f64>,
    contracts: BTreeMap<String, String>,
    /// Digest of each log.
    outputs: BTreeMap<String, String>,
}

/// What a run found.
#[derive(Debug, Clone, Serialize)]
pub struct Outcome {
    /// Sessions by status.
    pub sessions: BTreeMap<String, usize>,
    /// Seconds of playing and of the analysis.
    pub seconds: [f64; 2],
    /// Known and measured figures.
    pub known: Vec<KnownRow>,
    /// Privacy and utility.
    pub frontier: Vec<FrontierRow>,
    /// The analysis.
    pub summary: Summary,
    /// Where the analysis read from.
    #[serde(skip)]
    pub files: Files,
}

/// Plays a recipe's sessions into a folder and analyses them. With `resume`, sessions that are finished are kept. Local models
/// compute where `compute` says.
///
/// # Errors
/// An invalid workspace, a model that cannot be loaded or is given up, an interruption, an unwritable folder.
pub fn run(settings: &Settings, folder: &Path, resume: bool, compute: &Compute) -> Result<Outcome> {
    let inputs: Result<Vec<String>> = settings.inputs().iter().map(|path| digest::of_file(path)).collect();
    let recipe_digest = digest::of_value(&(env!("CARGO_PKG_VERSION"), settings, inputs?))?;
    let slate = Slate::new(settings)?;
    let seats = slate.seats(settings).len();
    let mut manifest = Manifest::started(settings, &slate, &recipe_digest, seats);
    let is_complete = resume && Manifest::is_complete(folder, &recipe_digest);
    let started = Instant::now();
    if !is_complete {
        let models = Models::load(settings, compute)?;
        let existing = if resume { Existing::Resume } else { Existing::Replace };
        let mut progress = Progress::open(folder, &recipe_digest, existing)?;
        manifest.resumed = progress.finished();
        jsonl::write(&folder.join("contracts.jsonl"), slate.contracts(settings))?;
        manifest.write(folder)?;
        let resolved = toml::to_string_pretty(settings)
            .map_err(|error| Error::Failed(format!("recipe has no TOML form: {error}")))?;
        atomic::write(&folder.join("recipe.resolved.toml"), resolved.as_bytes())?;
        play_all(settings, &slate, &models, &mut progress)?;
        progress.finish(folder)?;
    }
    let play_seconds = started.elapsed().as_secs_f64();
    let outcome = analysed(settings, &slate, folder, play_seconds)?;
    manifest.finish(folder, outcome.seconds)?;
    Ok(outcome)
}

fn analysed(settings: &Settings, slate: &Slate, folder: &Path, play_seconds: f64) -> Result<Outcome> {
    let started = Instant::now();
    let path = |name: &str| vec![folder.join(name)];
    let files = Files {
        contracts: path("contracts.jsonl"),
        observations: path("observations.jsonl"),
        candidates: path("candidates.jsonl"),
        actions: path("actions.jsonl"),
        out: folder.join("exposure"),
    };
    let how = exposure::Settings {
        resampling: Resampling { resamples: settings.resamples, seed: settings.seed },
        cluster: None,
        answer_channel: Some("response".to_owned()),
    };
    let summary = analyse(&files, &how, None)?;
    let rows: Vec<SessionRow> = jsonl::read(&folder.join("sessions.jsonl"))?;
    let mut known = known(settings, slate, &summary);
    let (frontier, success) = frontier(settings, &rows, &summary);
    known.extend(success);
    write_json(&folder.join("known.json"), &known)?;
    write_json(&folder.join("frontier.json"), &frontier)?;
    let mut sessions: BTreeMap<String, usize> = BTreeMap::new();
    for row in &rows {
        *sessions.entry(status_name(row.status).to_owned()).or_default() += 1;
    }
    Ok(Outcome { sessions, seconds: [play_seconds, started.elapsed().as_secs_f64()], known, frontier, summary, files })
}

fn status_name(status: SessionStatus) -> &'static str {
    match status {
        SessionStatus::Complete => "complete",
        SessionStatus::Partial => "partial",
        SessionStatus::Failed => "failed",
    }
}

fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<()> {
    let json = serde_json::to_vec_pretty(value).map_err(|error| Error::Failed(error.to_string()))?;
    atomic::write(path, &json)
}

impl Manifest {
    fn started(settings: &Settings, slate: &Slate, recipe_digest: &str, sessions: usize) -> Self {
        let contracts = slate.contracts(settings);
        Self {
            status: "started".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: option_env!("TOPALIGN_COMMIT").map(str::to_owned),
            recipe_digest: recipe_digest.to_owned(),
            seed: settings.seed.0,
            started_at: jiff::Timestamp::now().to_string(),
            finished_at: None,
            sessions,
            resumed: 0,
            play_seconds: None,
            analysis_seconds: None,
            contracts: contracts.map(|one| (one.contract_id.clone(), one.digest.clone())).collect(),
            outputs: BTreeMap::new(),
        }
    }

    /// Whether the folder holds a complete run of this recipe.
    fn is_complete(folder: &Path, recipe_digest: &str) -> bool {
        let read = std::fs::read(folder.join("manifest.json")).ok();
        let manifest = read.and_then(|bytes| serde_json::from_slice::<Self>(&bytes).ok());
        manifest.is_some_and(|manifest| {
            let is_whole = |(name, digest): (&String, &String)| {
                digest::of_file(&folder.join(name)).is_ok_and(|found| found == *digest)
            };
            manifest.status == "complete"
                && manifest.recipe_digest == recipe_digest
                && manifest.outputs.iter().all(is_whole)
        })
    }

    fn finish(&mut self, folder: &Path, [play, analysis]: [f64; 2]) -> Result<()> {
        "complete".clone_into(&mut self.status);
        self.finished_at = Some(jiff::Timestamp::now().to_string());
        self.play_seconds = Some(play);
        self.analysis_seconds = Some(analysis);
        self.outputs = LOGS
            .iter()
            .map(|name| Ok(((*name).to_owned(), digest::of_file(&folder.join(name))?)))
            .collect::<Result<_>>()?;
        self.write(folder)
    }

    fn write(&self, folder: &Path) -> Result<()> {
        write_json(&folder.join("manifest.json"), self)
    }
}
