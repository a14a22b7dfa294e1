//! Interventions on the tool interface: names of inputs, names of outputs, and how much of a return the model sees.
//!
//! The workspace and its raw returns stay as they are. Source: ASLEval, section 3.3, "C3: path displacement".

use rand::RngExt as _;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::run::seed::Seed;

/// What is changed between a tool and the model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum Interface {
    /// Nothing.
    #[default]
    Plain,
    /// Parameters have other names.
    RenamedInputs,
    /// Fields of returns have other names.
    RenamedOutputs,
    /// Fields and sentences of returns are left out, each kept with probability `keep`.
    MinimisedReturns {
        /// Share that stays.
        keep: f64,
    },
}

/// Other names of parameters.
const INPUTS: [(&str, &str); 13] = [
    ("area", "section"),
    ("query", "words"),
    ("id", "handle"),
    ("to", "addressees"),
    ("subject", "heading"),
    ("body", "content"),
    ("email_id", "mail_handle"),
    ("file_id", "document_handle"),
    ("note", "remark"),
    ("title", "label"),
    ("date", "day"),
    ("guests", "attendees"),
    ("notes", "remarks"),
];

impl Interface {
    /// The public name of a parameter.
    pub(super) fn input(self, name: &str) -> String {
        match self {
            Self::RenamedInputs => {
                INPUTS.iter().find(|(own, _)| *own == name).map_or(name, |(_, other)| *other).to_owned()
            }
            _ => name.to_owned(),
        }
    }

    /// Whether fields keep the names that the workspace has for them.
    pub(super) fn keeps_names(self) -> bool {
        self != Self::RenamedOutputs
    }

    /// What the model sees of a raw return; draws depend on the session's seed and the value alone.
    pub(super) fn show(self, raw: &Value, seed: Seed) -> Value {
        match self {
            Self::Plain | Self::RenamedInputs => raw.clone(),
            Self::RenamedOutputs => renamed(raw),
            Self::MinimisedReturns { keep } => {
                minimised(raw, |piece| seed.stream(&format!("keep/{piece}")).random::<f64>() < keep)
            }
        }
    }
}

/// `phone` becomes `phone_entry`.
fn renamed(raw: &Value) -> Value {
    let mut shown = raw.clone();
    if let Some(fields) = raw.get("fields").and_then(Value::as_object) {
        let other: Map<String, Value> =
            fields.iter().map(|(name, value)| (format!("{name}_entry"), value.clone())).collect();
        shown["fields"] = Value::Object(other);
    }
    shown
}

fn minimised(raw: &Value, keeps: impl Fn(&str) -> bool) -> Value {
    let Some(fields) = raw.get("fields").and_then(Value::as_object) else { return raw.clone() };
    let kept: Map<String, Value> = fields
        .iter()
        .filter(|(_, value)| keeps(value.as_str().unwrap_or_default()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let mut omitted = fields.len() - kept.len();
    let mut shown = raw.clone();
    shown["fields"] = Value::Object(kept);
    if let Some(body) = raw.get("body").and_then(Value::as_str) {
        let lines: Vec<&str> = body.lines().filter(|line| keeps(line)).collect();
        omitted += body.lines().count() - lines.len();
        shown["body"] = json!(lines.join("\n"));
    }
    if omitted > 0 {
        shown["omitted"] = json!(omitted);
    }
    shown
}
