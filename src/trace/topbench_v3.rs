//! TOP-Bench v3: one scenario a row, with declared essential tools and minimal support; this project's own scenarios use
//! the same schema and add their ground truth (`labels`, `required`, `clues`, `success_criteria`).
//!
//! In: a row. Out: a [`Trace`]; fields that the schema does not name are kept in `extra`.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::read::Context;
use super::rows::Row;
use super::topbench_v2::{self, Id};
use super::{Difficulty, Flag, Located, Tool, Trace, Truth, Variant};
use crate::error::Fault;

#[derive(Deserialize)]
struct Scenario {
    #[serde(rename = "scenario_input_id")]
    id: Id,
    privacy_domain: String,
    sensitive_conclusion: String,
    benign_user_goal: String,
    available_tools: Vec<AvailableTool>,
    #[serde(default)]
    essential_tools: Vec<String>,
    #[serde(default)]
    noise_tools: Vec<String>,
    #[serde(default)]
    minimal_supporting_set: Vec<String>,
    #[serde(default)]
    safe_response_boundary: Option<Prose>,
    #[serde(default)]
    explicit_disclosure_criteria: Option<Prose>,
    #[serde(default)]
    success_criteria: Option<Prose>,
    #[serde(default)]
    inference_chain: Option<Prose>,
    #[serde(default)]
    difficulty: Option<serde_json::Value>,
    #[serde(default)]
    difficulty_level: Option<serde_json::Value>,
    #[serde(default)]
    labels: Vec<String>,
    #[serde(default)]
    required: Vec<Located>,
    #[serde(default)]
    clues: Vec<Located>,
}

/// Fields that end up in the trace; all others are kept.
const KNOWN: &[&str] = &[
    "scenario_input_id",
    "privacy_domain",
    "sensitive_conclusion",
    "benign_user_goal",
    "available_tools",
    "essential_tools",
    "noise_tools",
    "minimal_supporting_set",
    "safe_response_boundary",
    "explicit_disclosure_criteria",
    "success_criteria",
    "inference_chain",
    "difficulty",
    "difficulty_level",
    "labels",
    "required",
    "clues",
];

#[derive(Deserialize)]
struct AvailableTool {
    tool_id: String,
    tool_name: String,
    #[serde(default)]
    tool_family: Option<String>,
    #[serde(default)]
    tool_description: String,
    #[serde(default)]
    parameters: serde_json::Value,
    return_data: Box<RawValue>,
    #[serde(default)]
    essential: Option<bool>,
}

/// One text, or a list of them.
#[derive(Deserialize)]
#[serde(untagged)]
enum Prose {
    Text(String),
    List(Vec<String>),
}

impl From<Prose> for String {
    fn from(prose: Prose) -> Self {
        match prose {
            Prose::Text(text) => text,
            Prose::List(items) => items.join(" "),
        }
    }
}

/// Reads one row.
pub(super) fn parse(row: &Row<'_>, context: &Context<'_>) -> Result<Trace, Fault> {
    let scenario: Scenario = row.parse()?;
    let mut extra: serde_json::Map<String, serde_json::Value> = row.parse()?;
    extra.retain(|key, _| !KNOWN.contains(&key.as_str()));
    let difficulty = match scenario.difficulty.as_ref().or(scenario.difficulty_level.as_ref()) {
        Some(value) => difficulty(value)?,
        None => None,
    };
    let mut flags = Vec::new();
    let (tools, support) = tools(&scenario, &mut flags)?;
    check_truth(&scenario, &tools)?;
    let truth = Truth { labels: scenario.labels, required: scenario.required, clues: scenario.clues };
    Ok(Trace {
        trace_id: scenario.id.to_string(),
        source: context.source("topbench-v3", row),
        domain: topbench_v2::domain(&scenario.privacy_domain)?,
        difficulty: difficulty.or_else(|| Difficulty::of_support(support.len())),
        goal: scenario.benign_user_goal,
        tools,
        support,
        sensitive_conclusion: scenario.sensitive_conclusion,
        success_criteria: scenario.success_criteria.map(String::from),
        disclosure_criteria: scenario.explicit_disclosure_criteria.map(String::from),
        safe_boundary: scenario.safe_response_boundary.map(String::from),
        inference_chain: scenario.inference_chain.map(String::from),
        variant: context.variant.unwrap_or(Variant::Base),
        control_conclusion: None,
        group: None,
        part: None,
        flags,
        truth: (truth != Truth::default()).then_some(truth),
        extra,
    })
}

