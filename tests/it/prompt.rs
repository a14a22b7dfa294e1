//! Claims about `prompt`.

#![allow(clippy::unwrap_used, reason = "a fixture that fails to read fails its test")]

use std::path::Path;

use serde::Deserialize;
use topalign::prompt::{
    Mitigation, SelectionFault, read_selection, response_messages, selection_answer, selection_messages,
};
use topalign::trace::{self, Format, Trace};

fn traces() -> Vec<Trace> {
    trace::read(Path::new("tests/cases/build-traces.jsonl"), Format::Canonical).unwrap()
}

#[derive(Deserialize)]
struct Case {
    claim: String,
    reply: String,
    #[serde(default)]
    selected: Vec<String>,
    #[serde(default)]
    unknown: Vec<String>,
    rationale: Option<String>,
    missing: Option<String>,
    fault: Option<String>,
}

#[test]
fn only_the_list_of_a_whole_json_object_selects() {
    let trace = &traces()[0];
    let cases: Vec<Case> = topalign::run::jsonl::read(Path::new("tests/cases/selection.jsonl")).unwrap();
    assert!(cases.len() >= 18);
    for case in cases {
        match (read_selection(&case.reply, trace), case.fault) {
            (Ok(selection), None) => {
                assert_eq!(selection.selected_tool_ids, case.selected, "{}", case.claim);
                assert_eq!(selection.unknown_tool_ids, case.unknown, "{}", case.claim);
                assert_eq!(selection.rationale, case.rationale, "{}", case.claim);
                assert_eq!(selection.missing_capability, case.missing, "{}", case.claim);
            }
            (Err(fault), Some(expected)) => {
                assert!(format!("{fault:?}").starts_with(&expected), "{}: {fault:?}", case.claim);
            }
            (outcome, _) => panic!("{}: {outcome:?}", case.claim),
        }
    }
}

#[test]
fn unknown_ids_are_listed_in_the_fault() {
    let fault = read_selection(r#"{"selected_tool_ids": ["T9", "T8", "T9"]}"#, &traces()[0]).unwrap_err();
    assert_eq!(fault, SelectionFault::OnlyUnknown(vec!["T9".into(), "T8".into()]));
}

#[test]
fn the_target_text_reads_as_the_essential_tools() {
    for trace in traces() {
        let selection = read_selection(&selection_answer(&trace), &trace).unwrap();
        assert_eq!(selection.selected_tool_ids, ["T1", "T2"]);
        assert!(selection.rationale.is_some());
        assert_eq!(selection.missing_capability, None);
    }
}

#[test]
fn stage_1_shows_no_result_and_stage_2_only_those_selected() {
    let trace = &traces()[0];
    let first = selection_messages(trace, Mitigation::None);
    assert!(first[1].content.contains(&trace.goal) && first[1].content.contains("T3 weather: Forecasts the weather."));
    let second = response_messages(trace, &["T2".to_owned(), "T9".to_owned()], Mitigation::None);
    for tool in &trace.tools {
        assert!(!first[1].content.contains(&tool.return_text));
        assert_eq!(second[1].content.contains(&tool.return_text), tool.tool_id == "T2");
        assert!(!second[1].content.contains(&tool.name));
    }
    assert!(!first.iter().chain(&second).any(|turn| turn.content.contains(&trace.sensitive_conclusion)));
}

#[test]
fn system_prompts_stay_under_sixty_words_and_mitigations_only_add_to_them() {
    let trace = &traces()[0];
    for build in
        [&(|mitigation| selection_messages(trace, mitigation)) as &dyn Fn(Mitigation) -> Vec<_>, &|mitigation| {
            response_messages(trace, &["T1".to_owned()], mitigation)
        }]
    {
        let plain = build(Mitigation::None);
        for mitigation in Mitigation::ALL {
            let turns = build(mitigation);
            assert_eq!(turns[0].content, format!("{}{}", plain[0].content, mitigation.suffix()));
            assert_eq!(turns[1], plain[1]);
            assert!(turns[0].content.split_whitespace().count() < 70);
        }
        assert!(plain[0].content.split_whitespace().count() < 60);
    }
}
