//! The sections of a recipe that name an endpoint: `[evaluate.verifier]`, `[evaluate.judge]`, each `[[evaluate.agent]]` and, where it
//! is one, `[build.writer]`.

use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use toml::Table;

use super::path;
use super::section::Section;
use crate::endpoint::{Address, EndpointSettings, KeyVariable};
use crate::error::Fault;
use crate::prompt::Mitigation;
use crate::verify::SemanticUse;

/// The semantic verifier of an evaluation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct VerifierSettings {
    /// Whether its matches decide headline figures.
    pub in_headline: bool,
    /// Where it is asked.
    #[serde(flatten)]
    pub endpoint: EndpointSettings,
}

impl VerifierSettings {
    /// What its matches decide.
    pub fn semantic_use(&self) -> SemanticUse {
        if self.in_headline { SemanticUse::Headline } else { SemanticUse::Beside }
    }
}

/// Reads `[evaluate.verifier]`.
pub(super) fn read_verifier(table: Table, folder: &Path, faults: &mut Vec<Fault>) -> Option<VerifierSettings> {
    let mut section = Section::new("evaluate.verifier", table, faults);
    let in_headline = section.take_or("in_headline", false);
    let endpoint = read_endpoint("evaluate.verifier", section, folder)?;
    Some(VerifierSettings { in_headline, endpoint })
}

/// Reads `[evaluate.judge]`.
pub(super) fn read_judge(table: Table, folder: &Path, faults: &mut Vec<Fault>) -> Option<EndpointSettings> {
    read_endpoint("evaluate.judge", Section::new("evaluate.judge", table, faults), folder)
}

/// How an agent comes to its answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum AgentProtocol {
    /// Tools are selected in one reply, and the answer is written from their results in another.
    #[default]
    TwoStage,
    /// The model calls tools by the endpoint's own means until it answers.
    ToolCalling,
}

impl AgentProtocol {
    /// The name of a model's system under this protocol; slashes of model names are none of a file's.
    pub fn system_name(self, model: &str) -> String {
        let plain = model.replace(['/', '\\'], "_");
        match self {
            Self::TwoStage => plain,
            Self::ToolCalling => format!("{plain}+tools"),
        }
    }
}

/// A system behind an endpoint that answers the held-out traces beside those of the recipe.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AgentSettings {
    /// The system's name in tables; also a file's.
    pub name: String,
    /// How it comes to its answer.
    pub protocol: AgentProtocol,
    /// Prompt-only safeguard.
    pub mitigation: Mitigation,
    /// Where it is asked.
    #[serde(flatten)]
    pub endpoint: EndpointSettings,
}

/// Reads each `[[evaluate.agent]]`.
pub(super) fn read_agents(tables: Vec<Table>, folder: &Path, faults: &mut Vec<Fault>) -> Vec<AgentSettings> {
    let mut agents: Vec<AgentSettings> = Vec::new();
    for table in tables {
        let mut section = Section::new("evaluate.agent", table, faults);
        let name: Option<String> = section.take("name");
        let protocol = section.take_or("protocol", AgentProtocol::default());
        let mitigation = section.take_or("mitigation", Mitigation::None);
        let Some(endpoint) = read_endpoint("evaluate.agent", section, folder) else { continue };
        let name = name.unwrap_or_else(|| mitigation.of_system(&protocol.system_name(&endpoint.model)));
        let is_plain = |character: char| character.is_ascii_alphanumeric() || "-_.+:".contains(character);
        if name.is_empty() || name.starts_with('.') || !name.chars().all(is_plain) {
            let fault = Fault::new("`evaluate.agent.name` must be a plain file name").got(&name);
            faults.push(fault.expected("letters, digits, `-`, `_`, `+`, `:` and `.`"));
        }
        let taken = ["base", "sft", "dpo"].contains(&name.as_str()) || name.starts_with("base+");
        if taken || agents.iter().any(|other| other.name == name) {
            faults.push(Fault::new("two systems have one name").at("evaluate.agent.name").got(&name));
        }
        agents.push(AgentSettings { name, protocol, mitigation, endpoint });
    }
    agents
}

/// Reads the keys of an endpoint; `name` leads them in faults.
pub(crate) fn read_endpoint(name: &str, mut section: Section<'_>, folder: &Path) -> Option<EndpointSettings> {
    let url: Option<String> = section.require("url", "the base URL of an OpenAI-compatible endpoint");
    let url: Option<Address> = url.and_then(|text| read_text(&mut section, &format!("{name}.url"), &text));
    let model: Option<String> = section.require("model", "the model's name there");
    let key_env: Option<String> = section.take("key_env");
    let key_env: Option<KeyVariable> =
        key_env.and_then(|text| read_text(&mut section, &format!("{name}.key_env"), &text));
    let cache: Option<String> = section.take("cache");
    let cache = match cache.map(|text| path::resolve(&text, folder)).transpose() {
        Ok(cache) => cache,
        Err(fault) => {
            section.fault(fault);
            None
        }
    };
    // Defaults come from one place; the address here only stands in until a missing one has been reported.
    let stand_in = url.clone().or_else(|| "http://127.0.0.1".parse().ok())?;
    let default = EndpointSettings::new(stand_in, model.clone().unwrap_or_else(|| "model".to_owned()));
    let settings = EndpointSettings {
        key_env,
        timeout_seconds: section.take_or("timeout_seconds", default.timeout_seconds),
        retries: section.take_or("retries", default.retries),
        first_wait_seconds: section.take_or("first_wait_seconds", default.first_wait_seconds),
        longest_wait_seconds: section.take_or("longest_wait_seconds", default.longest_wait_seconds),
        requests_per_minute: section.take("requests_per_minute"),
        concurrency: section.take_or("concurrency", default.concurrency),
        token_limit_field: section.take_or("token_limit_field", default.token_limit_field),
        json_mode: section.take_or("json_mode", default.json_mode),
        prices: section.take("prices"),
        cache,
        ..default
    };
    for fault in settings.faults(name) {
        section.fault(fault);
    }
    section.finish();
    (url.is_some() && model.is_some()).then_some(settings)
}

/// Reads a text that may hold a key by mistake: unlike those of other keys, its fault does not repeat it.
fn read_text<T: FromStr<Err = Fault>>(section: &mut Section<'_>, key: &str, text: &str) -> Option<T> {
    text.parse().map_err(|fault: Fault| section.fault(fault.at(key))).ok()
}
