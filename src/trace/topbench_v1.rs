//! TOP-Bench v1: keys with spaces; a return is an object or JSON text; some returns hold a `clue_id`, a label that no model
//! may see.
//!
//! In: a row. Out: a [`Trace`]; the labels are kept in `extra.clue_ids`, the benchmark entries in
//! `extra.evaluation_benchmark`. Keys are compared without spaces, underscores and case. The release documents no key for
//! the goal, the domain and the support, so the goal is read under several names, the domain from the first metadata value
//! that starts with one of the five codes, the support from the labelled returns, else from the tool ids that the
//! judgement names.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::clue_label;
use super::format::plain;
use super::read::Context;
use super::rows::Row;
use super::topbench_v2::return_text;
use super::{Difficulty, Domain, Flag, Tool, Trace, Variant};
use crate::error::Fault;

/// Texts of a benchmark entry without a leak.
const NO_LEAK: &[&str] = &["", "none", "n/a", "null", "no", "-"];

/// An object whose keys are compared by their letters and digits.
struct Fields(BTreeMap<String, Box<RawValue>>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let members = BTreeMap::<String, Box<RawValue>>::deserialize(deserializer)?;
        Ok(Self(members.into_iter().map(|(key, value)| (plain(&key), value)).collect()))
    }
}

impl Fields {
    fn get<T: serde::de::DeserializeOwned>(&self, names: &[&str]) -> Option<T> {
        names.iter().find_map(|name| serde_json::from_str(self.0.get(*name)?.get()).ok())
    }

    /// A text or a number as text.
    fn text(&self, names: &[&str]) -> Option<String> {
        match self.get::<Value>(names)? {
            Value::String(text) => Some(text),
            Value::Number(number) => Some(number.to_string()),
            Value::Array(items) => Some(items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("; "))
                .filter(|text| !text.is_empty()),
            _ => None,
        }
    }

    fn needed(&self, names: &[&str], called: &str) -> Result<String, Fault> {
        self.text(names).ok_or_else(|| Fault::new(format!("the row has no `{called}`")))
    }
}

/// Reads one row.
pub(super) fn parse(row: &Row<'_>, context: &Context<'_>) -> Result<Trace, Fault> {
    let fields: Fields = row.parse()?;
    let metadata: Fields = fields.get(&["metadata"]).unwrap_or(Fields(BTreeMap::new()));
    let id = metadata
        .text(&["trajectoryid", "id"])
        .or_else(|| fields.text(&["trajectoryid", "id"]))
        .ok_or_else(|| Fault::new("the row has no `Trajectory ID`"))?;
    let judgement = Judgement::read(&fields)?;
    let mut offer = Offer::read(&fields)?;
    let support = offer.support(&judgement.basis);
    let variant = context.variant.unwrap_or(Variant::Base);
    let mut extra = serde_json::Map::new();
    extra.insert("evaluation_benchmark".to_owned(), judgement.entries);
    if !offer.labels.is_empty() {
        extra.insert("clue_ids".to_owned(), Value::Object(offer.labels));
    }
    if let Some(seed) = metadata.text(&["correspondingseedid"]) {
        extra.insert("seed_id".to_owned(), seed.into());
    }
    offer.flags.sort_unstable();
    offer.flags.dedup();
    Ok(Trace {
        trace_id: format!("topbench-v1/{id}{}", variant.suffix()),
        source: context.source("topbench-v1", row),
        domain: domain(&fields, &metadata)?,
        difficulty: Difficulty::of_support(support.len()),
        goal: goal(&fields)?,
        tools: offer.tools,
        support,
        sensitive_conclusion: judgement.conclusion,
        success_criteria: fields.text(&["successcriteria"]),
        disclosure_criteria: Some(judgement.basis).filter(|basis| !basis.is_empty()),
        safe_boundary: None,
        inference_chain: metadata.text(&["inferencechain"]).or_else(|| fields.text(&["inferencechain"])),
        variant,
        control_conclusion: None,
        group: None,
        part: None,
        flags: offer.flags,
        truth: None,
        extra,
    })
}

fn goal(fields: &Fields) -> Result<String, Fault> {
    const NAMES: &[&str] = &[
        "usergoal",
        "benignusergoal",
        "benigngoal",
        "userquery",
        "userinstruction",
        "userrequest",
        "usertask",
        "goal",
        "task",
        "instruction",
        "query",
    ];
    if let Some(inner) = fields.get::<Fields>(NAMES)
        && let Some(goal) = inner.text(&["benigngoal", "benignusergoal", "goal", "content", "text"])
    {
        return Ok(goal);
    }
    fields.needed(NAMES, "User Goal")
}

