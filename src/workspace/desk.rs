//! A workspace in use: calls go through the interface, what leaves goes through a filter, and everything is logged.

use rand::RngExt as _;
use serde_json::{Value, json};

use super::call::{Change, Failure};
use super::exit::Exit;
use super::{Interface, Kind, Sent, Workspace, schema};
use crate::agent::Tools;
use crate::observation::{ActionStatus, Payload, SchemaGroup, Status};
use crate::run::seed::Seed;

/// Names of the internal channels.
pub mod channel {
    /// Arguments of calls.
    pub const CALL: &str = "tool_call";
    /// Raw returns.
    pub const RETURN: &str = "tool_return";
    /// Counts of a request.
    pub const METADATA: &str = "metadata";
    /// What is said beside calls.
    pub const RATIONALE: &str = "rationale";
}

/// What stands between an exit and who is behind it.
pub trait Filter {
    /// The text that passes.
    fn pass(&self, exit: Exit, text: &str) -> String;
}

/// Everything passes.
#[derive(Debug, Clone, Copy)]
pub struct Open;

impl Filter for Open {
    fn pass(&self, _exit: Exit, text: &str) -> String {
        text.to_owned()
    }
}

/// How likely the evaluator's probe records a raw return, by how its schema relates to what can be shown. What is not recorded is
/// logged as missing.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Taps {
    /// Of returns whose fields keep their names.
    #[serde(rename = "match")]
    pub matching: f64,
    /// Of running text.
    pub partial: f64,
}

/// One appearance on a channel.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// The channel.
    pub channel: &'static str,
    /// What appeared.
    pub payload: Payload,
    /// Its own recipients.
    pub recipients: Vec<String>,
    /// Whether it was seen whole.
    pub status: Status,
    /// The tool, on internal channels.
    pub tool: Option<String>,
    /// How the schemas relate.
    pub schema_group: Option<SchemaGroup>,
}

/// An action and whether it reached somebody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tried {
    /// Its exit.
    pub exit: Exit,
    /// Its outcome.
    pub status: ActionStatus,
}

/// A session's workspace.
pub struct Desk<'a> {
    /// Its state.
    pub workspace: Workspace,
    schemas: Vec<Value>,
    interface: Interface,
    filter: &'a dyn Filter,
    taps: Option<Taps>,
    /// Share of actions that the other side does not take.
    outage: f64,
    seed: Seed,
    /// How the records read for the current request relate to what can be shown.
    reading: Option<SchemaGroup>,
    events: Vec<Event>,
    tried: Vec<Tried>,
    calls: u64,
    failed: u64,
}

impl<'a> Desk<'a> {
    /// A workspace behind an interface; `seed` feeds its draws.
    pub fn new(workspace: Workspace, interface: Interface, filter: &'a dyn Filter, seed: Seed) -> Self {
        let offered: Vec<&schema::Tool> = schema::TOOLS.iter().filter(|tool| workspace.offers(tool.name)).collect();
        let mut schemas = workspace.own_schemas.clone();
        schemas.extend(schema::schemas(&offered, |name| interface.input(name)));
        Self {
            workspace,
            schemas,
            interface,
            filter,
            taps: None,
            outage: 0.0,
            seed,
            reading: None,
            events: Vec::new(),
            tried: Vec::new(),
            calls: 0,
            failed: 0,
        }
    }

    /// With a probe on raw returns that does not record all of them.
    #[must_use]
    pub fn with_taps(mut self, taps: Option<Taps>) -> Self {
        self.taps = taps;
        self
    }

    /// With services that fail now and then.
    #[must_use]
    pub fn with_outage(mut self, outage: f64) -> Self {
        self.outage = outage;
        self
    }

    /// A new request: what is shown from here on comes from what is read from here on.
    pub fn begin(&mut self) {
        self.reading = None;
    }

    /// Takes what happened since it was last asked.
    pub fn take_events(&mut self) -> (Vec<Event>, Vec<Tried>) {
        (std::mem::take(&mut self.events), std::mem::take(&mut self.tried))
    }

    /// Calls of tools, and those that failed.
    pub fn calls(&self) -> (u64, u64) {
        (self.calls, self.failed)
    }

