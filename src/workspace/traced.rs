//! A trace as a workspace: its tools return what the trace has for them, beside the exits that every workspace has.

use serde_json::{Map, Value, json};

use super::{Check, Exit, Task, Truth, Workspace, World, channels};
use crate::contract::{Contract, derive};
use crate::error::{Fault, Result};
use crate::trace::{Tool, Trace};

/// Longest name of a function that endpoints take.
const LONGEST_NAME: usize = 64;

/// The workspace of a trace. Its one task is the trace's own goal, done when the answer holds every required value.
pub fn from_trace(trace: &Trace, contract: &Contract) -> World {
    let mut workspace = Workspace::default();
    for tool in &trace.tools {
        workspace.results.insert(function_name(tool), tool.return_text.clone());
        workspace.own_schemas.push(function_schema(tool));
        if tool.essential {
            workspace.essential.push(function_name(tool));
        }
    }
    let values = contract.required.iter().map(|required| required.value.clone()).collect();
    let task = Task { request: trace.goal.clone(), check: Check::Answered { values }, record: None };
    World { workspace, truth: Truth { tasks: vec![task], ..Truth::default() } }
}

/// The trace's contract with the whole boundary of a session declared.
///
/// # Errors
/// A trace that gives no contract.
pub fn contract_of_trace(trace: &Trace, budget: u32, outlet: Option<Exit>) -> Result<Contract> {
    let derived = derive(trace).contract.map_err(|reason| Fault::new(reason).at(&trace.trace_id))?;
    Contract {
        budget,
        expected_outlet: outlet.map(|outlet| outlet.name().to_owned()),
        channels: channels(),
        digest: String::new(),
        ..derived
    }
    .freeze()
}

/// A trace's tool as a function: endpoints take letters, digits, `_` and `-`; the id keeps names apart.
pub fn function_name(tool: &Tool) -> String {
    let plain = |character: char| if character.is_ascii_alphanumeric() || character == '-' { character } else { '_' };
    format!("{}_{}", tool.tool_id, tool.name).chars().map(plain).take(LONGEST_NAME).collect()
}

/// The schema of a trace's tool, in the form of chat completions.
pub fn function_schema(tool: &Tool) -> Value {
    json!({"type": "function", "function": {"name": function_name(tool), "description": tool.description,
        "parameters": {"type": "object", "properties": properties(&tool.parameters)}}})
}

/// Parameters stand in traces as a list of names, or as an object of schemas or of descriptions.
fn properties(parameters: &Value) -> Map<String, Value> {
    let property = |name: &str, value: Option<&Value>| {
        let schema = match value {
            Some(Value::Object(schema)) if schema.contains_key("type") => Value::Object(schema.clone()),
            Some(Value::String(description)) => json!({"type": "string", "description": description}),
            _ => json!({"type": "string"}),
        };
        (name.to_owned(), schema)
    };
    match parameters {
        Value::Array(names) => names.iter().filter_map(Value::as_str).map(|name| property(name, None)).collect(),
        Value::Object(fields) => fields.iter().map(|(name, value)| property(name, Some(value))).collect(),
        _ => Map::new(),
    }
}
