//! Claims about `data/scenarios.jsonl`: the rules that make a scenario fit to train and to judge with, checked on every row.
//!
//! The rows are read as plain JSON, so that no reader of ours can hide a fault; the last claims take them through the
//! program.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use regex::Regex;
use serde_json::Value;
use topalign::adjudicate::{Decision, Matcher, decide, disclosures, find_value};
use topalign::contract::{Contract, derive};
use topalign::trace::{Difficulty, Domain, Format, Trace, read};

const FIVE_WORDS: usize = 5;
/// Far below the similarity (0.2) from which a split counts two traces as one group.
const MOST_ALIKE: f64 = 0.03;

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/scenarios.jsonl")
}

fn scenarios() -> Vec<Value> {
    let text = std::fs::read_to_string(path()).expect("data/scenarios.jsonl");
    text.lines().map(|line| serde_json::from_str(line).expect("a JSON object a line")).collect()
}

/// Every violation of a rule, over all rows, fails the claim at once.
fn every_row(rule: impl Fn(&Value) -> Vec<String>) {
    let found: Vec<String> = scenarios()
        .iter()
        .flat_map(|row| rule(row).into_iter().map(|problem| format!("{}: {problem}", text(row, "scenario_input_id"))))
        .collect();
    assert!(found.is_empty(), "{} violations:\n{}", found.len(), found.join("\n"));
}

fn text<'a>(row: &'a Value, field: &str) -> &'a str {
    row[field].as_str().unwrap_or_default()
}

fn list<'a>(row: &'a Value, field: &str) -> &'a [Value] {
    row[field].as_array().map_or(&[], Vec::as_slice)
}

fn texts<'a>(row: &'a Value, field: &str) -> Vec<&'a str> {
    list(row, field).iter().filter_map(Value::as_str).collect()
}

/// Case-folded words, a space around each.
fn words(text: &str) -> String {
    let folded = text.to_lowercase();
    let words: Vec<&str> =
        folded.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    format!(" {} ", words.join(" "))
}

fn holds(text: &str, phrase: &str) -> bool {
    words(text).contains(&words(phrase))
}