/// `D1` to `D4`, a number, or null; the field is not documented, so anything else is an error rather than a guess.
fn difficulty(value: &serde_json::Value) -> Result<Option<Difficulty>, Fault> {
    let text = match value {
        serde_json::Value::Null => return Ok(None),
        serde_json::Value::String(text) => text.trim().to_uppercase(),
        other => format!("D{other}"),
    };
    let known = [Difficulty::D1, Difficulty::D2, Difficulty::D3, Difficulty::D4];
    match known.into_iter().find(|difficulty| text.starts_with(difficulty.code())) {
        Some(difficulty) => Ok(Some(difficulty)),
        None => Err(Fault::new("unknown difficulty").got(text).expected("D1, D2, D3 or D4")),
    }
}

fn tools(scenario: &Scenario, flags: &mut Vec<Flag>) -> Result<(Vec<Tool>, Vec<String>), Fault> {
    if scenario.available_tools.is_empty() {
        return Err(Fault::new("`available_tools` is empty").expected("at least one tool"));
    }
    let mut tools = Vec::with_capacity(scenario.available_tools.len());
    for tool in &scenario.available_tools {
        let listed = scenario.essential_tools.contains(&tool.tool_id);
        let is_noise = scenario.noise_tools.contains(&tool.tool_id);
        let essential = tool.essential.unwrap_or(listed || scenario.minimal_supporting_set.contains(&tool.tool_id));
        if tool.essential.is_none() && !listed && !is_noise {
            flags.push(Flag::NoiseFlagMissing);
        }
        if essential == is_noise && (essential || listed) {
            flags.push(Flag::NoiseFlagMismatch);
        }
        let return_text = topbench_v2::return_text(&tool.return_data)?;
        if serde_json::from_str::<&RawValue>(&return_text).is_err() {
            flags.push(Flag::ReturnNotJson);
        }
        tools.push(Tool {
            tool_id: tool.tool_id.clone(),
            name: tool.tool_name.clone(),
            family: tool.tool_family.clone(),
            description: tool.tool_description.clone(),
            parameters: tool.parameters.clone(),
            return_text,
            essential,
        });
    }
    let support = support(scenario, &tools, flags);
    flags.sort_unstable();
    flags.dedup();
    Ok((tools, support))
}

fn support(scenario: &Scenario, tools: &[Tool], flags: &mut Vec<Flag>) -> Vec<String> {
    let known = |id: &&String| tools.iter().any(|tool| tool.tool_id == **id);
    if scenario.minimal_supporting_set.iter().any(|id| !known(&id)) {
        flags.push(Flag::SupportUnknownTool);
    }
    let support: Vec<String> = scenario.minimal_supporting_set.iter().filter(known).cloned().collect();
    if support.is_empty() {
        flags.push(Flag::SupportFromFlags);
        return tools.iter().filter(|tool| tool.essential).map(|tool| tool.tool_id.clone()).collect();
    }
    support
}

/// Declared truth must point at something.
fn check_truth(scenario: &Scenario, tools: &[Tool]) -> Result<(), Fault> {
    let places = [("required", &scenario.required), ("clues", &scenario.clues)];
    for (field, located) in places.into_iter().flat_map(|(field, items)| items.iter().map(move |item| (field, item))) {
        let Some(tool) = tools.iter().find(|tool| tool.tool_id == located.tool_id) else {
            return Err(Fault::new(format!("`{field}` names a tool that is not on offer")).got(&located.tool_id));
        };
        let value: serde_json::Value = serde_json::from_str(&tool.return_text).unwrap_or_default();
        if value.pointer(&located.pointer).is_none_or(|value| value.is_object() || value.is_array()) {
            return Err(Fault::new(format!("`{field}` points at no single value in the return of {}", tool.tool_id))
                .got(&located.pointer)
                .expected("a JSON pointer to a string or a number, e.g. `/transactions/0/amount`"));
        }
    }
    Ok(())
}
