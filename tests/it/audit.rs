//! Claims about `audit`.

#![allow(clippy::unwrap_used, reason = "a fixture that fails to read fails its test")]

use std::path::Path;

use serde::Deserialize;
use topalign::audit::{Admission, Check, Ground, Verdict, admit_pair, admit_sft, file};
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
