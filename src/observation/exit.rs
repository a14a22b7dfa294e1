//! Which calls of an outside agent were exits: a finished run joined to a contract whose exits its own log does not name.
//!
//! In: a table from tool to channel, and a session's observations. Out: the same with one observation on the exit's channel for each
//! such call, its recipients taken from the arguments, and the action's outcome. A call whose result is an error delivered nothing:
//! it leaves an action that failed and no observation.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::{Action, ActionStatus, Observation, Status};
use crate::error::{Error, Fault, Result};

/// The exit behind one tool.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolExit {
    /// The channel that the contract declares for it.
    pub channel: String,
    /// Arguments that hold addresses.
    #[serde(default)]
    pub recipients: Vec<String>,
}

/// Exits by the name of their tool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Exits(BTreeMap<String, ToolExit>);

impl Exits {
    /// Reads a TOML file with a table a tool: `channel`, and `recipients`, the arguments that hold addresses.
    ///
    /// # Errors
    /// [`Error::Read`], or a [`Fault`] that says what is wrong.
    pub fn load(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|source| Error::read(path, source))?;
        Self::parse(&text, &path.display().to_string())
    }

    /// [`Exits::load`] of a text; `place` stands for the file.
    ///
    /// # Errors
    /// A [`Fault`] that says what is wrong.
    pub fn parse(text: &str, place: &str) -> Result<Self> {
        toml::from_str(text).map_err(|error| {
            Fault::new(format!("not a table of exits: {}", error.message()))
                .at(place)
                .expected("a table a tool, e.g. `[send_email]` with `channel` and `recipients`")
                .into()
        })
    }

    /// Adds what left through exits; positions are counted anew, so that an exit stands right after its call.
    pub fn join(&self, observations: Vec<Observation>) -> (Vec<Observation>, Vec<Action>) {
        if self.0.is_empty() {
            return (observations, Vec::new());
        }
        let (mut joined, mut actions) = (Vec::new(), Vec::new());
        for (place, observation) in observations.iter().enumerate() {
            joined.push(observation.clone());
            let exit = observation.tool.as_ref().and_then(|tool| self.0.get(tool));
            let Some(exit) = exit.filter(|_| observation.channel == "tool_call") else { continue };
            let outcome = outcome(observation, &observations[place + 1..]);
            if outcome == ActionStatus::Delivered {
                joined.push(exit.observation(observation));
            }
            actions.push(Action {
                session_id: observation.session_id.clone(),
                request: observation.request,
                channel: exit.channel.clone(),
                status: outcome,
            });
        }
        let mut positions: BTreeMap<String, u64> = BTreeMap::new();
        for observation in &mut joined {
            let position = positions.entry(observation.session_id.clone()).or_default();
            observation.index = Some(*position);
            *position += 1;
        }
        (joined, actions)
    }
}

/// Whether the call's own result, or the next one of its tool, is an error. A run that ends without one delivered what it sent: what
/// left cannot be shown to be safe.
fn outcome(call: &Observation, later: &[Observation]) -> ActionStatus {
    let id = call.event_id.as_ref().map(|id| format!("{id}/return"));
    let of_session =
        || later.iter().filter(|other| other.session_id == call.session_id && other.channel == "tool_return");
    let result = match &id {
        Some(id) => of_session().find(|other| other.event_id.as_ref() == Some(id)),
        None => of_session().find(|other| other.tool == call.tool),
    };
    match result {
        Some(result) if result.status == Status::Error => ActionStatus::Failed,
        _ => ActionStatus::Delivered,
    }
}

impl ToolExit {
    fn observation(&self, call: &Observation) -> Observation {
        let arguments: Value = serde_json::from_str(call.payload.text()).unwrap_or(Value::Null);
        let addresses = self.recipients.iter().filter_map(|name| arguments.get(name)).flat_map(|value| match value {
            Value::Array(items) => items.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            Value::String(text) => vec![text.clone()],
            _ => Vec::new(),
        });
        Observation {
            channel: self.channel.clone(),
            recipients: addresses.filter(|address| !address.trim().is_empty()).collect(),
            tool: None,
            event_id: call.event_id.as_ref().map(|id| format!("{id}/exit")),
            ..call.clone()
        }
    }
}
