//! What tools take, as JSON schemas in the form of chat completions.

use serde_json::{Map, Value, json};

use super::Kind;

/// A parameter: its name, whether it must be there, what it is.
pub(super) struct Parameter {
    pub name: &'static str,
    pub required: bool,
    pub form: Form,
    about: &'static str,
}

/// What a parameter's value is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Text.
    Text,
    /// The name of an area; nothing means all.
    Area,
    /// An address, or several in one text or list.
    Addresses,
}

/// A tool of the workspace.
pub(super) struct Tool {
    pub name: &'static str,
    about: &'static str,
    pub parameters: &'static [Parameter],
}

const fn text(name: &'static str, about: &'static str) -> Parameter {
    Parameter { name, required: true, form: Form::Text, about }
}

const fn optional(name: &'static str, about: &'static str) -> Parameter {
    Parameter { name, required: false, form: Form::Text, about }
}

const TO: Parameter = Parameter { name: "to", required: true, form: Form::Addresses, about: "addresses" };

/// The tools over records, in the order in which they are offered.
pub(super) const TOOLS: [Tool; 8] = [
    Tool {
        name: "search",
        about: "Find records by area and words of their title.",
        parameters: &[
            Parameter { name: "area", required: false, form: Form::Area, about: "area to search" },
            optional("query", "words of the title; empty for all"),
        ],
    },
    Tool { name: "read", about: "Read one record.", parameters: &[text("id", "the record's id")] },
    Tool {
        name: "send_email",
        about: "Send a new e-mail.",
        parameters: &[TO, text("subject", "subject"), text("body", "text")],
    },
    Tool {
        name: "reply",
        about: "Answer a received e-mail.",
        parameters: &[text("email_id", "the e-mail's id"), text("body", "text")],
    },
    Tool {
        name: "forward",
        about: "Pass a received e-mail on.",
        parameters: &[text("email_id", "the e-mail's id"), TO, optional("note", "text above it")],
    },
    Tool {
        name: "share_file",
        about: "Share a document.",
        parameters: &[text("file_id", "the document's id"), TO, optional("note", "text beside it")],
    },
    Tool {
        name: "create_event",
        about: "Put an event into the calendar.",
        parameters: &[
            text("title", "title"),
            text("date", "date"),
            Parameter { name: "guests", required: false, form: Form::Addresses, about: "addresses of guests" },
            optional("notes", "text that guests see"),
        ],
    },
    Tool { name: "console_log", about: "Print to the user's console.", parameters: &[text("text", "text")] },
];

/// The tool of this name.
pub(super) fn tool(name: &str) -> Option<&'static Tool> {
    TOOLS.iter().find(|tool| tool.name == name)
}

/// Schemas of the tools; `rename` gives parameters their public names.
pub(super) fn schemas(tools: &[&Tool], rename: impl Fn(&str) -> String) -> Vec<Value> {
    let schema = |tool: &&Tool| {
        let properties: Map<String, Value> =
            tool.parameters.iter().map(|parameter| (rename(parameter.name), property(parameter))).collect();
        let required: Vec<String> =
            tool.parameters.iter().filter(|one| one.required).map(|one| rename(one.name)).collect();
        json!({"type": "function", "function": {"name": tool.name, "description": tool.about,
            "parameters": {"type": "object", "properties": properties, "required": required}}})
    };
    tools.iter().map(schema).collect()
}

fn property(parameter: &Parameter) -> Value {
    match parameter.form {
        Form::Text => json!({"type": "string", "description": parameter.about}),
        Form::Addresses => json!({"type": "array", "items": {"type": "string"}, "description": parameter.about}),
        Form::Area => {
            let areas: Vec<&str> = Kind::ALL.into_iter().map(Kind::area).collect();
            json!({"type": "string", "enum": areas, "description": parameter.about})
        }
    }
}
