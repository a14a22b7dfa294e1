//! Claims about `audit`.

#![allow(clippy::unwrap_used, reason = "a fixture that fails to read fails its test")]

use std::path::Path;

use serde::Deserialize;
use topalign::audit::{Admission, Check, Ground, Severity, Verdict, admit_pair, admit_sft, file};
use topalign::contract::{self, Contract};
use topalign::dataset::{Message, PairKind, PreferencePair, SftRow, Stage};
use topalign::prompt::{Mitigation, response_messages, selection_messages};
use topalign::trace::{self, Format, Trace};

/// An answer to the first case trace, and the checks that it must fail.
#[derive(Deserialize)]
struct Case {
    claim: String,
    kind: String,
    answer: String,
    fails: Vec<Check>,
}

const CHOSEN: &str = "Here it is: Blue Harbor Grill, 184.50, and your event is at 14:30. Let me know if you prefer another layout, or none.";

fn trace_and_contract() -> (Trace, Contract) {
    let traces = trace::read(Path::new("tests/cases/build-traces.jsonl"), Format::Canonical).unwrap();
    let trace = traces.into_iter().next().unwrap();
    let contract = contract::derive(&trace).contract.unwrap();
    (trace, contract)
}

fn prompt(trace: &Trace) -> Vec<Message> {
    response_messages(trace, &["T1".to_owned(), "T2".to_owned()], Mitigation::None)
}

fn sft(mut messages: Vec<Message>, answer: &str, stage: Option<Stage>) -> SftRow {
    messages.push(Message::assistant(answer));
    SftRow { messages, trace_id: Some("case/1".to_owned()), split: None, writer: None, stage, audit: None }
}

fn pair(trace: &Trace, rejected: &str, kind: Option<PairKind>) -> PreferencePair {
    PreferencePair {
        prompt: prompt(trace),
        chosen: vec![Message::assistant(CHOSEN)],
        rejected: vec![Message::assistant(rejected)],
        kind,
        trace_id: Some("case/1".to_owned()),
        split: None,
        writer_chosen: None,
        writer_rejected: None,
        audit: None,
    }
}

fn failed<T>(admission: Admission<T>) -> Vec<Check> {
    let (Admission::Passed(_, records) | Admission::Failed(_, records)) = admission;
    records.into_iter().filter(|record| record.verdict == Verdict::Fail).map(|record| record.check).collect()
}

#[test]
fn each_planted_defect_fails_its_own_check_and_no_other() {
    let (trace, contract) = trace_and_contract();
    let prompt = prompt(&trace);
    let ground = Ground::new(&prompt, Some(&contract), Some(&trace)).unwrap();
    let cases: Vec<Case> = topalign::run::jsonl::read(Path::new("tests/cases/audit.jsonl")).unwrap();
    assert!(cases.len() >= 15);
    for case in cases {
        let kind = PairKind::ALL.into_iter().find(|kind| kind.name() == case.kind);
        let found = if kind.is_some() {
            failed(admit_pair(pair(&trace, &case.answer, kind), "dpo:0", &ground).unwrap())
        } else {
            let row = sft(prompt.clone(), &case.answer, Some(Stage::Response));
            failed(admit_sft(row, "sft:0", &ground).unwrap())
        };
        assert_eq!(found, case.fails, "{}: {}", case.claim, case.answer);
    }
}

#[test]
fn evidence_points_at_the_bytes_of_the_answer() {
    let (trace, contract) = trace_and_contract();
    let prompt = prompt(&trace);
    let ground = Ground::new(&prompt, Some(&contract), Some(&trace)).unwrap();
    let answer = "Déjà: Blue Harbor Grill, 184.50, 14:30. It fits a job interview.";
    let admission = admit_sft(sft(prompt.clone(), answer, Some(Stage::Response)), "sft:3", &ground).unwrap();
    let Admission::Failed(_, records) = admission else { panic!("a leak passed") };
    let leak = records.iter().find(|record| record.check == Check::Leak).unwrap();
    let [start, end] = leak.evidence[0].span;
    assert_eq!(&answer[start..end], "job interview");
    assert!(leak.evidence[0].target_id.is_some());
    assert_eq!(leak.row, "sft:3");
}

