//! What sets the work of two shards apart.
//!
//! In: a command with its settings and digests of its inputs. Out: [`Task`], and how two of them differ.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{Error, Fault, Result};
use crate::run::json::describe;

/// What work shards are parts of: two shards fit together if theirs is equal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// The command.
    pub command: String,
    /// Version of the program.
    pub version: String,
    /// What it was asked to do.
    pub settings: Value,
    /// Digests of what it read, by role.
    pub inputs: BTreeMap<String, String>,
}

impl Task {
    /// A command with its settings, by this version of the program.
    ///
    /// # Errors
    /// [`Error::Failed`] if the settings have no JSON form.
    pub fn new(command: &str, settings: &impl Serialize, inputs: BTreeMap<String, String>) -> Result<Self> {
        let settings = serde_json::to_value(settings).map_err(|error| Error::Failed(error.to_string()))?;
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Ok(Self { command: command.to_owned(), version, settings, inputs })
    }

    /// The settings as their command wrote them.
    ///
    /// # Errors
    /// A [`Fault`] if they are of another form.
    pub fn settings<T: DeserializeOwned>(&self) -> Result<T> {
        T::deserialize(&self.settings)
            .map_err(|error| Fault::new(format!("the shards' settings cannot be read: {}", describe(&error))).into())
    }

    /// What sets another task apart, in words that hold no value but numbers, names and digests; `None` if nothing does.
    pub(super) fn difference(&self, other: &Self) -> Option<Fault> {
        let foreign = |what: &str, got: &str, expected: &str| {
            let fault = Fault::new(format!("not a shard of the same work: {what}")).got(got);
            Some(fault.expected(format!("`{expected}`")))
        };
        if self.command != other.command {
            return foreign("it is of another command", &other.command, &self.command);
        }
        if self.version != other.version {
            return foreign("it was made by another version of the program", &other.version, &self.version);
        }
        if let (Value::Object(own), Value::Object(others)) = (&self.settings, &other.settings) {
            let differs = |key: &&String| own.get(*key) != others.get(*key);
            if let Some(key) = own.keys().chain(others.keys()).find(differs) {
                return foreign(
                    &format!("it was made with another setting `{key}`"),
                    &brief(others.get(key)),
                    &brief(own.get(key)),
                );
            }
        }
        let mut roles = self.inputs.keys().chain(other.inputs.keys());
        let role = roles.find(|role| self.inputs.get(*role) != other.inputs.get(*role))?;
        let digest = |task: &Self| task.inputs.get(role).cloned().unwrap_or_else(|| "none".to_owned());
        foreign(&format!("it was made from other inputs, `{role}`"), &digest(other), &digest(self))
    }
}

/// A setting as errors may tell it: a list or a table may hold what must not be told.
fn brief(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => "none".to_owned(),
        Some(Value::Array(_) | Value::Object(_)) => "another value".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    }
}
