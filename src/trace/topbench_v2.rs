//! TOP-Bench v2: a JSON array of scenarios whose tool returns are JSON text inside strings.
//!
//! In: a row. Out: a [`Trace`] whose support is the chain's tool ids (they win over the noise flags, which are wrong or
//! missing in some rows). Source: arXiv 2512.16310 and its data release.

use std::sync::LazyLock;

use regex::Regex;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::read::Context;
use super::rows::Row;
use super::{Difficulty, Domain, Flag, Tool, Trace, Variant};
use crate::error::Fault;

#[derive(Deserialize)]
struct Scenario {
    metadata: Metadata,
    user_goal: UserGoal,
    available_tools: Vec<AvailableTool>,
    evaluation_benchmarks: Benchmarks,
    #[serde(default)]
    mitigation_logic: Option<String>,
}

#[derive(Deserialize)]
struct Metadata {
    id: Id,
    domain: String,
    inference_chain: String,
}

/// A number or a string.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Id {
    /// As in the releases.
    Number(u64),
    /// As in derived files.
    Text(String),
}

impl std::fmt::Display for Id {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) => write!(formatter, "{number}"),
            Self::Text(text) => write!(formatter, "{text}"),
        }
    }
}

#[derive(Deserialize)]
struct UserGoal {
    benign_goal: String,
    #[serde(default)]
    malicious_goal: Option<String>,
}

#[derive(Deserialize)]
struct AvailableTool {
    tool_name: String,
    tool_id: String,
    #[serde(default)]
    tool_description: String,
    #[serde(default)]
    parameters: serde_json::Value,
    return_data: Box<RawValue>,
    #[serde(default)]
    noise_tool: Option<bool>,
}

#[derive(Deserialize)]
struct Benchmarks {
    success_criteria: String,
    sensitive_conclusion: String,
    basis_for_judgment: String,
}

/// Reads one row.
pub(super) fn parse(row: &Row<'_>, context: &Context<'_>) -> Result<Trace, Fault> {
    let scenario: Scenario = row.parse()?;
    let domain = domain(&scenario.metadata.domain)?;
    let variant = context.variant.unwrap_or(if scenario.mitigation_logic.is_some() {
        Variant::SocialContext
    } else if context.is_named_negative() {
        Variant::NegativeControl
    } else {
        Variant::Base
    });
    let Offer { tools, support, flags } = offer(scenario.available_tools, &scenario.metadata.inference_chain)?;
    let mut extra = serde_json::Map::new();
    let mut control_conclusion = None;
    match (variant, scenario.user_goal.malicious_goal) {
        (Variant::NegativeControl, goal) => control_conclusion = goal,
        (_, Some(goal)) => drop(extra.insert("malicious_goal".to_owned(), goal.into())),
        (_, None) => {}
    }
    if let Some(logic) = scenario.mitigation_logic {
        extra.insert("mitigation_logic".to_owned(), logic.into());
    }
    Ok(Trace {
        trace_id: format!("topbench-v2/{}{}", scenario.metadata.id, variant.suffix()),
        source: context.source("topbench-v2", row),
        domain,
        difficulty: Difficulty::of_support(support.len()),
        goal: scenario.user_goal.benign_goal,
        tools,
        support,
        sensitive_conclusion: scenario.evaluation_benchmarks.sensitive_conclusion,
        success_criteria: Some(scenario.evaluation_benchmarks.success_criteria),
        disclosure_criteria: Some(scenario.evaluation_benchmarks.basis_for_judgment),
        safe_boundary: None,
        inference_chain: Some(scenario.metadata.inference_chain),
        variant,
        control_conclusion,
        group: None,
        part: None,
        flags,
        truth: None,
        extra,
    })
}

/// A domain by its first three letters.
pub(super) fn domain(text: &str) -> Result<Domain, Fault> {
    Domain::parse(text).ok_or_else(|| {
        Fault::new("unknown domain").got(text).expected("a name that starts with PID, HMD, FAD, BAL or PCI")
    })
}

/// The tools on offer, which of them support the conclusion, and what was odd about them.
struct Offer {
    tools: Vec<Tool>,
    support: Vec<String>,
    flags: Vec<Flag>,
}

fn offer(available: Vec<AvailableTool>, chain: &str) -> Result<Offer, Fault> {
    if available.is_empty() {
        return Err(Fault::new("`available_tools` is empty").expected("at least one tool"));
    }
    let mut flags = Vec::new();
    let named = named_tools(chain);
    if named.iter().any(|id| !available.iter().any(|tool| tool.tool_id == *id)) {
        flags.push(Flag::SupportUnknownTool);
    }
    let from_chain = available.iter().any(|tool| named.contains(&tool.tool_id));
    if !from_chain {
        flags.push(Flag::SupportFromFlags);
    }
    let mut tools = Vec::with_capacity(available.len());
    for tool in available {
        let in_support = if from_chain { named.contains(&tool.tool_id) } else { tool.noise_tool == Some(false) };
        match tool.noise_tool {
            None => flags.push(Flag::NoiseFlagMissing),
            Some(noise) if noise == in_support => flags.push(Flag::NoiseFlagMismatch),
            Some(_) => {}
        }
        let return_text = return_text(&tool.return_data)?;
        if serde_json::from_str::<&RawValue>(&return_text).is_err() {
            flags.push(Flag::ReturnNotJson);
        }
        tools.push(Tool {
            tool_id: tool.tool_id,
            name: tool.tool_name,
            family: None,
            description: tool.tool_description,
            parameters: tool.parameters,
            return_text,
            essential: in_support,
        });
    }
    let support = tools.iter().filter(|tool| tool.essential).map(|tool| tool.tool_id.clone()).collect();
    flags.sort_unstable();
    flags.dedup();
    Ok(Offer { tools, support, flags })
}

/// JSON text inside a string, or the value itself: either way the text as given, so that `170.50` stays `170.50`.
pub(super) fn return_text(data: &RawValue) -> Result<String, Fault> {
    if data.get().starts_with('"') {
        serde_json::from_str(data.get()).map_err(|_| Fault::new("`return_data` is not a valid string"))
    } else {
        Ok(data.get().to_owned())
    }
}

/// Tool ids that prose mentions: `T1`, `T2`.
pub(super) fn named_tools(prose: &str) -> Vec<String> {
    static TOOL_ID: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\bT\d{1,2}\b").ok());
    let mut ids: Vec<String> = LazyLock::force(&TOOL_ID)
        .iter()
        .flat_map(|pattern| pattern.find_iter(prose))
        .map(|found| found.as_str().to_owned())
        .collect();
    ids.sort();
    ids.dedup();
    ids
}
