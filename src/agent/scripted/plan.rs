//! What a scripted model does next.

use serde_json::{Map, Value, json};

use super::dialogue::{Dialogue, Step};
use crate::agent::Policy;
use crate::agent::policy::{Piece, pieces};

/// Exits by their tool.
const EXITS: [(&str, &str); 6] = [
    ("console_log", "console"),
    ("reply", "reply"),
    ("forward", "forward"),
    ("share_file", "file_share"),
    ("send_email", "email"),
    ("create_event", "calendar"),
];

/// What a request asks for.
const ASKS: [(&str, &str); 6] = [
    ("console", "console_log"),
    ("reply to", "reply"),
    ("forward", "forward"),
    ("share the", "share_file"),
    ("by email", "send_email"),
    ("an event with", "create_event"),
];

/// A step of the model.
#[derive(Debug, PartialEq)]
pub enum Act {
    Call { tool: String, arguments: Value },
    Answer(String),
}

/// A task: find the entry of this title, take a field, put it somewhere.
struct Task<'r> {
    title: &'r str,
    field: &'r str,
    /// The title of an event to create; an e-mail goes out where there is none.
    event: Option<&'r str>,
}

/// What is due: one or more calls that do not wait for each other, or the answer.
pub fn acts(dialogue: &Dialogue<'_>, policy: &Policy, seed: u64) -> Vec<Act> {
    let due = if dialogue.parameters("search").is_some() {
        records(dialogue, policy, seed)
    } else {
        tools(dialogue, policy, seed)
    };
    if due.is_empty() { vec![Act::Answer(answer(dialogue, policy, seed))] } else { due }
}

/// The last words to the user.
pub fn answer(dialogue: &Dialogue<'_>, policy: &Policy, seed: u64) -> String {
    let lines = lines(dialogue, policy, seed, "response");
    if lines.is_empty() { "Done.".to_owned() } else { lines.join("\n") }
}

/// Calls over a workspace of records.
fn records(dialogue: &Dialogue<'_>, policy: &Policy, seed: u64) -> Vec<Act> {
    let task = task(dialogue.request);
    let Some(search) = step(dialogue, "search", 0) else {
        let query = task.as_ref().map_or("", |task| task.title);
        return vec![call(dialogue, "search", vec![json!(area(dialogue)), json!(query)])];
    };
    let unread = unread(dialogue, policy, search);
    if !unread.is_empty() {
        return unread.into_iter().map(|id| call(dialogue, "read", vec![json!(id)])).collect();
    }
    match task {
        Some(task) => perform(dialogue, policy, seed, &task),
        None => asked(dialogue).map_or_else(Vec::new, |tool| leave(dialogue, policy, seed, tool)),
    }
}

/// Calls over tools that take nothing: each once, then the exit.
fn tools(dialogue: &Dialogue<'_>, policy: &Policy, seed: u64) -> Vec<Act> {
    let is_exit = |name: &str| EXITS.iter().any(|(tool, _)| *tool == name);
    let uncalled = |name: &String| !is_exit(name) && step(dialogue, name, 0).is_none();
    let due: Vec<Act> =
        dialogue.tools().into_iter().filter(uncalled).map(|tool| Act::Call { tool, arguments: json!({}) }).collect();
    if due.is_empty() { asked(dialogue).map_or_else(Vec::new, |tool| leave(dialogue, policy, seed, tool)) } else { due }
}

/// Ids that were found and not read, or not often enough where parts were left out.
fn unread(dialogue: &Dialogue<'_>, policy: &Policy, search: &Step<'_>) -> Vec<String> {
    let found: Value = serde_json::from_str(search.result).unwrap_or(Value::Null);
    let ids = found["results"].as_array().into_iter().flatten().filter_map(|hit| hit["id"].as_str());
    ids.filter(|id| {
        let quoted = format!("\"{id}\"");
        let reads: Vec<&Step<'_>> =
            dialogue.steps.iter().filter(|step| step.tool == "read" && step.arguments.contains(&quoted)).collect();
        let is_partial = reads.last().is_some_and(|step| step.result.contains("\"omitted\""));
        reads.is_empty() || (is_partial && reads.len() <= policy.insistence)
    })
    .map(str::to_owned)
    .collect()
}

/// The call of an exit, once; where it answers or passes on something, that is looked for first.
fn leave(dialogue: &Dialogue<'_>, policy: &Policy, seed: u64, tool: &'static str) -> Vec<Act> {
    if step(dialogue, tool, 0).is_some() {
        return Vec::new();
    }
    let exit = EXITS.iter().find(|(name, _)| *name == tool).map_or("", |(_, exit)| exit);
    let carrier = match tool {
        "reply" | "forward" => Some(("inbox", "newsletter")),
        "share_file" => Some(("files", "template")),
        _ => None,
    };
    let mut arguments = Vec::new();
    if let Some((area, query)) = carrier {
        let searched = dialogue.steps.iter().rev().find(|step| step.tool == "search" && step.arguments.contains(query));
        let Some(searched) = searched else {
            return vec![call(dialogue, "search", vec![json!(area), json!(query)])];
        };
        let found: Value = serde_json::from_str(searched.result).unwrap_or(Value::Null);
        arguments.push(found["results"][0]["id"].clone());
    }
    if matches!(tool, "forward" | "share_file" | "send_email") {
        arguments.push(json!(address(dialogue.request)));
    }
    match tool {
        "send_email" => arguments.push(json!("Overview")),
        "create_event" => {
            arguments.extend([json!("Overview"), json!("2030-01-01"), json!([address(dialogue.request)])]);
        }
        _ => {}
    }
    let lines = lines(dialogue, policy, seed, exit);
    arguments.push(json!(if lines.is_empty() { "Nothing to report.".to_owned() } else { lines.join("\n") }));
    vec![call(dialogue, tool, arguments)]
}

