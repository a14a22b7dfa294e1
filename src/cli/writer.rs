//! Options that say who writes the answers of a data set.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use super::endpoint::Tuning;
use crate::device::{Compute, DeviceChoice, NumberFormat};
use crate::error::{Fault, Result};
use crate::recipe::settings::{Positive, WriterModel, WriterSettings, defaults};

/// Who writes the answers.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Writer")]
pub struct WriterOptions {
    /// Templates, a model of this machine, or one behind an endpoint; each answer goes through the same audit.
    #[arg(long, value_enum, default_value_t)]
    writer: WriterName,
    /// The model: folder, .gguf file or hub id (local), or its name there (endpoint).
    #[arg(long, value_name = "MODEL")]
    writer_model: Option<String>,
    /// OpenAI-compatible endpoint, with or without its `/v1`. Replies are kept beside the data set, in `OUT.replies`, unless
    /// --endpoint-cache names a folder.
    #[arg(long, value_name = "URL")]
    writer_url: Option<String>,
    /// Environment variable that holds the key.
    #[arg(long, value_name = "VARIABLE")]
    writer_key_env: Option<String>,
    /// Answers that a model is asked for together; the best one that passes the audit is taken.
    #[arg(long, value_name = "COUNT", default_value_t = defaults::WRITER_BEST_OF)]
    best_of: NonZeroUsize,
    /// Rounds before an answer is given up and its row quarantined.
    #[arg(long, value_name = "COUNT", default_value_t = defaults::WRITER_TRIES)]
    pub tries: NonZeroUsize,
    /// Above 0, or all answers of a round are the same.
    #[arg(long, value_name = "NUMBER", default_value_t = defaults::WRITER_TEMPERATURE.get())]
    writer_temperature: f64,
    /// Tokens of one answer.
    #[arg(long, value_name = "COUNT", default_value_t = defaults::WRITER_TOKENS)]
    writer_tokens: NonZeroUsize,
    /// Where a writer of this machine computes: auto, cpu, cuda:0 (or another number), cuda:all, metal [default: cpu].
    #[arg(long, value_name = "DEVICE")]
    device: Option<DeviceChoice>,
    #[command(flatten)]
    tuning: Tuning,
}

/// Writers by name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
enum WriterName {
    /// Deterministic templates.
    #[default]
    Template,
    /// A local model.
    Local,
    /// A model behind an endpoint.
    Endpoint,
}

impl WriterOptions {
    /// Where the writing model computes.
    ///
    /// # Errors
    /// A device that is not there, or one where no model of this machine writes.
    pub fn compute(&self) -> Result<Compute> {
        if self.device.is_some() && self.writer != WriterName::Local {
            return Err(Fault::new("no model of this machine writes").at("--device").hint("--writer local").into());
        }
        Compute::open(self.device, NumberFormat::F32, 0)
    }

    /// The kind of that device.
    pub fn device_kind(&self) -> &'static str {
        self.device.unwrap_or_default().kind()
    }

    /// The writing model, if one is to write; `out` is the data set's folder.
    ///
    /// # Errors
    /// A flag that is missing for this writer or not of it, values out of range.
    pub fn settings(&self, out: &Path) -> Result<Option<WriterSettings>> {
        let missing = |flag: &str, expected: &str| Fault::new(format!("`{flag}` is missing")).expected(expected);
        let model = match self.writer {
            WriterName::Template => {
                return match (&self.writer_model, &self.writer_url) {
                    (None, None) => Ok(None),
                    _ => Err(Fault::new("templates need no model")
                        .at("--writer")
                        .hint("--writer local or endpoint")
                        .into()),
                };
            }
            WriterName::Local if self.writer_url.is_some() => {
                return Err(Fault::new("a local model has no URL").at("--writer-url").hint("--writer endpoint").into());
            }
            WriterName::Local => {
                let model = self.writer_model.clone();
                let model = model.ok_or_else(|| missing("--writer-model", "a folder, a .gguf file or a hub id"))?;
                WriterModel::Local { model }
            }
            WriterName::Endpoint => {
                let url =
                    self.writer_url.as_deref().ok_or_else(|| missing("--writer-url", "an endpoint's base URL"))?;
                let model = self.writer_model.as_deref();
                let model = model.ok_or_else(|| missing("--writer-model", "the model's name there"))?;
                let mut settings = self.tuning.settings(url, model, self.writer_key_env.as_deref())?;
                settings.cache = settings.cache.or_else(|| Some(replies_of(out)));
                WriterModel::Endpoint(Box::new(settings))
            }
        };
        let temperature =
            Positive::try_from(self.writer_temperature).map_err(|rule| Fault::new(rule).at("--writer-temperature"))?;
        let (best_of, tries, token_limit) = (self.best_of, self.tries, self.writer_tokens);
        Ok(Some(WriterSettings { model, best_of, tries, temperature, token_limit }))
    }
}

/// `data.replies` beside `data`.
fn replies_of(out: &Path) -> PathBuf {
    let mut name = out.file_name().unwrap_or_default().to_owned();
    name.push(".replies");
    out.with_file_name(name)
}
