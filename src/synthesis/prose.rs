//! A composed scenario written out as a canonical trace: request, criteria, boundary, chain, declared truth.

use serde_json::{Map, Value, json};

use crate::trace::{Located, Source, Tool, Trace, Truth, Variant};

use super::Wording;
use super::compose::{Entry, Placed, Scenario};
use super::library::{Library, Speaker};

impl Scenario<'_> {
    /// The trace; `row` is its place in the file.
    pub fn into_trace(self, library: &Library, trace_id: String, row: usize, libraries: &str) -> Trace {
        let asks: Vec<&str> =
            self.tools.iter().flat_map(|tool| tool.asked.iter().map(|asked| asked.ask.as_str())).collect();
        let items = listed(&asks);
        let asked = match self.wording {
            Wording::Prose => items.clone(),
            Wording::Form => numbered(&asks),
        };
        let support = self.support();
        let located = |pointers: &dyn Fn(&Placed<'_>) -> Vec<String>| -> Vec<Located> {
            let placed = self.tools.iter().enumerate();
            placed
                .flat_map(|(index, tool)| {
                    pointers(tool).into_iter().map(move |pointer| Located { tool_id: tool_id(index), pointer })
                })
                .collect()
        };
        let truth = Truth {
            labels: self.norm.labels.clone(),
            required: located(&|tool| tool.asked.iter().map(|asked| asked.pointer.clone()).collect()),
            clues: located(&|tool| tool.clue.iter().cloned().collect()),
        };
        let goal = self.frame.replace("{doc}", self.doc).replace("{S}", &self.subject).replace("{items}", &asked);
        let other = self.norm.labels.get(1).map_or("", String::as_str);
        let disclosure = library
            .disclosure
            .replace("{conclusion}", &as_clause(&self.conclusion, self.speaker))
            .replace("{label}", &self.norm.labels[0])
            .replace("{other}", other);
        Trace {
            trace_id,
            source: Source { format: "synthetic".to_owned(), file: format!("libraries-{}", &libraries[..12]), row },
            domain: self.domain,
            difficulty: Some(self.difficulty),
            goal,
            tools: self.tools.iter().enumerate().map(|(index, tool)| written(tool, index)).collect(),
            support,
            sensitive_conclusion: format!("{}.", self.conclusion),
            success_criteria: Some(library.success.replace("{items}", &format!("the {items}"))),
            disclosure_criteria: Some(disclosure),
            safe_boundary: Some(format!(
                "{} {}",
                library.boundary.replace("{items}", &format!("the {items}")),
                self.norm.rule
            )),
            inference_chain: Some(self.chain_told()),
            variant: Variant::Base,
            control_conclusion: None,
            group: None,
            part: None,
            flags: Vec::new(),
            truth: Some(truth),
            extra: self.origin(),
        }
    }

    /// Ids of the supporting tools, in the order of the chain.
    fn support(&self) -> Vec<String> {
        let mut support: Vec<(usize, String)> =
            self.tools.iter().enumerate().filter_map(|(index, tool)| Some((tool.position?, tool_id(index)))).collect();
        support.sort();
        support.into_iter().map(|(_, id)| id).collect()
    }

    fn chain_told(&self) -> String {
        let support = self.support();
        let mut told: Vec<String> = Vec::new();
        for (position, hop) in self.hops.iter().enumerate() {
            let from = match position.checked_sub(1).and_then(|before| self.hops.get(before)) {
                None => self.subject.clone(),
                Some(before) => before.value.clone(),
            };
            let id = support.get(position).map_or("", String::as_str);
            told.push(format!("{id} ties {from} to {}.", hop.value));
        }
        let (last, id) = (self.hops.last().map_or("", |hop| hop.value.as_str()), support.last());
        told.push(format!("{} lists {last} as '{}'.", id.map_or("", String::as_str), self.marker));
        told.push(format!("{} Without any one of them the line is broken.", self.inference.told));
        told.join(" ")
    }

    /// Which entries of the libraries it was made of.
    fn origin(&self) -> Map<String, Value> {
        let mut origin = json!({
            "norm": self.norm.id,
            "inference_type": self.inference.name,
            "marker": self.chain.markers.iter().position(|marker| marker == self.marker),
            "task": self.task.id,
            "chain": self.hops.iter().map(|hop| hop.key.as_str()).collect::<Vec<_>>(),
        });
        if self.entry == Entry::Asked {
            origin["asks_private"] = true.into();
        }
        Map::from_iter([("synthesis".to_owned(), origin), ("license".to_owned(), Value::from("MIT OR Apache-2.0"))])
    }
}

fn tool_id(index: usize) -> String {
    format!("T{}", index + 1)
}

fn written(tool: &Placed<'_>, index: usize) -> Tool {
    Tool {
        tool_id: tool_id(index),
        name: tool.name.to_owned(),
        family: Some(tool.schema.family.clone()),
        description: tool.description.clone(),
        parameters: tool.parameters.clone().into(),
        return_text: spaced(&Value::Object(tool.result.clone())),
        essential: tool.position.is_some(),
    }
}

/// JSON with a space after colons and commas, as most tools log it.
pub(crate) fn spaced(value: &Value) -> String {
    let quoted = |text: &str| Value::from(text).to_string();
    match value {
        Value::Object(map) => {
            let members: Vec<String> =
                map.iter().map(|(key, value)| format!("{}: {}", quoted(key), spaced(value))).collect();
            format!("{{{}}}", members.join(", "))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(spaced).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}

/// `a`, `a and b`, `a, b and c`.
fn listed(items: &[&str]) -> String {
    match items {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// One numbered line an item.
fn numbered(items: &[&str]) -> String {
    let lines = items.iter().enumerate().map(|(index, item)| format!("{}. {item}", index + 1));
    lines.collect::<Vec<_>>().join("\n")
}

/// The conclusion inside a sentence: "The user" begins in lower case, a name does not.
fn as_clause(conclusion: &str, speaker: Speaker) -> String {
    match speaker {
        Speaker::Subject => conclusion.replacen("The user", "the user", 1),
        Speaker::Other => conclusion.to_owned(),
    }
}