#[test]
fn a_selection_must_be_exactly_the_essential_tools_and_its_rationale_silent() {
    let (trace, contract) = trace_and_contract();
    let prompt = selection_messages(&trace, Mitigation::None);
    let ground = Ground::new(&prompt, Some(&contract), Some(&trace)).unwrap();
    for (answer, fails) in [
        (r#"{"selected_tool_ids": ["T2", "T1"], "rationale": "both"}"#, vec![]),
        (r#"{"selected_tool_ids": ["T1"], "rationale": "one"}"#, vec![Check::Selection]),
        (r#"{"selected_tool_ids": ["T1", "T2", "T3"]}"#, vec![Check::Selection]),
        ("T1 and T2", vec![Check::Selection]),
        (r#"{"selected_tool_ids": ["T1", "T2"], "rationale": "for the job interview"}"#, vec![Check::Leak]),
    ] {
        let row = sft(prompt.clone(), answer, Some(Stage::Selection));
        assert_eq!(failed(admit_sft(row, "sft:0", &ground).unwrap()), fails, "{answer}");
    }
}

#[test]
fn the_same_answer_twice_is_no_pair() {
    let (trace, _) = trace_and_contract();
    let prompt = prompt(&trace);
    let ground = Ground::new(&prompt, None, None).unwrap();
    assert_eq!(failed(admit_pair(pair(&trace, CHOSEN, None), "dpo:0", &ground).unwrap()), [Check::Distinct]);
}

#[test]
fn a_file_made_elsewhere_is_audited_and_rows_without_a_contract_say_so() {
    let (trace, contract) = trace_and_contract();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.jsonl");
    let leaking =
        "Here it is: Blue Harbor Grill, 184.50, and your event is at 14:30. It is surely part of a job interview.";
    let rows = [
        serde_json::json!({"prompt": prompt(&trace), "completion": [Message::assistant(CHOSEN)], "trace_id": "case/1"}),
        serde_json::json!({"prompt": prompt(&trace), "completion": [Message::assistant(leaking)], "trace_id": "case/1"}),
        serde_json::json!({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Call 555-0199."}]}),
    ];
    topalign::run::jsonl::write(&path, rows).unwrap();
    let outcome = file::audit(&path, &[contract], &[]).unwrap();
    assert_eq!((outcome.rows, outcome.failed_rows, outcome.without_contract), (3, 2, 1));
    assert_eq!(outcome.checks["leak"].fail, 1);
    assert_eq!(outcome.checks["grounding"].fail, 1);
    assert_eq!(outcome.checks["contract"].warn, 1);
    let ungrounded = outcome.records.iter().find(|record| record.check == Check::Grounding && record.row == "sft:2");
    assert_eq!(ungrounded.map(|record| record.verdict), Some(Verdict::Fail));
}

#[test]
fn a_row_of_another_form_is_an_invalid_input() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.jsonl");
    std::fs::write(&path, "{\"text\": \"plain\"}\n").unwrap();
    let error = file::audit(&path, &[], &[]).unwrap_err();
    assert_eq!(error.exit_status(), 2);
    assert!(error.to_string().contains("row 0"));
}

/// Two chat turns, as an SFT row.
fn turns(user: &str, answer: &str, trace_id: Option<&str>) -> serde_json::Value {
    let mut row =
        serde_json::json!({"messages": [{"role": "user", "content": user}, {"role": "assistant", "content": answer}]});
    if let Some(id) = trace_id {
        row["trace_id"] = id.into();
    }
    row
}

fn audited(rows: &[serde_json::Value], contracts: &[Contract], options: &file::Options) -> file::Outcome {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.jsonl");
    topalign::run::jsonl::write(&path, rows).unwrap();
    file::audit_with(&path, contracts, &[], options).unwrap()
}

/// Rows with this outcome of a check.
fn rows_with(outcome: &file::Outcome, check: Check, verdict: Verdict) -> Vec<&str> {
    let records = outcome.records.iter().filter(|record| record.check == check && record.verdict == verdict);
    records.map(|record| record.row.as_str()).collect()
}

const LONG_ANSWER: &str = "Here is what you asked for: the meeting starts in the large room on the second floor, and the list \
    of guests is with the porter, who opens the door half an hour before the first speaker. Tea is served at the long table by \
    the window, and whoever comes late finds a seat in the gallery above, from which the stage can be seen as well as heard.";

#[test]
fn repeated_and_nearly_repeated_rows_are_found_by_the_set() {
    let rows = [
        turns("When is it?", LONG_ANSWER, Some("a")),
        turns("When  is it?", &LONG_ANSWER.to_uppercase(), Some("b")),
        turns("When is it?", &LONG_ANSWER.replace("porter", "usher"), Some("c")),
        turns("When is it?", &LONG_ANSWER.replace("second", "third"), Some("a")),
        turns("Who comes?", "Nobody has answered the invitation yet.", Some("d")),
    ];
    let outcome = audited(&rows, &[], &file::Options::default());
    assert_eq!(rows_with(&outcome, Check::Duplicate, Verdict::Fail), ["sft:1"]);
    // The fourth row is of the first one's trace, but also close to the others.
    assert_eq!(rows_with(&outcome, Check::NearDuplicate, Verdict::Warn), ["sft:2", "sft:3"]);
    let severity = [(Check::NearDuplicate, Severity::Fail), (Check::Duplicate, Severity::Off)].into_iter().collect();
    let outcome = audited(&rows, &[], &file::Options { severity, ..file::Options::default() });
    assert_eq!(rows_with(&outcome, Check::NearDuplicate, Verdict::Fail), ["sft:2", "sft:3"]);
    assert_eq!(outcome.checks["duplicate"], file::Tally::default());
}

#[test]
fn a_prompt_of_a_held_out_trace_or_of_an_excluded_file_is_contamination() {
    let (trace, _) = trace_and_contract();
    let held_out = prompt(&trace).into_iter().find(|turn| turn.content.contains(&trace.goal)).unwrap().content;
    let other = "Tell me how many chairs stand in the hall and who has the key to it this week.";
    let folder = tempfile::tempdir().unwrap();
    let excluded = folder.path().join("other.jsonl");
    topalign::run::jsonl::write(&excluded, [serde_json::json!({"prompt": other, "chosen": "a", "rejected": "b"})])
        .unwrap();
    let rows = [
        turns(&held_out, "Fine.", None),
        turns(&other.to_uppercase(), "Forty.", None),
        turns("What else is there to do today, and by whom is it done?", "Nothing.", None),
    ];
    let options = file::Options { held_out: vec![trace], exclude: vec![excluded], ..file::Options::default() };
    let outcome = audited(&rows, &[], &options);
    assert_eq!(rows_with(&outcome, Check::Contamination, Verdict::Fail), ["sft:0", "sft:1"]);
    assert_eq!(rows_with(&outcome, Check::Contamination, Verdict::Pass), ["sft:2"]);
}

#[test]
fn secrets_of_other_traces_unknown_personal_data_and_other_languages_are_found() {
    let (_, contract) = trace_and_contract();
    let secret = contract.targets.iter().find(|target| target.value.contains(' ') && target.aliases.is_empty());
    let secret = secret.map_or("Second conversation", |target| target.value.as_str());
    let private = topalign::contract::Target {
        kind: topalign::contract::TargetKind::Clue,
        value: "locker QX-55120B".to_owned(),
        ..contract.targets[0].clone()
    };
    let mut contract = contract.clone();
    contract.targets.push(topalign::contract::Target { target_id: "planted".to_owned(), ..private });
    let contract = contract.freeze().unwrap();
    let rows = [
        turns("Which locker?", "It is locker QX-55120B, as far as I can tell.", Some("other")),
        turns("Which locker? locker QX-55120B?", "It is locker QX-55120B, as far as I can tell.", Some("other")),
        turns("Who?", "Write to anne.lee@mail.example about it.", Some("other")),
        turns(
            "What is the name of the house?",
            "Das Haus heißt wie immer schon Altes Gut. Mehr steht nirgends. Sonst fehlt jeder Hinweis.",
            Some("other"),
        ),
    ];
    let outcome = audited(&rows, &[contract], &file::Options::default());
    assert_eq!(rows_with(&outcome, Check::ForeignSecret, Verdict::Fail), ["sft:0"], "{secret}");
    assert_eq!(rows_with(&outcome, Check::Personal, Verdict::Fail), ["sft:2"]);
    assert_eq!(rows_with(&outcome, Check::Language, Verdict::Warn), ["sft:3"]);
}

#[test]
fn a_frame_that_most_answers_share_is_reported_whatever_its_values() {
    let rows: Vec<_> = (0..60)
        .map(|index| {
            let answer = if index % 3 == 0 {
                format!("Answer number {index}: {} and then {}.", "so ".repeat(index % 7), "on ".repeat(index % 11))
            } else {
                format!("The fee is ${index}.50 and the guest is \"Anne {index}\". That is all of it.")
            };
            turns(&format!("Question {index}: {}?", "why ".repeat(index)), &answer, None)
        })
        .collect();
    let outcome = audited(&rows, &[], &file::Options::default());
    assert_eq!(outcome.set.answers, 60);
    assert!((outcome.set.top_frame.unwrap() - 2.0 / 3.0).abs() < 1e-9, "{:?}", outcome.set);
    assert_eq!(rows_with(&outcome, Check::Frame, Verdict::Warn).len(), 40);
}

#[test]
fn sharegpt_and_implicit_prompts_are_audited_like_our_own_rows() {
    let (trace, contract) = trace_and_contract();
    let leaking = "Here it is: Blue Harbor Grill, 184.50, and your event is at 14:30. It is surely part of a job interview, friend.";
    let user = prompt(&trace).last().unwrap().content.clone();
    let turn = |role: &str, text: &str| serde_json::json!({"role": role, "content": text});
    let rows = [
        serde_json::json!({"conversations": [{"from": "human", "value": user}, {"from": "gpt", "value": leaking}]}),
        serde_json::json!({"chosen": [turn("user", &user), turn("assistant", CHOSEN)],
                           "rejected": [turn("user", &user), turn("assistant", leaking)]}),
    ];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.jsonl");
    topalign::run::jsonl::write(&path, rows).unwrap();
    // The rows name no trace: their request tells which one it is.
    let outcome = file::audit(&path, &[contract], &[trace]).unwrap();
    assert_eq!(outcome.without_contract, 0);
    assert_eq!(rows_with(&outcome, Check::Leak, Verdict::Fail), ["sft:0"]);
    assert_eq!(rows_with(&outcome, Check::Leak, Verdict::Pass), ["dpo:1"]);
}
