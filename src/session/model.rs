//! The models of a recipe, loaded: three providers behind one interface.

use std::collections::BTreeMap;

use super::settings::{ModelSettings, Settings};
use crate::agent::{Clock, Scripted};
use crate::device::Compute;
use crate::endpoint::{Chat, Client};
use crate::error::Result;
use crate::generate::LocalChat;
use crate::run::seed::Seed;

/// A loaded model.
pub struct Model {
    chat: Box<dyn Chat + Sync + Send>,
    clock: Clock,
    workers: usize,
    /// Function calls go as text.
    text_only: bool,
    /// Draws need a seed even where decoding is greedy.
    seeded: bool,
}

impl Model {
    /// Loads a model; nothing is asked.
    ///
    /// # Errors
    /// Settings out of range, a model that cannot be read.
    pub fn load(name: &str, settings: &ModelSettings, seed: Seed, compute: &Compute) -> Result<Self> {
        Ok(match settings {
            ModelSettings::Scripted(policy) => Self {
                clock: Clock::Declared { call_seconds: policy.call_seconds, token_seconds: policy.token_seconds },
                chat: Box::new(Scripted::new(name, policy.clone())),
                workers: rayon::current_num_threads(),
                text_only: false,
                seeded: true,
            },
            ModelSettings::Endpoint(endpoint) => {
                Self { workers: endpoint.concurrency, ..Self::of(Box::new(Client::new((**endpoint).clone(), seed)?)) }
            }
            // It uses every core itself.
            ModelSettings::Local { source } => {
                Self { text_only: true, ..Self::of(Box::new(LocalChat::load(source, compute)?)) }
            }
        })
    }

    /// Any model, one request at a time, by the machine's clock.
    pub fn of(chat: Box<dyn Chat + Sync + Send>) -> Self {
        Self { chat, clock: Clock::Wall, workers: 1, text_only: false, seeded: false }
    }

    /// The same, with so many sessions together.
    #[must_use]
    pub fn with_workers(self, workers: usize) -> Self {
        Self { workers, ..self }
    }

    /// The model.
    pub fn chat(&self) -> &(dyn Chat + Sync) {
        &*self.chat
    }

    /// Where its time comes from.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Sessions that may run together.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// Whether function calls must go as text.
    pub fn is_text_only(&self) -> bool {
        self.text_only
    }

    /// The seed of a request's draws, where it has any.
    pub fn seed(&self, seed: u64, temperature: f64) -> Option<u64> {
        (self.seeded || temperature > 0.0).then_some(seed)
    }
}

/// Models by their name in the recipe.
#[derive(Default)]
pub struct Models(pub BTreeMap<String, Model>);

impl Models {
    /// Loads those that conditions or the probe use.
    ///
    /// # Errors
    /// As [`Model::load`].
    pub fn load(settings: &Settings, compute: &Compute) -> Result<Self> {
        let used = settings.models.iter().filter(|(name, _)| settings.uses(name));
        let models = used.map(|(name, model)| Ok((name.clone(), Model::load(name, model, settings.seed, compute)?)));
        Ok(Self(models.collect::<Result<_>>()?))
    }
}
