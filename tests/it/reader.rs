//! Claims that hold of every reader: what it refuses is told without the values, and what it takes reads back as it was.

use std::path::Path;

use serde_json::{Value, json};
use topalign::contract::Contract;
use topalign::dataset::{parse_preferences, parse_sft};
use topalign::error::{Error, Result};
use topalign::observation::response::{self, Run};
use topalign::observation::{Context, Observation, each};
use topalign::run::jsonl;
use topalign::trace::{Family, Format, Rows, Trace, Variant, each_in};

/// Stands in for a target; its commas, quotes and positions look like parts of an error's text.
const SECRET: &str = "zqx\", expected `none` at line 7, zqx";
/// What no error may hold.
const TOLD: [&str; 2] = ["zqx", "4021374"];

/// Keys whose values are ids, places or domains: errors may repeat them.
const NAMES: [&str; 6] = ["domain", "privacy_domain", "difficulty", "tool_id", "pointer", "locale"];

fn case(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(name)).unwrap()
}

fn rows(bytes: &[u8]) -> Vec<Value> {
    let mut rows = Rows::new(bytes, "x").unwrap();
    let mut values = Vec::new();
    while let Some(row) = rows.next_row().unwrap() {
        values.push(row.parse().unwrap());
    }
    values
}

/// Every place below the root of a value.
fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    let members: Vec<(String, &Value)> = match value {
        Value::Object(fields) => fields.iter().map(|(key, value)| (key.clone(), value)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(index, value)| (index.to_string(), value)).collect(),
        _ => Vec::new(),
    };
    for (key, value) in members {
        let place = format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
        pointers(value, &place, found);
        found.push(place);
    }
}

fn holds_a_name(pointer: &str) -> bool {
    pointer.split('/').any(|key| NAMES.contains(&key))
}

/// The row with each of its values in turn replaced by one of another type.
fn spoilt(row: &Value) -> Vec<Value> {
    let mut places = Vec::new();
    pointers(row, "", &mut places);
    let secrets =
        [json!(SECRET), json!(4_021_374), json!(-4_021_374.5), json!([SECRET]), json!({"a": SECRET}), json!(true)];
    let mut spoilt = Vec::new();
    for place in places.iter().filter(|place| !holds_a_name(place)) {
        for secret in &secrets {
            let mut other = row.clone();
            *other.pointer_mut(place).unwrap() = secret.clone();
            spoilt.push(other);
        }
    }
    spoilt
}

fn read(bytes: &[u8], format: Format) -> Result<()> {
    match format.family() {
        Some(Family::Traces) | None => each_in(bytes, "x", format, &mut |_| Ok(())).map(drop),
        Some(Family::Sessions) => {
            let context = Context { contract_id: "c", file: "x", model: None };
            each(&mut Rows::new(bytes, "x")?, format, &context, &mut |_, _| Ok(()))
        }
        Some(Family::Responses) => {
            let mut rows = Rows::new(bytes, "x")?;
            while let Some(row) = rows.next_row()? {
                response::parse(&row, &Run { model: "m", variant: Variant::Base })?;
            }
            Ok(())
        }
    }
}

/// Refusals of spoilt rows, none of which may tell what was put in.
fn check(name: &str, rows: &[Value], read: impl Fn(&[u8]) -> Result<()>) {
    let mut refused = 0;
    for spoilt in rows.iter().flat_map(spoilt) {
        let Err(error) = read(spoilt.to_string().as_bytes()) else { continue };
        refused += 1;
        assert!(matches!(error, Error::Invalid(_)), "{name}: {error}");
        let told = format!("{error} {}", error.hints().join(" "));
        assert!(!TOLD.iter().any(|secret| told.contains(secret)), "{name}: {told}");
    }
    assert!(refused > 0, "{name}: nothing was refused");
}

#[test]
fn no_reader_of_a_format_tells_a_value_that_it_refuses() {
    for (name, format) in [
        ("sources/topbench-v1.json", Format::TopBenchV1),
        ("scenario-v2.json", Format::TopBenchV2),
        ("scenario-v3.jsonl", Format::TopBenchV3),
        ("build-traces.jsonl", Format::Canonical),
        ("sources/topbench-run.json", Format::TopBenchRun),
        ("sources/agentleak.json", Format::AgentLeak),
        ("sources/openai-chat.jsonl", Format::OpenAiChat),
        ("sources/inspect.json", Format::Inspect),
        ("sources/agentdojo.json", Format::AgentDojo),
    ] {
        check(name, &rows(&case(name)), |bytes| read(bytes, format));
    }
}

#[test]
fn no_reader_of_our_own_rows_tells_a_value_that_it_refuses() {
    let contract = json!({"contract_id": "c", "budget": 3, "channels": [{"name": "email", "visibility": "external"}],
        "targets": [{"target_id": "e", "value": "Ada Quill", "aliases": ["A. Quill"], "weak": false}]});
    check("contract", &[contract], |bytes| jsonl::parse::<Contract>(bytes, "x").map(drop));
    let observation = json!({"session_id": "s", "contract_id": "c", "request": 1, "channel": "email", "payload": "text",
        "recipients": ["r"], "index": 0, "tool": "t"});
    check("observation", &[observation], |bytes| jsonl::parse::<Observation>(bytes, "x").map(drop));
    let answer = json!([{"role": "assistant", "content": "yes"}]);
    check("sft", &[json!({"messages": answer, "trace_id": "t"})], |bytes| parse_sft(bytes, "x").map(drop));
    let pair = json!({"prompt": [{"role": "user", "content": "?"}], "chosen": answer, "rejected": answer});
    check("pair", &[pair], |bytes| parse_preferences(bytes, "x").map(drop));
}

#[test]
fn a_number_with_many_digits_reads_back_as_it_was_written() {
    let mut row = rows(&case("build-traces.jsonl")).remove(0);
    // A parser that rounds twice is off by one in the last place of each.
    let numbers = [123_456_789.123_456_79, 0.907_303_832_202_868_9, 0.481_837_925_201_105_24, 0.432_952_849_813_225_57];
    row["tools"][0]["parameters"] = json!(numbers);
    let read = |text: &str| {
        let mut traces: Vec<Trace> = Vec::new();
        each_in(text.as_bytes(), "x", Format::Canonical, &mut |trace| {
            traces.push(trace);
            Ok(())
        })
        .unwrap();
        traces.remove(0)
    };
    let trace = read(&row.to_string());
    assert_eq!(trace.tools[0].parameters, json!(numbers));
    assert_eq!(read(&serde_json::to_string(&trace).unwrap()), trace);
}
