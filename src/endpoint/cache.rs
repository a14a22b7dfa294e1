//! Replies kept on disk by content: the same question to the same endpoint and model is asked once. Neither the key nor the
//! question is in a file.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Address, ChatReply};
use crate::error::{Error, Result};
use crate::run::{atomic, digest};

/// A folder of replies.
#[derive(Debug)]
pub(super) struct Cache {
    folder: PathBuf,
}

/// What the cache holds for a request.
pub(super) enum Cached {
    Reply(Box<ChatReply>),
    Nothing,
    /// A file that is there but cannot be read as a reply.
    Damaged,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    request: String,
    reply: ChatReply,
}

impl Cache {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    pub(super) fn read(&self, request: &str) -> Cached {
        match std::fs::read(self.path(request)) {
            Err(_) => Cached::Nothing,
            Ok(bytes) => match serde_json::from_slice::<Entry>(&bytes) {
                Ok(entry) if entry.request == request => Cached::Reply(Box::new(entry.reply)),
                _ => Cached::Damaged,
            },
        }
    }

    pub(super) fn write(&self, request: &str, reply: &ChatReply) -> Result<()> {
        let entry = Entry { request: request.to_owned(), reply: reply.clone() };
        let bytes = serde_json::to_vec(&entry).map_err(|error| Error::Failed(error.to_string()))?;
        atomic::write(&self.path(request), &bytes)
    }

    /// Two levels, since a folder of a million files is slow in most file systems.
    fn path(&self, request: &str) -> PathBuf {
        self.folder.join(&request[..2]).join(format!("{request}.json"))
    }
}

/// What names a request: SHA-256 of the endpoint and the body, which holds model, messages and sampling.
pub(super) fn name(address: &Address, body: &[u8]) -> String {
    let mut content = address.chat_completions().into_bytes();
    content.push(b'\n');
    content.extend_from_slice(body);
    digest::of_bytes(&content)
}
