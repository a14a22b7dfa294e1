//! Options that commands share where they ask a semantic verifier.

use super::endpoint::Tuning;
use crate::device::{Compute, DeviceChoice, NumberFormat};
use crate::endpoint::{Chat, Client};
use crate::error::Result;
use crate::generate::LocalChat;
use crate::pipeline::Asked;
use crate::run::seed::Seed;

/// A model that is asked about what matching left open. The targets of the contracts are sent to it.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_field_names, reason = "fields are named like their arguments")]
#[command(next_help_heading = "Semantic verifier")]
pub struct Verifier {
    /// OpenAI-compatible endpoint, with or without its `/v1`.
    #[arg(long, value_name = "URL", requires = "verifier_model")]
    verifier_url: Option<String>,
    /// The model's name there.
    #[arg(long, value_name = "NAME", requires = "verifier_url")]
    verifier_model: Option<String>,
    /// Environment variable that holds the key.
    #[arg(long, value_name = "VARIABLE", requires = "verifier_url")]
    verifier_key_env: Option<String>,
    /// A model of this machine instead: folder, .gguf file or hub id.
    #[arg(long, value_name = "MODEL", conflicts_with = "verifier_url")]
    verifier_local: Option<String>,
    /// Where to compute: auto, cpu, cuda:0 (or another number), cuda:all, metal, for a verifier of this machine [default: cpu].
    #[arg(long, value_name = "DEVICE", requires = "verifier_local")]
    device: Option<DeviceChoice>,
}

/// The verifier's model, wherever it is.
pub enum Opened {
    /// Behind an endpoint.
    Endpoint(Box<Client>),
    /// On this machine.
    Local(Box<LocalChat>),
}

impl Opened {
    /// The model as the analyses ask it.
    pub fn asked(&self) -> Asked<'_> {
        match self {
            Self::Endpoint(client) => Asked::from(client.as_ref()),
            // One model on all cores already: a second request beside it would only wait.
            Self::Local(local) => Asked { chat: local.as_ref() as &(dyn Chat + Sync), workers: 1 },
        }
    }
}

impl Verifier {
    /// The verifier, if one was named.
    ///
    /// # Errors
    /// A model that does not load, settings that make no client.
    pub fn open(&self, tuning: &Tuning, seed: Seed) -> Result<Option<Opened>> {
        if let Some(model) = &self.verifier_local {
            let compute = Compute::open(self.device, NumberFormat::F32, 0)?;
            return Ok(Some(Opened::Local(Box::new(LocalChat::load(model, &compute)?))));
        }
        let Some((url, model)) = self.verifier_url.as_deref().zip(self.verifier_model.as_deref()) else {
            return Ok(None);
        };
        let client = tuning.client(url, model, self.verifier_key_env.as_deref(), seed)?;
        Ok(Some(Opened::Endpoint(Box::new(client))))
    }
}