/// The task's own action, once.
fn perform(dialogue: &Dialogue<'_>, policy: &Policy, seed: u64, task: &Task<'_>) -> Vec<Act> {
    let tool = if task.event.is_some() { "create_event" } else { "send_email" };
    let read = dialogue.steps.iter().rev().find(|step| step.tool == "read");
    let record: Value = read.and_then(|step| serde_json::from_str(step.result).ok()).unwrap_or(Value::Null);
    let fields = record["fields"].as_object();
    // A renamed field still starts with its name.
    let value = fields.and_then(|fields| fields.iter().find(|(name, _)| name.starts_with(task.field)));
    let Some((_, value)) = value.filter(|_| step(dialogue, tool, 0).is_none()) else { return Vec::new() };
    let value = if policy.is_competent(seed, dialogue.request) { value.clone() } else { json!("2000-01-01") };
    let to = address(dialogue.request);
    let exit = if task.event.is_some() { "calendar" } else { "email" };
    let more = lines(dialogue, policy, seed, exit).join("\n");
    let arguments = match task.event {
        Some(title) => vec![json!(title), value, json!([to]), json!(more)],
        None => vec![
            json!(to),
            json!(task.field),
            json!(format!("{}: {}\n{more}", task.field, value.as_str().unwrap_or_default())),
        ],
    };
    vec![call(dialogue, tool, arguments)]
}

/// Pieces of everything that was read which the policy says at an exit; of a record that was read twice, what was seen last.
fn lines(dialogue: &Dialogue<'_>, policy: &Policy, seed: u64, exit: &str) -> Vec<String> {
    if policy.probability(exit, false) <= 0.0 && policy.probability(exit, true) <= 0.0 {
        return Vec::new();
    }
    let mut seen: Vec<(&str, &Step<'_>)> = Vec::new();
    let is_source = |step: &&Step<'_>| step.tool != "search" && !EXITS.iter().any(|(tool, _)| *tool == step.tool);
    for step in dialogue.steps.iter().filter(is_source) {
        let key = if step.tool == "read" { step.arguments } else { step.tool };
        match seen.iter_mut().find(|(known, _)| *known == key) {
            Some(known) => known.1 = step,
            None => seen.push((key, step)),
        }
    }
    let parsed = seen.iter().filter_map(|(_, step)| serde_json::from_str::<Value>(step.result).ok());
    let all: Vec<Piece> =
        parsed.filter(|result| result.get("error").is_none()).flat_map(|result| pieces(&result)).collect();
    all.into_iter().filter(|piece| policy.says(seed, exit, piece)).map(|piece| piece.line).collect()
}

/// Arguments by the names that the interface has for them, in its order.
fn call(dialogue: &Dialogue<'_>, tool: &str, values: Vec<Value>) -> Act {
    let names = dialogue.parameters(tool).unwrap_or(Value::Null);
    let names = names.as_object().into_iter().flat_map(Map::keys);
    let arguments: Map<String, Value> = names.cloned().zip(values).collect();
    Act::Call { tool: tool.to_owned(), arguments: Value::Object(arguments) }
}

fn step<'d>(dialogue: &'d Dialogue<'_>, tool: &str, place: usize) -> Option<&'d Step<'d>> {
    dialogue.steps.iter().filter(|step| step.tool == tool).nth(place)
}

/// The area that a request names, out of those that the search offers.
fn area(dialogue: &Dialogue<'_>) -> String {
    let parameters = dialogue.parameters("search").unwrap_or(Value::Null);
    let mut areas =
        parameters.as_object().into_iter().flat_map(Map::values).filter_map(|schema| schema["enum"].as_array());
    let named = areas.next().into_iter().flatten().filter_map(Value::as_str);
    let mut named: Vec<&str> = named.filter(|area| dialogue.request.contains(area)).collect();
    named.sort_by_key(|area| dialogue.request.find(area));
    named.first().map_or_else(String::new, |area| (*area).to_owned())
}

fn asked(dialogue: &Dialogue<'_>) -> Option<&'static str> {
    ASKS.iter().find(|(words, _)| dialogue.request.contains(words)).map(|(_, tool)| *tool)
}

/// The first address in a request.
fn address(request: &str) -> String {
    let word = request.split_whitespace().find(|word| word.contains('@')).unwrap_or_default();
    word.trim_end_matches(['.', ',', ';', ':']).to_owned()
}

/// `... "title" ... called "event" ... its `field` ...`
fn task(request: &str) -> Option<Task<'_>> {
    let field = request.split('`').nth(1)?;
    let mut quoted = request.split('"').skip(1).step_by(2);
    Some(Task { title: quoted.next()?, field, event: quoted.next() })
}
