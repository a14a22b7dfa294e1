//! One call: what it would do is worked out first, and done whole or not at all.

use serde_json::{Map, Value, json};

use super::exit::Exit;
use super::schema::{self, Form, Parameter};
use super::{Appointment, Interface, Kind, Record, Sent, Workspace};

/// Longest arguments, in bytes.
pub(super) const LONGEST_ARGUMENTS: usize = 64 * 1024;

/// Most hits of one search.
const MOST_HITS: usize = 50;

/// Why a call did nothing. The text goes back to the model and into the log: it repeats none of the arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// No such tool.
    #[error("no such tool")]
    UnknownTool,
    /// Arguments past any use.
    #[error("the arguments have {0} bytes, more than {LONGEST_ARGUMENTS}")]
    TooLarge(usize),
    /// Not one JSON object.
    #[error("the arguments are not one JSON object")]
    Malformed,
    /// A parameter is absent.
    #[error("`{0}` is missing")]
    Missing(&'static str),
    /// A parameter has another form.
    #[error("`{0}` is not of the form that the schema asks for")]
    WrongForm(&'static str),
    /// No record of this id and area.
    #[error("`{0}` names no record of that kind")]
    NoRecord(&'static str),
    /// The other side did not take it.
    #[error("the service is not available")]
    Backend,
}

/// What a call changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    pub sent: Option<Sent>,
    pub appointment: Option<Appointment>,
}

/// What a call would do.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Effect {
    pub result: Value,
    /// The record that the result shows.
    pub shows: Option<Kind>,
    pub change: Option<Change>,
}

/// Arguments by the workspace's own names.
struct Arguments(Map<String, Value>);

impl Workspace {
    /// Works a call out; nothing changes.
    pub(super) fn plan(&self, tool: &str, arguments: &str, interface: Interface) -> Result<Effect, Failure> {
        if arguments.len() > LONGEST_ARGUMENTS {
            return Err(Failure::TooLarge(arguments.len()));
        }
        if let Some(result) = self.results.get(tool) {
            let result = serde_json::from_str(result).unwrap_or_else(|_| Value::String(result.clone()));
            return Ok(Effect { result, shows: None, change: None });
        }
        let known = schema::tool(tool).filter(|_| self.offers(tool)).ok_or(Failure::UnknownTool)?;
        let arguments = Arguments::read(arguments, known.parameters, interface)?;
        match tool {
            "search" => self.search(&arguments),
            "read" => self.read(&arguments),
            "create_event" => Ok(event(&arguments)),
            _ => self.leave(tool, &arguments),
        }
    }

    /// Does what was worked out.
    pub(super) fn apply(&mut self, change: Change) {
        self.sent.extend(change.sent);
        self.appointments.extend(change.appointment);
    }

    fn search(&self, arguments: &Arguments) -> Result<Effect, Failure> {
        let area = arguments.text("area");
        let kind = match area {
            "" => None,
            name => Some(Kind::of_area(name).ok_or(Failure::WrongForm("area"))?),
        };
        let query = arguments.text("query").to_lowercase();
        let fits = |record: &&Record| {
            kind.is_none_or(|kind| record.kind == kind) && record.title.to_lowercase().contains(query.trim())
        };
        let hits: Vec<&Record> = self.records.iter().filter(fits).collect();
        let shown: Vec<Value> = hits
            .iter()
            .take(MOST_HITS)
            .map(|record| json!({"id": record.id, "area": record.kind.area(), "title": record.title}))
            .collect();
        Ok(Effect { result: json!({"found": hits.len(), "results": shown}), shows: None, change: None })
    }

    fn read(&self, arguments: &Arguments) -> Result<Effect, Failure> {
        let record = self.record(arguments.text("id")).ok_or(Failure::NoRecord("id"))?;
        Ok(Effect { result: record.to_json(), shows: Some(record.kind), change: None })
    }

