//! The sections of a recipe that name an endpoint: `[evaluate.verifier]`, `[evaluate.judge]` and, where it is one, `[build.writer]`.

use std::path::Path;
use std::str::FromStr;

use serde::Serialize;
use toml::Table;

use super::path;
use super::section::Section;
use crate::endpoint::{Address, EndpointSettings, KeyVariable};
use crate::error::Fault;
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