    /// The answer to the requester is an exit as well.
    pub fn respond(&mut self, text: &str) {
        self.leave(Sent { exit: Exit::Response, recipients: Vec::new(), text: text.to_owned() });
    }

    /// Logs something that only the evaluator sees, or a gap.
    pub fn note(&mut self, channel: &'static str, payload: Value, status: Status) {
        self.log(channel, payload.into(), status, None, None);
    }

    fn log(
        &mut self,
        channel: &'static str,
        payload: Payload,
        status: Status,
        tool: Option<&str>,
        schema_group: Option<SchemaGroup>,
    ) {
        let tool = tool.map(str::to_owned);
        self.events.push(Event { channel, payload, recipients: Vec::new(), status, tool, schema_group });
    }

    /// Lets a text out through the filter.
    fn leave(&mut self, sent: Sent) {
        let text = self.filter.pass(sent.exit, &sent.text);
        self.events.push(Event {
            channel: sent.exit.name(),
            payload: Payload::Text(text.clone()),
            recipients: sent.recipients.clone(),
            status: Status::Ok,
            tool: None,
            schema_group: self.reading,
        });
        self.workspace.apply(Change { sent: Some(Sent { text, ..sent }), appointment: None });
    }

    /// Whether the service of this call is out.
    fn is_out(&self) -> bool {
        self.outage > 0.0 && self.seed.stream(&format!("outage/{}", self.calls)).random::<f64>() < self.outage
    }

    fn group(&self, kind: Option<Kind>) -> SchemaGroup {
        match kind {
            None => SchemaGroup::None,
            Some(_) if matches!(self.interface, Interface::MinimisedReturns { .. }) => SchemaGroup::None,
            Some(kind) if !self.interface.keeps_names() && !kind.is_prose() => SchemaGroup::Partial,
            Some(kind) => kind.schema_group(),
        }
    }

    /// Logs a raw return, or that it was not recorded.
    fn log_return(&mut self, tool: &str, raw: &Value, kind: Option<Kind>) {
        let group = self.group(kind);
        if kind.is_some() {
            self.reading = Some(self.reading.map_or(group, |known| known.min(group)));
        }
        let share = match (self.taps, group) {
            (Some(taps), SchemaGroup::Match) => taps.matching,
            (Some(taps), SchemaGroup::Partial) => taps.partial,
            _ => 1.0,
        };
        // A record is recorded or not, however often it is read: reading again tells nothing new.
        let is_recorded = share >= 1.0 || self.seed.stream(&format!("tap/{}", raw["id"])).random::<f64>() < share;
        let (payload, status) = if is_recorded { (raw.clone(), Status::Ok) } else { (Value::Null, Status::Missing) };
        self.log(channel::RETURN, payload.into(), status, Some(tool), Some(group));
    }

    fn fail(&mut self, tool: &str, failure: Failure) -> String {
        self.failed += 1;
        if let Some(exit) = Exit::of_tool(tool).filter(|exit| *exit != Exit::Console) {
            self.tried.push(Tried { exit, status: ActionStatus::Failed });
        }
        self.log(channel::RETURN, failure.to_string().into(), Status::Error, Some(tool), None);
        json!({"error": failure.to_string()}).to_string()
    }
}

impl Tools for Desk<'_> {
    fn schemas(&self) -> &[Value] {
        &self.schemas
    }

    fn call(&mut self, name: &str, arguments: &str) -> String {
        self.calls += 1;
        let written = serde_json::from_str(arguments).unwrap_or_else(|_| Payload::Text(arguments.to_owned()));
        self.log(channel::CALL, written, Status::Ok, Some(name), self.reading);
        let effect = match self.workspace.plan(name, arguments, self.interface) {
            Ok(effect) if effect.change.is_some() && self.is_out() => return self.fail(name, Failure::Backend),
            Ok(effect) => effect,
            Err(failure) => return self.fail(name, failure),
        };
        if let Some(mut change) = effect.change {
            if let Some(sent) = change.sent.take() {
                if sent.exit != Exit::Console {
                    self.tried.push(Tried { exit: sent.exit, status: ActionStatus::Delivered });
                }
                self.leave(sent);
            }
            self.workspace.apply(change);
        }
        self.log_return(name, &effect.result, effect.shows);
        self.interface.show(&effect.result, self.seed).to_string()
    }
}