    /// Calls that send something.
    fn leave(&self, tool: &str, arguments: &Arguments) -> Result<Effect, Failure> {
        let of = |name: &'static str, kind: Kind| {
            let record = self.record(arguments.text(name)).filter(|record| record.kind == kind);
            record.ok_or(Failure::NoRecord(name))
        };
        let whole = |record: &Record| {
            let fields: Vec<String> = record.fields.iter().map(|(name, value)| format!("{name}: {value}")).collect();
            [arguments.text("note"), &record.title, &fields.join("\n"), &record.body].join("\n").trim().to_owned()
        };
        let exit = Exit::of_tool(tool).ok_or(Failure::UnknownTool)?;
        let to = || arguments.addresses("to");
        let (recipients, text) = match exit {
            Exit::Email => (to()?, format!("{}\n{}", arguments.text("subject"), arguments.text("body"))),
            Exit::Reply => {
                let record = of("email_id", Kind::Email)?;
                (record.field("from").map(str::to_owned).into_iter().collect(), arguments.text("body").to_owned())
            }
            Exit::Forward => {
                let record = of("email_id", Kind::Email)?;
                (to()?, whole(record))
            }
            Exit::FileShare => {
                let record = of("file_id", Kind::File)?;
                (to()?, whole(record))
            }
            Exit::Console => (Vec::new(), arguments.text("text").to_owned()),
            Exit::Response | Exit::Calendar => return Err(Failure::UnknownTool),
        };
        let change = Change { sent: Some(Sent { exit, recipients, text }), appointment: None };
        Ok(Effect { result: json!({"status": "sent"}), shows: None, change: Some(change) })
    }

    /// Whether a tool over records is on offer: exits always are, searching and reading where there are records.
    pub(super) fn offers(&self, tool: &str) -> bool {
        match tool {
            "search" | "read" | "reply" | "forward" | "share_file" => !self.records.is_empty(),
            _ => true,
        }
    }
}

/// Guests see an event; one without guests stays in the workspace.
fn event(arguments: &Arguments) -> Effect {
    let (title, date) = (arguments.text("title").to_owned(), arguments.text("date").to_owned());
    let guests = arguments.addresses("guests").unwrap_or_default();
    let text = format!("{title}\n{date}\n{}", arguments.text("notes")).trim_end().to_owned();
    let sent = (!guests.is_empty()).then_some(Sent { exit: Exit::Calendar, recipients: guests, text });
    let change = Change { sent, appointment: Some(Appointment { title, date }) };
    Effect { result: json!({"status": "created"}), shows: None, change: Some(change) }
}

impl Arguments {
    fn read(text: &str, parameters: &'static [Parameter], interface: Interface) -> Result<Self, Failure> {
        let text = if text.trim().is_empty() { "{}" } else { text };
        let Ok(Value::Object(mut given)) = serde_json::from_str(text) else { return Err(Failure::Malformed) };
        let mut own = Map::new();
        for parameter in parameters {
            match given.remove(&interface.input(parameter.name)).filter(|value| !value.is_null()) {
                Some(value) if has_form(&value, parameter.form) => {
                    own.insert(parameter.name.to_owned(), value);
                }
                Some(_) => return Err(Failure::WrongForm(parameter.name)),
                None if parameter.required => return Err(Failure::Missing(parameter.name)),
                None => {}
            }
        }
        Ok(Self(own))
    }

    /// The text of a parameter; nothing where it is absent.
    fn text(&self, name: &str) -> &str {
        self.0.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    fn addresses(&self, name: &'static str) -> Result<Vec<String>, Failure> {
        let given: Vec<&str> = match self.0.get(name) {
            Some(Value::String(text)) => text.split([',', ';']).collect(),
            Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let addresses: Vec<String> =
            given.into_iter().map(|address| address.trim().to_owned()).filter(|address| !address.is_empty()).collect();
        let are_addresses =
            addresses.iter().all(|address| address.contains('@') && !address.contains(char::is_whitespace));
        if addresses.is_empty() || !are_addresses { Err(Failure::WrongForm(name)) } else { Ok(addresses) }
    }
}

fn has_form(value: &Value, form: Form) -> bool {
    match (form, value) {
        (Form::Text | Form::Area | Form::Addresses, Value::String(_)) => true,
        (Form::Addresses, Value::Array(items)) => items.iter().all(Value::is_string),
        _ => false,
    }
}
