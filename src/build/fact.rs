//! The values of the essential tools' results as an answer names them.
//!
//! In: a trace. Out: [`Fact`]s in document order, each with its record (the object it stands in) and a label in plain words.

use crate::trace::{LeafKind, Trace, leaves};

use super::label;

/// One value and how to call it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fact {
    /// JSON pointer led by the tool's id.
    pub pointer: String,
    /// The tool.
    pub tool_id: String,
    /// Pointer of the object it stands in: facts of one record are told together.
    pub record: String,
    /// What one record of its list is called, in lower case.
    pub heading: Option<String>,
    /// What the value is called, in lower case; one of a list is called by the singular.
    pub label: String,
    /// The value.
    pub text: String,
}

/// Headings that say what holds a record and not what it is.
const CONTAINERS: [&str; 16] = [
    "list", "item", "entry", "record", "result", "data", "row", "queue", "object", "element", "detail", "info",
    "filled", "viewed", "active", "update",
];

/// Labels that name the record which they stand in.
const NAMES: [&str; 4] = ["name", "title", "item", "label"];

/// Labels that are the very thing which the heading announces.
const CONTENTS: [(&str, &[&str]); 10] = [
    ("subject", &["email", "mail", "draft", "thread"]),
    ("summary", &["event", "meeting", "appointment", "ticket"]),
    ("text", &["query", "search", "message", "note", "post", "comment"]),
    ("query", &["search"]),
    ("merchant", &["transaction", "charge", "purchase", "payment"]),
    ("vendor", &["invoice", "bill", "receipt"]),
    ("event", &["log", "alert"]),
    ("service", &["booking", "appointment", "subscription"]),
    ("task", &["task", "todo"]),
    ("product", &["product", "order", "purchase"]),
];

impl Fact {
    /// What the value is called where its record is not named before: `transaction amount`, and `event` for the title of one.
    pub fn name(&self) -> String {
        let Some(heading) = self.heading.as_deref() else { return self.label.clone() };
        let is_container = CONTAINERS.contains(&heading);
        let names_it = NAMES.contains(&self.label.as_str()) && heading != "entry";
        let is_content = CONTENTS.iter().any(|(label, headings)| *label == self.label && headings.contains(&heading));
        if self.label.starts_with(heading) || heading.ends_with(&self.label) {
            self.label.clone()
        } else if is_content || names_it && (!is_container || heading == "item") {
            heading.to_owned()
        } else if is_container {
            self.label.clone()
        } else {
            format!("{heading} {}", self.label)
        }
    }
}

/// The facts of the essential tools. Constants (`true`, `null`) and blanks are left out: they name nothing.
pub(super) fn facts(trace: &Trace) -> Vec<Fact> {
    let mut facts = Vec::new();
    for tool in trace.essential_tools() {
        for leaf in leaves(&tool.return_text) {
            if leaf.kind == LeafKind::Constant || leaf.text.trim().is_empty() {
                continue;
            }
            facts.push(fact(&tool.tool_id, &leaf.pointer, leaf.text.trim()));
        }
    }
    facts
}

/// A required value that no pointer places.
pub(super) fn unplaced(value: &str) -> Fact {
    fact("", "/detail", value)
}

/// A value at a pointer within a tool's result.
pub(super) fn fact(tool_id: &str, pointer: &str, text: &str) -> Fact {
    let steps: Vec<String> =
        pointer.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~")).collect();
    let is_index = |step: &String| !step.is_empty() && step.bytes().all(|byte| byte.is_ascii_digit());
    // A list of objects makes a record of each; a list of plain values belongs to the object around it.
    let last_record =
        (0..steps.len().saturating_sub(1)).rev().find(|&at| is_index(&steps[at]) && !is_index(&steps[at + 1]));
    let start = last_record.map_or(0, |at| at + 1);
    let heading = last_record
        .and_then(|at| steps[..at].iter().rev().find(|step| !is_index(step)))
        .map(|step| label::singular(&label::words(step)));
    let keys: Vec<String> =
        steps[start..].iter().filter(|step| !is_index(step)).map(|step| label::words(step)).collect();
    let in_list = steps.last().is_some_and(is_index);
    let label = if keys.is_empty() { "result".to_owned() } else { keys.join(" ") };
    Fact {
        pointer: format!("/{tool_id}{pointer}"),
        tool_id: tool_id.to_owned(),
        record: format!("/{tool_id}/{}", steps[..start].join("/")),
        heading,
        label: if in_list { label::singular(&label) } else { label },
        text: text.to_owned(),
    }
}
