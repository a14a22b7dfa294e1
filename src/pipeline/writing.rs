//! The model that writes the answers of a data set, opened.

use std::num::NonZeroUsize;

use crate::build::{Drawing, Proposer, Writer};
use crate::device::Compute;
use crate::endpoint::{Chat, Client, Counts};
use crate::error::Result;
use crate::generate::LocalChat;
use crate::recipe::settings::{WriterModel, WriterSettings};
use crate::run::seed::Seed;

/// A writing model.
pub struct WritingModel {
    chat: Opened,
    best_of: NonZeroUsize,
    drawing: Drawing,
}

enum Opened {
    Local(Box<LocalChat>),
    Endpoint(Box<Client>),
}

impl WritingModel {
    /// Loads a model or prepares a client; nothing is asked yet.
    ///
    /// # Errors
    /// A model that cannot be found or read, a key variable that is not set.
    pub fn open(settings: &WriterSettings, seed: Seed, compute: &Compute) -> Result<Self> {
        let chat = match &settings.model {
            WriterModel::Local { model } => Opened::Local(Box::new(LocalChat::load(model, compute)?)),
            WriterModel::Endpoint(endpoint) => Opened::Endpoint(Box::new(Client::new((**endpoint).clone(), seed)?)),
        };
        let drawing = Drawing {
            token_limit: settings.token_limit.get(),
            temperature: settings.temperature.get(),
            seed,
            first: 0,
        };
        Ok(Self { chat, best_of: settings.best_of, drawing })
    }

    /// The writer.
    pub fn writer(&self) -> Writer<'_> {
        let best_of = self.best_of.get();
        Writer::Model(match &self.chat {
            // One model on all cores already: a second request beside it would only wait.
            Opened::Local(local) => Proposer::new("local", local.as_ref(), (1, best_of), self.drawing),
            Opened::Endpoint(client) => {
                let workers = client.settings().concurrency;
                Proposer::new("endpoint", client.as_ref(), (workers, best_of), self.drawing)
            }
        })
    }

    /// What was asked until now.
    pub fn counts(&self) -> Counts {
        match &self.chat {
            Opened::Local(local) => local.counts(),
            Opened::Endpoint(client) => client.counts(),
        }
    }
}
