//! Options that commands share where they ask an endpoint.

use std::path::PathBuf;

use crate::endpoint::{Client, EndpointSettings, JsonMode, TokenLimitField};
use crate::error::Result;
use crate::run::seed::Seed;

/// How an endpoint is asked.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Endpoint")]
#[expect(
    clippy::struct_field_names,
    reason = "flags are named after fields, and flattened structs share one name space"
)]
pub struct Tuning {
    /// Longest time for one attempt.
    #[arg(long, value_name = "SECONDS", default_value_t = 120.0)]
    endpoint_timeout: f64,
    /// Attempts after the first.
    #[arg(long, value_name = "COUNT", default_value_t = 4)]
    endpoint_retries: u32,
    /// Most calls a minute, retries included.
    #[arg(long, value_name = "CALLS")]
    endpoint_rate: Option<f64>,
    /// Requests under way together.
    #[arg(long, value_name = "COUNT", default_value_t = 4)]
    endpoint_concurrency: usize,
    /// Folder of earlier replies, by content.
    #[arg(long, value_name = "FOLDER")]
    endpoint_cache: Option<PathBuf>,
    /// What the token limit is called there.
    #[arg(long, value_enum, default_value_t)]
    endpoint_token_field: TokenLimitField,
    /// What a request for JSON holds beside the prompt; the reply is read as strictly under each.
    #[arg(long, value_enum, default_value_t)]
    endpoint_json_mode: JsonMode,
    /// Prices of a million prompt and reply tokens, for the cost in the counts.
    #[arg(long, value_name = "PROMPT,REPLY")]
    endpoint_prices: Option<String>,
}

impl Tuning {
    /// A client of one endpoint and model. URL and variable are read here and not by the parser of arguments, whose errors
    /// repeat what was typed: somebody may have typed the key.
    ///
    /// # Errors
    /// A URL or variable that is none, settings out of range, a variable that is not set.
    pub fn client(&self, url: &str, model: &str, key_env: Option<&str>, seed: Seed) -> Result<Client> {
        Client::new(self.settings(url, model, key_env)?, seed)
    }

    /// What [`Tuning::client`] makes a client of.
    ///
    /// # Errors
    /// As [`Tuning::client`].
    pub fn settings(&self, url: &str, model: &str, key_env: Option<&str>) -> Result<EndpointSettings> {
        Ok(EndpointSettings {
            key_env: key_env.map(str::parse).transpose()?,
            timeout_seconds: self.endpoint_timeout,
            retries: self.endpoint_retries,
            requests_per_minute: self.endpoint_rate,
            concurrency: self.endpoint_concurrency,
            cache: self.endpoint_cache.clone(),
            token_limit_field: self.endpoint_token_field,
            json_mode: self.endpoint_json_mode,
            prices: self.endpoint_prices.as_deref().map(str::parse).transpose()?,
            ..EndpointSettings::new(url.parse()?, model)
        })
    }
}
