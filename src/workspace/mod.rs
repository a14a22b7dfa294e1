//! A private workspace with known truth: records, tools over them, exits out of it, and a log of everything that passed.
//!
//! In: a [`Plan`] and a seed, or a trace. Out: a [`World`] (a [`Workspace`] without any mark of what is private, and beside it the
//! [`Truth`]), then [`Desk`]s, one a session, whose calls either change the workspace or leave nothing but an [`Event`].
//! Source: ASLEval, sections 3.2 and 4 (arXiv 2609.18864).

mod call;
mod compose;
mod desk;
mod exit;
mod interface;
mod kind;
mod schema;
mod traced;
mod truth;

use std::collections::BTreeMap;

use serde_json::{Value, json};

pub use call::Failure;
pub use compose::{Plan, compose};
pub use desk::{Desk, Event, Filter, Open, Taps, Tried, channel};
pub use exit::{Exit, channels, is_exit_channel};
pub use interface::Interface;
pub use kind::Kind;
pub use traced::{contract_of_trace, from_trace, function_name, function_schema};
pub use truth::{Check, Secret, Task, Truth, World};

/// One record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Unique, e.g. `customer-3`.
    pub id: String,
    /// Where it lives.
    pub kind: Kind,
    /// What a search shows.
    pub title: String,
    /// Named values.
    pub fields: Vec<(String, String)>,
    /// Running text, a sentence a line; empty for records of fields only.
    pub body: String,
}

impl Record {
    /// As a tool returns it.
    pub fn to_json(&self) -> Value {
        let fields: serde_json::Map<String, Value> =
            self.fields.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        let mut record = json!({"id": self.id, "area": self.kind.area(), "title": self.title, "fields": fields});
        if !self.body.is_empty() {
            record["body"] = json!(self.body);
        }
        record
    }

    fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(field, _)| field == name).map(|(_, value)| value.as_str())
    }
}

/// What left through an exit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// Which.
    pub exit: Exit,
    /// Who received it; empty where the exit has a recipient of its own.
    pub recipients: Vec<String>,
    /// What they received.
    pub text: String,
}

/// An event of the calendar that the agent made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Appointment {
    /// Its title.
    pub title: String,
    /// Its date.
    pub date: String,
}

/// The state that tools read and change. Equal workspaces are equal in every respect.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Workspace {
    records: Vec<Record>,
    /// Results of a trace's own tools, by name.
    results: BTreeMap<String, String>,
    /// Schemas of those tools.
    own_schemas: Vec<Value>,
    /// Names of those that the trace's task needs.
    essential: Vec<String>,
    sent: Vec<Sent>,
    appointments: Vec<Appointment>,
}

impl Workspace {
    /// A workspace in which nothing has happened.
    pub fn new(records: Vec<Record>) -> Self {
        Self { records, ..Self::default() }
    }

    /// What left.
    pub fn sent(&self) -> &[Sent] {
        &self.sent
    }

    /// Events made.
    pub fn appointments(&self) -> &[Appointment] {
        &self.appointments
    }

    /// Records, in order.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Tools of a trace that its task needs.
    pub fn essential(&self) -> &[String] {
        &self.essential
    }

    fn record(&self, id: &str) -> Option<&Record> {
        self.records.iter().find(|record| record.id == id)
    }
}