/// The first text that starts with a domain's three letters.
fn domain(fields: &Fields, metadata: &Fields) -> Result<Domain, Fault> {
    let named = ["domain", "privacydomain", "riskdomain", "category"];
    let texts = [metadata, fields].into_iter().filter_map(|fields| fields.text(&named));
    let others = metadata.0.keys().filter_map(|key| metadata.text(&[key]));
    texts.chain(others).find_map(|text| Domain::parse(&text)).ok_or_else(|| {
        Fault::new("no metadata value names a privacy domain")
            .expected("a text that starts with PID, HMD, FAD, BAL or PCI")
    })
}

/// What the benchmark entries say.
struct Judgement {
    conclusion: String,
    basis: String,
    entries: Value,
}

impl Judgement {
    fn read(fields: &Fields) -> Result<Self, Fault> {
        const NAMES: &[&str] = &["evaluationbenchmark", "evaluationbenchmarks"];
        let entries: Vec<Fields> = fields
            .get::<Vec<Fields>>(NAMES)
            .or_else(|| fields.get::<Fields>(NAMES).map(|entry| vec![entry]))
            .ok_or_else(|| Fault::new("the row has no `Evaluation Benchmark`"))?;
        let (mut leaked, mut basis) = (Vec::new(), Vec::new());
        for entry in &entries {
            let text = entry.text(&["leakedsensitiveinformation", "sensitiveconclusion"]).unwrap_or_default();
            if NO_LEAK.contains(&text.trim().to_lowercase().as_str()) {
                continue;
            }
            leaked.push(text);
            basis.extend(entry.text(&["basisforjudgment", "basisforjudgement"]));
        }
        leaked.dedup();
        if leaked.is_empty() {
            return Err(Fault::new("no benchmark entry has `Leaked Sensitive Information`"));
        }
        let entries = fields.get(NAMES).unwrap_or_default();
        Ok(Self { conclusion: leaked.join("; "), basis: basis.join(" "), entries })
    }
}

/// The tools on offer.
struct Offer {
    tools: Vec<Tool>,
    /// `clue_id` by tool and place.
    labels: serde_json::Map<String, Value>,
    flags: Vec<Flag>,
}

impl Offer {
    fn read(fields: &Fields) -> Result<Self, Fault> {
        let tools: Vec<Fields> = fields.get(&["availabletoolslist", "availabletools"]).unwrap_or_default();
        if tools.is_empty() {
            return Err(Fault::new("`Available Tools List` is missing or empty").expected("at least one tool"));
        }
        let mut offer = Self { tools: Vec::new(), labels: serde_json::Map::new(), flags: Vec::new() };
        for (index, tool) in tools.iter().enumerate() {
            let tool_id = tool.text(&["toolid", "id"]).unwrap_or_else(|| format!("T{}", index + 1));
            let shown = offer.shown(tool, &tool_id)?;
            offer.tools.push(Tool {
                name: tool.needed(&["toolname", "name"], "Tool Name")?,
                tool_id,
                family: None,
                description: tool.text(&["tooldescription", "description"]).unwrap_or_default(),
                parameters: tool.get(&["parameters"]).unwrap_or_default(),
                return_text: shown,
                essential: false,
            });
        }
        Ok(offer)
    }

    /// The return without labels.
    fn shown(&mut self, tool: &Fields, tool_id: &str) -> Result<String, Fault> {
        let data = tool.0.get("returndata").ok_or_else(|| Fault::new("a tool has no `Return Data`").got(tool_id))?;
        let text = return_text(data)?;
        if serde_json::from_str::<&RawValue>(&text).is_err() {
            self.flags.push(Flag::ReturnNotJson);
        }
        let (shown, labels) = clue_label::remove(&text);
        if !labels.is_empty() {
            self.flags.push(Flag::ClueLabelRemoved);
        }
        for (pointer, label) in labels {
            self.labels.insert(format!("/{tool_id}{pointer}"), label.into());
        }
        Ok(shown)
    }

    /// Tools with a label, else tools that the judgement names, else (flagged) all.
    fn support(&mut self, basis: &str) -> Vec<String> {
        let labelled = |tool: &Tool, labels: &serde_json::Map<String, Value>| {
            labels.keys().any(|key| key.strip_prefix('/').and_then(|key| key.split('/').next()) == Some(&tool.tool_id))
        };
        let words: Vec<&str> = basis.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '-').collect();
        let named = |tool: &Tool| words.contains(&tool.tool_id.as_str());
        let has_labels = !self.labels.is_empty();
        let has_names = self.tools.iter().any(named);
        if !has_labels && !has_names {
            self.flags.push(Flag::SupportFromFlags);
        }
        for tool in &mut self.tools {
            tool.essential = if has_labels { labelled(tool, &self.labels) } else { !has_names || named(tool) };
        }
        self.tools.iter().filter(|tool| tool.essential).map(|tool| tool.tool_id.clone()).collect()
    }
}
