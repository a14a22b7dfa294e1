//! What is to be known of an endpoint before it is asked.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Address, KeyVariable};
use crate::error::Fault;

/// An endpoint, a model behind it, and how it is asked. As a table of a recipe it has the same keys.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndpointSettings {
    /// Base URL.
    pub url: Address,
    /// The model's name there.
    pub model: String,
    /// The environment variable that holds the key; absent sends none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_env: Option<KeyVariable>,
    /// Longest time for one attempt, connection to last byte.
    #[serde(default = "default_timeout")]
    pub timeout_seconds: f64,
    /// Attempts after the first.
    #[serde(default = "default_retries")]
    pub retries: u32,
    /// Wait before the first retry; it doubles with each.
    #[serde(default = "default_first_wait")]
    pub first_wait_seconds: f64,
    /// Longest wait; a server that asks for more is given up.
    #[serde(default = "default_longest_wait")]
    pub longest_wait_seconds: f64,
    /// Most calls a minute, retries included; absent sets no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_minute: Option<f64>,
    /// Requests under way together.
    #[serde(default = "default_concurrency")]
    pub concurrency: usize,
    /// Folder of earlier replies, by content; absent keeps none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<PathBuf>,
    /// What the token limit is called there.
    #[serde(default)]
    pub token_limit_field: TokenLimitField,
    /// How JSON is asked for where a reply must be JSON.
    #[serde(default)]
    pub json_mode: JsonMode,
    /// What tokens cost there; absent leaves the cost open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prices: Option<Prices>,
}

/// Prices of a million tokens, in any one currency.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// Of prompts.
    pub prompt: f64,
    /// Of replies.
    pub reply: f64,
}

impl Prices {
    /// What so many tokens cost.
    pub fn of(self, prompt_tokens: u64, completion_tokens: u64) -> f64 {
        (self.prompt * prompt_tokens as f64 + self.reply * completion_tokens as f64) / 1e6
    }
}

impl std::str::FromStr for Prices {
    type Err = Fault;

    /// `0.15,0.60`: of prompts, then of replies.
    fn from_str(text: &str) -> Result<Self, Fault> {
        let fault = || {
            Fault::new("prices are two numbers")
                .got(text)
                .expected("prompt,reply for a million tokens each, e.g. `0.15,0.60`")
        };
        let (prompt, reply) = text.split_once(',').ok_or_else(fault)?;
        let number = |text: &str| text.trim().parse::<f64>().map_err(|_| fault());
        Ok(Self { prompt: number(prompt)?, reply: number(reply)? })
    }
}

/// What a request for JSON holds beside the prompt's own words. The reply is read as strictly under each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum JsonMode {
    /// Nothing: every endpoint takes that.
    #[default]
    Prompt,
    /// `response_format` of type `json_object`.
    Object,
    /// `response_format` of type `json_schema`.
    Schema,
    /// `response_format` of type `json_object` with a schema in it, as llama.cpp's servers take it.
    ObjectSchema,
}

/// The request's field that limits the reply's tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum TokenLimitField {
    /// What most servers know.
    #[default]
    MaxTokens,
    /// What newer reasoning models ask for; they refuse a temperature too, so none is sent.
    MaxCompletionTokens,
}

fn default_timeout() -> f64 {
    120.0
}

fn default_retries() -> u32 {
    4
}

fn default_first_wait() -> f64 {
    1.0
}

fn default_longest_wait() -> f64 {
    60.0
}

fn default_concurrency() -> usize {
    4
}

impl EndpointSettings {
    /// An endpoint asked with the defaults.
    pub fn new(url: Address, model: impl Into<String>) -> Self {
        Self {
            url,
            model: model.into(),
            key_env: None,
            timeout_seconds: default_timeout(),
            retries: default_retries(),
            first_wait_seconds: default_first_wait(),
            longest_wait_seconds: default_longest_wait(),
            requests_per_minute: None,
            concurrency: default_concurrency(),
            cache: None,
            token_limit_field: TokenLimitField::default(),
            json_mode: JsonMode::default(),
            prices: None,
        }
    }

    /// Everything that is out of range; `place` leads the keys' names (`evaluate.verifier`).
    pub fn faults(&self, place: &str) -> Vec<Fault> {
        let mut faults = Vec::new();
        let mut check = |key: &str, holds: bool, rule: &str| {
            if !holds {
                faults.push(Fault::new(format!("`{place}.{key}` must be {rule}")));
            }
        };
        let is_positive = |value: f64| value.is_finite() && value > 0.0;
        // A day: longer waits overflow nothing, but nobody means them.
        let is_wait = |value: f64| (0.0..=86_400.0).contains(&value);
        check("model", !self.model.trim().is_empty(), "the name of a model");
        check(
            "timeout_seconds",
            is_positive(self.timeout_seconds) && is_wait(self.timeout_seconds),
            "above 0 and at most 86400",
        );
        check("first_wait_seconds", is_wait(self.first_wait_seconds), "at least 0 and at most 86400");
        check("longest_wait_seconds", is_wait(self.longest_wait_seconds), "at least 0 and at most 86400");
        check("retries", self.retries <= 20, "at most 20");
        check("requests_per_minute", self.requests_per_minute.is_none_or(is_positive), "above 0");
        let is_price = |value: f64| value.is_finite() && value >= 0.0;
        let are_prices = self.prices.is_none_or(|prices| is_price(prices.prompt) && is_price(prices.reply));
        check("prices", are_prices, "at least 0");
        check("concurrency", (1..=256).contains(&self.concurrency), "at least 1 and at most 256");
        faults
    }
}
