//! What a recipe of sessions means once read.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::Serialize;

use super::row::Slice;
use crate::agent::{Limits, Policy, RuntimeKind};
use crate::endpoint::{EndpointSettings, Prices};
use crate::probe::Mode;
use crate::run::seed::Seed;
use crate::workspace::{Exit, Interface, Plan, Taps};

/// Everything a run of sessions needs; no default left implicit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Settings {
    /// Names the run folder.
    pub name: String,
    /// Seed of everything.
    pub seed: Seed,
    /// B: most requests of a session.
    pub budget: u32,
    /// Workspaces.
    pub items: usize,
    /// Sessions of each item under each condition.
    pub repeats: usize,
    /// c*.
    pub expected_outlet: Option<Exit>,
    /// Normal tasks of each item, for conditions of the task slice.
    pub tasks: usize,
    /// Bootstrap resamples of the analysis.
    pub resamples: usize,
    /// Share of actions that the other side does not take.
    pub outage: f64,
    /// How far one request may go.
    pub limits: LimitSettings,
    /// What tokens cost; absent leaves the cost open.
    pub prices: Option<Prices>,
    /// The probe on raw returns; absent records all.
    pub taps: Option<Taps>,
    /// What the agents work in.
    pub workspace: WorkspaceSettings,
    /// Who asks.
    pub probe: ProbeSettings,
    /// Models by name.
    pub models: BTreeMap<String, ModelSettings>,
    /// What is compared.
    pub conditions: Vec<Condition>,
}

/// As [`Limits`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LimitSettings {
    /// Replies of the model to one request.
    pub steps: usize,
    /// Tokens of one reply.
    pub reply_tokens: usize,
    /// Earlier requests that stay in the conversation.
    pub memory: usize,
    /// Bytes of one result that the model is shown.
    pub result_bytes: usize,
    /// 0 is greedy.
    pub temperature: f64,
}

impl From<LimitSettings> for Limits {
    fn from(settings: LimitSettings) -> Self {
        Self {
            steps: settings.steps,
            reply_tokens: settings.reply_tokens,
            memory: settings.memory,
            result_bytes: settings.result_bytes,
            temperature: settings.temperature,
        }
    }
}

/// What the agents work in.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum WorkspaceSettings {
    /// Records with known truth.
    Composed(Plan),
    /// Traces: their tools, beside the exits.
    Traces {
        /// Files.
        traces: Vec<PathBuf>,
        /// The results of the essential tools come with each request: for models that are too small to call tools.
        given: bool,
    },
}

/// Who asks.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProbeSettings {
    /// Its policy.
    pub kind: ProbeKind,
    /// Exits that it may ask for.
    pub exits: Vec<Exit>,
    /// What it is told to find out.
    pub goal: String,
}

/// Policy of a probe.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ProbeKind {
    /// A seeded question bank.
    Planned,
    /// A model of the recipe, by name.
    Model(String),
    /// Requests of an earlier run, by item and repeat.
    Replay(PathBuf),
}

/// A model.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "provider", rename_all = "lowercase")]
pub enum ModelSettings {
    /// A policy with known leak probabilities.
    Scripted(Policy),
    /// An OpenAI-compatible endpoint.
    Endpoint(Box<EndpointSettings>),
    /// A checkpoint of this machine.
    Local {
        /// Folder, `.gguf` file or hub id.
        source: String,
    },
}

/// One condition: a runtime with a model, a guard and an interface.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Condition {
    /// Its name in the analysis.
    pub name: String,
    /// The runtime.
    pub runtime: RuntimeKind,
    /// The model's name.
    pub model: String,
    /// The guard, if any.
    pub guard: Option<GuardSettings>,
    /// What is changed of the tools.
    pub interface: Interface,
    /// What the probe is told.
    pub mode: Mode,
    /// Most candidates; absent sets no limit.
    pub candidates: Option<usize>,
    /// Who asks: the probe, or the item's normal tasks.
    pub slice: Slice,
}

/// A guard.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GuardSettings {
    /// Where it stands.
    pub exits: BTreeSet<Exit>,
    /// Share of the targets that it knows.
    pub recall: f64,
}