/// What stands at `{"tool_id", "pointer"}`, if it is a string or a number.
fn value_at(row: &Value, place: &Value) -> Option<String> {
    let tool = list(row, "available_tools").iter().find(|tool| tool["tool_id"] == place["tool_id"])?;
    match tool["return_data"].pointer(place["pointer"].as_str()?)? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

fn values(row: &Value, field: &str) -> Vec<String> {
    list(row, field).iter().filter_map(|place| value_at(row, place)).collect()
}

fn is_essential(row: &Value, place: &Value) -> bool {
    list(row, "essential_tools").contains(&place["tool_id"])
}

/// Everything that the agent, the user or a complete and safe answer may show.
fn visible(row: &Value) -> Vec<(String, String)> {
    let mut parts: Vec<(String, String)> = ["benign_user_goal", "success_criteria", "safe_response_boundary"]
        .iter()
        .map(|field| ((*field).to_owned(), text(row, field).to_owned()))
        .collect();
    for tool in list(row, "available_tools") {
        for field in ["tool_name", "tool_family", "tool_description", "parameters", "return_data"] {
            let shown = tool[field].as_str().map_or_else(|| tool[field].to_string(), str::to_owned);
            parts.push((format!("{}.{field}", text(tool, "tool_id")), shown));
        }
    }
    parts
}

fn tally<K: Ord>(keys: impl IntoIterator<Item = K>) -> BTreeMap<K, usize> {
    let mut counts = BTreeMap::new();
    for key in keys {
        *counts.entry(key).or_default() += 1;
    }
    counts
}

#[test]
fn there_are_fifteen_scenarios_a_domain_with_unique_ids() {
    let rows = scenarios();
    let ids: BTreeSet<&str> = rows.iter().map(|row| text(row, "scenario_input_id")).collect();
    assert_eq!(ids.len(), 75);
    assert_eq!(rows.len(), 75);
    let expected: BTreeMap<String, usize> = Domain::ALL.iter().map(|domain| (domain.code().to_owned(), 15)).collect();
    assert_eq!(tally(rows.iter().map(|row| text(row, "privacy_domain").to_owned())), expected);
}

#[test]
fn difficulty_is_the_size_of_the_support_and_balanced() {
    every_row(|row| {
        let of_support = Difficulty::of_support(list(row, "minimal_supporting_set").len()).map(Difficulty::code);
        let declared = text(row, "difficulty");
        if of_support == Some(declared) { vec![] } else { vec![format!("{declared}, support says {of_support:?}")] }
    });
    let rows = scenarios();
    let counts = tally(rows.iter().map(|row| (text(row, "privacy_domain"), text(row, "difficulty"))));
    assert_eq!(counts.len(), 20, "every domain has every difficulty");
    assert!(counts.values().all(|count| (3..=4).contains(count)), "{counts:?}");
}

#[test]
fn all_five_kinds_of_inference_are_frequent() {
    let rows = scenarios();
    let counts = tally(rows.iter().map(|row| text(row, "inference_type")));
    let kinds: Vec<&str> = counts.keys().copied().collect();
    assert_eq!(
        kinds,
        [
            "behaviour-pattern",
            "direct-decoding",
            "predictive-triangulation",
            "relationship-inference",
            "temporal-correlation"
        ]
    );
    assert!(counts.values().all(|count| *count >= 10), "{counts:?}");
}

#[test]
fn fields_are_filled_and_licensed() {
    let prose = [
        "sensitive_conclusion",
        "benign_user_goal",
        "inference_chain",
        "safe_response_boundary",
        "explicit_disclosure_criteria",
        "success_criteria",
    ];
    every_row(|row| {
        let mut found: Vec<String> = prose
            .iter()
            .filter(|field| text(row, field).split_whitespace().count() < 3)
            .map(|field| format!("`{field}` is empty or too short"))
            .collect();
        if text(row, "license") != "MIT OR Apache-2.0" {
            found.push("license".to_owned());
        }
        found
    });
}

#[test]
fn tools_are_essential_or_noise_and_the_lists_agree() {
    every_row(|row| {
        let tools = list(row, "available_tools");
        let by_flag = |essential: bool| -> Vec<&str> {
            let marked = tools.iter().filter(|tool| tool["essential"].as_bool() == Some(essential));
            marked.map(|tool| text(tool, "tool_id")).collect()
        };
        let (essential, noise) = (texts(row, "essential_tools"), texts(row, "noise_tools"));
        let ids: BTreeSet<&str> = tools.iter().map(|tool| text(tool, "tool_id")).collect();
        let rules = [
            ("tool ids repeat", ids.len() == tools.len()),
            ("flags and `essential_tools` differ", by_flag(true) == essential),
            ("flags and `noise_tools` differ", by_flag(false) == noise),
            ("fewer than two essential tools", essential.len() >= 2),
            ("no noise tool", !noise.is_empty()),
            ("support is not essential", texts(row, "minimal_supporting_set").iter().all(|id| essential.contains(id))),
            ("a tool has no description", tools.iter().all(|tool| !text(tool, "tool_description").is_empty())),
            (
                "parameters or a return is no object",
                tools.iter().all(|tool| tool["parameters"].is_object() && tool["return_data"].is_object()),
            ),
        ];
        rules.iter().filter(|(_, kept)| !kept).map(|(rule, _)| (*rule).to_owned()).collect()
    });
}

#[test]
fn required_values_are_distinctive_and_call_for_each_essential_tool() {
    every_row(|row| {
        let places = list(row, "required");
        let mut found = Vec::new();
        if !(3..=6).contains(&places.len()) {
            found.push(format!("{} required values", places.len()));
        }
        for id in texts(row, "essential_tools") {
            if !places.iter().any(|place| place["tool_id"] == id) {
                found.push(format!("nothing is required of {id}"));
            }
        }
        for place in places {
            let Some(value) = value_at(row, place) else {
                found.push(format!("no single value at {place}"));
                continue;
            };
            let distinctive = value.chars().count() >= 4
                && value.contains(|letter: char| letter.is_ascii_digit() || letter.is_uppercase());
            if !distinctive {
                found.push(format!("`{value}` is not distinctive"));
            }
            if !is_essential(row, place) {
                found.push(format!("{place} is not in an essential tool"));
            }
            // A refusal that echoes the goal must not pass for a complete answer.
            if holds(text(row, "benign_user_goal"), &value) {
                found.push(format!("the goal holds `{value}`"));
            }
        }
        found
    });
}

#[test]
fn clues_are_distinctive_fragments_that_the_task_does_not_need() {
    every_row(|row| {
        let places = list(row, "clues");
        let mut found = Vec::new();
        if !(1..=3).contains(&places.len()) {
            found.push(format!("{} clues", places.len()));
        }
        for place in places {
            match value_at(row, place) {
                None => found.push(format!("no single value at {place}")),
                Some(value) if value.chars().count() < 6 || value.split_whitespace().count() < 2 => {
                    found.push(format!("`{value}` is not distinctive"));
                }
                Some(value) if holds(text(row, "benign_user_goal"), &value) => {
                    found.push(format!("the goal holds `{value}`"));
                }
                Some(_) if !is_essential(row, place) => found.push(format!("{place} is not in an essential tool")),
                Some(_) => {}
            }
        }
        let all: Vec<String> = values(row, "required").into_iter().chain(values(row, "clues")).collect();
        for (index, one) in all.iter().enumerate() {
            for (_, other) in all.iter().enumerate().filter(|(other, _)| *other != index) {
                if holds(one, other) {
                    found.push(format!("`{one}` holds `{other}`"));
                }
            }
        }
        found
    });
}

#[test]
fn labels_occur_nowhere_before_they_are_inferred() {
    every_row(|row| {
        let labels = texts(row, "labels");
        let distinct: BTreeSet<String> = labels.iter().map(|label| words(label)).collect();
        let mut found = Vec::new();
        if labels.len() < 5 || distinct.len() != labels.len() {
            found.push(format!(
                "{} labels, {} distinct: expected a label and at least four aliases",
                labels.len(),
                distinct.len()
            ));
        }
        for label in labels {
            let shown = visible(row).into_iter().filter(|(_, shown)| holds(shown, label));
            found.extend(shown.map(|(place, _)| format!("`{label}` stands in {place}")));
        }
        found
    });
}

#[test]
fn conclusion_and_disclosure_criteria_name_a_label() {
    every_row(|row| {
        ["sensitive_conclusion", "explicit_disclosure_criteria"]
            .iter()
            .filter(|field| !texts(row, "labels").iter().any(|label| holds(text(row, field), label)))
            .map(|field| format!("`{field}` names no label"))
            .collect()
    });
}

#[test]
fn people_and_places_cannot_be_reached() {
    let phone = Regex::new(r"555[- ]?\d{4}").expect("a pattern");
    let fictional = Regex::new(r"555[- ]?01\d{2}").expect("a pattern");
    let address = Regex::new(r"[\w.]+@[\w.]+|https?://\S+|www\.\S+").expect("a pattern");
    every_row(|row| {
        let all = row.to_string();
        let phones = phone.find_iter(&all).map(|found| found.as_str()).filter(|number| !fictional.is_match(number));
        let addresses = address.find_iter(&all).map(|found| found.as_str()).filter(|found| !found.contains("example"));
        phones.chain(addresses).map(str::to_owned).collect()
    });
}

#[test]
fn no_two_scenarios_are_alike() {
    let rows = scenarios();
    let fragments: Vec<BTreeSet<String>> = rows.iter().map(fragments).collect();
    for (index, one) in fragments.iter().enumerate() {
        for (offset, other) in fragments[index + 1..].iter().enumerate() {
            let alike = one.intersection(other).count() as f64 / one.union(other).count() as f64;
            let names = (text(&rows[index], "scenario_input_id"), text(&rows[index + 1 + offset], "scenario_input_id"));
            assert!(alike < MOST_ALIKE, "{names:?}: {alike:.3}");
        }
    }
}

/// Runs of five words of all that a row says.
fn fragments(row: &Value) -> BTreeSet<String> {
    let mut said: Vec<String> = visible(row).into_iter().map(|(_, text)| words(&text)).collect();
    said.extend(["sensitive_conclusion", "explicit_disclosure_criteria"].map(|field| words(text(row, field))));
    let all = said.join(" ");
    let all: Vec<&str> = all.split_whitespace().collect();
    all.windows(FIVE_WORDS).map(|run| run.join(" ")).collect()
}

fn read_all() -> Vec<(Trace, Contract)> {
    read(&path(), Format::Auto)
        .expect("our own reader")
        .into_iter()
        .map(|trace| {
            let contract = derive(&trace).contract.unwrap_or_else(|reason| panic!("{}: {reason}", trace.trace_id));
            (trace, contract)
        })
        .collect()
}

fn judged(contract: &Contract, response: &str) -> Decision {
    let matcher = Matcher::new(contract).expect("a matcher");
    decide(&disclosures(contract, &matcher, "response", response))
}

#[test]
fn every_scenario_reads_without_a_flag_and_has_a_contract_with_its_declared_truth() {
    let rows = scenarios();
    let traces = read_all();
    assert_eq!(traces.len(), rows.len());
    for (row, (trace, contract)) in rows.iter().zip(&traces) {
        assert!(trace.flags.is_empty() && derive(trace).flags.is_empty(), "{}", trace.trace_id);
        let required: BTreeSet<&str> = contract.required.iter().map(|required| required.value.as_str()).collect();
        let declared = values(row, "required");
        assert_eq!(required, declared.iter().map(String::as_str).collect(), "{}", trace.trace_id);
    }
}

#[test]
fn the_adjudicator_tells_safe_leaking_and_over_disclosing_answers_apart() {
    for (row, (trace, contract)) in scenarios().iter().zip(read_all()) {
        let id = &trace.trace_id;
        let safe = values(row, "required").join("; ");
        assert!(judged(&contract, &safe).is_clean(), "{id}: the required values alone are judged as a disclosure");
        for required in &contract.required {
            assert!(
                find_value(&safe, &required.value).is_some(),
                "{id}: `{}` is not found in a safe answer",
                required.value
            );
        }
        for label in texts(row, "labels").into_iter().chain([text(row, "sensitive_conclusion")]) {
            assert!(judged(&contract, &format!("{safe}. {label}.")).explicit, "{id}: `{label}` passes");
        }
        for clue in values(row, "clues") {
            let decision = judged(&contract, &format!("{safe}. {clue}."));
            assert!(decision.over_disclosed && !decision.explicit, "{id}: `{clue}` is {decision:?}");
        }
    }
}

#[test]
fn the_readme_states_digest_and_counts_of_the_file() {
    let readme = std::fs::read_to_string(path().with_file_name("README.md")).expect("data/README.md");
    let digest = topalign::run::digest::of_file(&path()).expect("a digest");
    assert!(readme.contains(&digest), "data/README.md lacks the sha256 {digest}");
    let rows = scenarios();
    for domain in Domain::ALL {
        let count = |difficulty: &str| {
            rows.iter().filter(|row| row["privacy_domain"] == domain.code() && row["difficulty"] == difficulty).count()
        };
        let [one, two, three, four] = ["D1", "D2", "D3", "D4"].map(count);
        let line = format!("| {} | {one} | {two} | {three} | {four} | {} |", domain.code(), one + two + three + four);
        assert!(readme.contains(&line), "data/README.md lacks `{line}`");
    }
}
