//! Claims about bad input: a clear error or a counted warning, never a wrong number.

use serde_json::{Value, json};
use topalign::exposure::{Settings, Summary};

use super::{Rows, contract, log, row, with};

/// The analysis must be refused with all of this.
fn assert_refused(rows: &Rows, parts: &[&str]) {
    let error = rows.analyse().unwrap_err();
    assert_eq!(error.exit_status(), 2, "{error}");
    for part in parts {
        assert!(error.to_string().contains(part), "`{part}` is not in: {error}");
    }
    assert!(!error.to_string().contains("Ada Quill"), "a target is in the error: {error}");
}

fn warning(summary: &Summary, part: &str) -> u64 {
    summary.warnings.iter().filter(|warning| warning.what.contains(part)).map(|warning| warning.count).sum()
}

#[test]
fn requests_outside_the_budget_and_undeclared_channels_are_refused() {
    for request in [0, 21] {
        let rows = log(vec![row("s", request, "console", "Ada Quill")]);
        assert_refused(&rows, &["observations.jsonl:1", "outside the contract's budget", "expected 1 to 20"]);
    }
    assert_refused(&log(vec![row("s", 1, "sms", "x")]), &["not declared by the contract", "`sms`", "email, console"]);
}

#[test]
fn a_session_without_a_contract_is_refused() {
    let mut rows = log(vec![row("s", 1, "console", "x")]);
    rows.observations[0]["contract_id"] = json!("other");
    assert_refused(&rows, &["session s: no contract", "`other`"]);
}

#[test]
fn an_edited_contract_and_an_empty_target_set_are_refused() {
    let rows = log(vec![row("s", 1, "console", "Ada Quill")]);
    let folder = tempfile::tempdir().unwrap();
    let files = rows.write(folder.path());
    topalign::exposure::analyse(&files, &Settings::default(), None).unwrap();
    // The frozen contract that the analysis wrote is accepted, an edit of it is not.
    let mut frozen: Vec<Value> = topalign::run::jsonl::read(&files.out.join("contracts.jsonl")).unwrap();
    let again = Rows { contracts: frozen.clone(), ..rows.clone() };
    assert!(again.analyse().is_ok());
    frozen[0]["targets"][0]["value"] = json!("Ada Quilt");
    assert_refused(&Rows { contracts: frozen, ..rows.clone() }, &["changed after it was frozen"]);
    let mut empty = rows.clone();
    empty.contracts[0]["targets"] = json!([]);
    assert_refused(&empty, &["no targets"]);
    let mut two = rows;
    two.contracts.push(contract("k"));
    assert!(two.analyse().is_ok(), "the same contract twice is one");
    two.contracts[1]["budget"] = json!(5);
    assert_refused(&two, &["two different contracts"]);
}

#[test]
fn a_contract_that_was_edited_after_an_observation_is_refused() {
    let mut rows = log(vec![row("s", 1, "console", "Ada Quill")]);
    let digest = rows.analyse().unwrap().0.contracts["k"].clone();
    rows.observations[0]["contract_digest"] = json!(digest);
    assert!(rows.analyse().is_ok());
    rows.contracts[0]["authorized"] = json!([{"recipient": "requester", "target_id": "a"}]);
    assert_refused(&rows, &["edited after this observation", &digest]);
}

#[test]
fn a_session_has_one_contract_condition_and_pair_key() {
    let first = with(row("s", 1, "console", "x"), json!({"condition": "on", "pair_key": {"item": 1, "seed": 2}}));
    let mut rows = log(vec![first.clone(), with(first.clone(), json!({"pair_key": {"seed": 2, "item": 1}}))]);
    assert!(rows.analyse().is_ok(), "the order of a key's fields means nothing");
    rows.observations[1]["condition"] = json!("off");
    assert_refused(&rows, &["observations.jsonl:2", "two values of `condition`"]);
    rows.observations[1] = with(first, json!({"pair_key": {"item": 1, "seed": 3}}));
    assert_refused(&rows, &["two values of `pair_key`"]);
}

#[test]
fn an_event_id_is_one_event_with_one_content() {
    let event = with(row("s", 1, "console", "Ada Quill"), json!({"event_id": "x"}));
    let (summary, matches) = log(vec![event.clone(), event.clone()]).analyse().unwrap();
    assert_eq!((summary.counts.duplicates, matches.len(), summary.sessions[0].observations), (1, 1, 1));
    let rows = log(vec![event.clone(), with(event, json!({"payload": "Boris Thane"}))]);
    assert_refused(&rows, &["one `event_id` with two contents", "`x`"]);
}

#[test]
fn two_sessions_of_a_condition_with_one_pair_key_are_in_no_contrast_and_counted() {
    let keyed = |session: &str, condition: &str, item: u8| {
        with(row(session, 1, "console", "x"), json!({"condition": condition, "pair_key": {"item": item}}))
    };
    let rows = log(vec![
        keyed("s1", "on", 1),
        keyed("s2", "on", 1),
        keyed("s3", "on", 1),
        keyed("s4", "off", 1),
        keyed("s5", "on", 2),
        keyed("s6", "off", 2),
    ]);
    let (summary, _) = rows.analyse().unwrap();
    assert_eq!((summary.aggregate.contrasts[0].pairs, warning(&summary, "one pair key")), (1, 3));
    let unpaired = &summary.aggregate.unpaired[0];
    assert_eq!((unpaired.ambiguous.as_slice(), unpaired.only_a.len()), (&["{\"item\":1}".to_owned()][..], 0));
}

#[test]
fn one_sided_conditions_have_contrasts_without_p_and_list_everyone() {
    let keyed = |session: &str, condition: &str, item: u8| {
        with(row(session, 1, "console", "x"), json!({"condition": condition, "pair_key": {"item": item}}))
    };
    let aggregate = log(vec![keyed("s1", "on", 1), keyed("s2", "off", 2)]).analyse().unwrap().0.aggregate;
    let contrast = &aggregate.contrasts[0];
    assert_eq!((contrast.pairs, contrast.p, contrast.difference), (0, None, None));
    assert!(contrast.reason.is_some());
    assert_eq!(
        (aggregate.unpaired[0].only_a.as_slice(), aggregate.unpaired[0].only_b.len()),
        (&["s1".to_owned()][..], 1)
    );
}

#[test]
fn candidates_and_actions_of_unknown_sessions_are_counted() {
    let mut rows = log(vec![row("s", 1, "console", "Ada Quill")]);
    rows.candidates = vec![json!({"session_id": "ghost", "candidates": ["Ada Quill"]})];
    rows.actions = vec![json!({"session_id": "ghost", "request": 1, "channel": "email", "status": "delivered"})];
    let (summary, _) = rows.analyse().unwrap();
    assert_eq!((warning(&summary, "candidates of a session"), warning(&summary, "actions of a session")), (1, 1));
    assert_eq!((summary.sessions.len(), summary.sessions[0].recognition.is_none()), (1, true));
}

#[test]
fn contradictory_unreadable_and_mixed_timestamps_are_counted() {
    let at = |request: u32, channel: &str, time: &str| {
        with(row("s", request, channel, "Ada Quill"), json!({"timestamp": time}))
    };
    let kinds = |rows: &Rows| {
        let (summary, _) = rows.analyse().unwrap();
        (summary.sessions[0].paths, summary.warnings)
    };
    let rows = log(vec![at(1, "tool_return", "2026-01-02T00:00:00Z"), at(2, "console", "2026-01-01T00:00:00Z")]);
    let (paths, warnings) = kinds(&rows);
    assert_eq!((paths.visible_first, warnings.len()), (1, 1), "timestamps are followed");
    let mixed = log(vec![at(1, "tool_return", "2026-01-01T00:00:00"), at(1, "console", "2026-01-01T00:00:01Z")]);
    let (paths, warnings) = kinds(&mixed);
    assert_eq!((paths.unordered, warnings.len()), (1, 1), "they cannot be compared");
    let (paths, warnings) = kinds(&log(vec![at(1, "tool_return", "noon"), at(1, "console", "2026-01-01T00:00:01Z")]));
    assert_eq!((paths.unordered, warnings.len()), (1, 1));
}

#[test]
fn timestamps_and_indices_that_tell_different_paths_are_counted() {
    let at = |channel: &str, index: u64, second: u64| {
        let time = json!({"index": index, "timestamp": format!("2026-01-01T00:00:0{second}Z")});
        with(row("s", 1, channel, "Ada Quill"), time)
    };
    let part = "timestamps and indices";
    let (summary, _) = log(vec![at("tool_return", 1, 5), at("console", 2, 1)]).analyse().unwrap();
    assert_eq!((summary.sessions[0].paths.visible_first, warning(&summary, part)), (1, 1), "timestamps are followed");
    let (summary, _) = log(vec![at("tool_return", 1, 1), at("console", 2, 5)]).analyse().unwrap();
    assert_eq!((summary.sessions[0].paths.same_request, warning(&summary, part)), (1, 0));
}

#[test]
fn delivered_actions_that_no_observation_has_are_counted() {
    let mut rows = log(vec![row("s", 1, "email", "Ada Quill")]);
    let action = |request: u32, channel: &str, status: &str| json!({"session_id": "s", "request": request, "channel": channel, "status": status});
    rows.actions = vec![action(1, "emial", "delivered"), action(9, "email", "delivered"), action(3, "email", "failed")];
    let (summary, _) = rows.analyse().unwrap();
    assert_eq!(warning(&summary, "delivered actions without an observation"), 2);
    rows.actions = vec![action(1, "email", "delivered")];
    assert_eq!(warning(&rows.analyse().unwrap().0, "delivered actions without an observation"), 0);
}

#[test]
fn sessions_that_lack_a_condition_or_the_key_of_clusters_are_counted() {
    let keyed = |session: &str, more: Value| with(row(session, 1, "console", "x"), more);
    let rows = log(vec![
        keyed("s1", json!({"condition": "on", "pair_key": {"item": 1}})),
        keyed("s2", json!({"condition": "off", "pair_key": {"item": 1}})),
        keyed("s3", json!({"pair_key": {"item": 1}})),
        keyed("s4", json!({"condition": "on"})),
    ]);
    let settings = Settings { cluster: Some("itme".to_owned()), ..Settings::default() };
    let (summary, _) = rows.analyse_with(&settings).unwrap();
    let counts = ["without a condition", "without a pair key", "lacks the cluster's key"];
    assert_eq!(counts.map(|part| warning(&summary, part)), [1, 1, 4]);
}

#[test]
fn a_condition_called_none_is_not_the_absence_of_one() {
    let named = |session: &str, condition: &str| with(row(session, 1, "console", "x"), json!({"condition": condition}));
    for name in ["none", "all"] {
        let rows = log(vec![row("s1", 1, "console", "Ada Quill"), named("s2", name), named("s3", name)]);
        let (summary, _) = rows.analyse().unwrap();
        let sizes: Vec<usize> = summary.aggregate.by_condition.values().map(|group| group.n).collect();
        assert_eq!(sizes, [1, 2], "{name}");
        assert_eq!(summary.condition_of(&summary.sessions[1]), name);
        assert_ne!(summary.condition_of(&summary.sessions[0]), name);
    }
}

#[test]
fn an_answer_channel_that_no_contract_knows_is_refused_and_an_internal_outlet_is_counted() {
    let mut rows = log(vec![row("s", 1, "console", "Ada Quill")]);
    for name in ["consol", "tool_return"] {
        let settings = Settings { answer_channel: Some(name.to_owned()), ..Settings::default() };
        let error = rows.analyse_with(&settings).unwrap_err();
        assert_eq!(error.exit_status(), 2);
        assert!(error.to_string().contains(name), "{error}");
    }
    rows.contracts[0]["expected_outlet"] = json!("tool_return");
    assert_eq!(warning(&rows.analyse().unwrap().0, "expected outlets that are internal"), 1);
}

#[test]
fn names_from_the_input_cannot_steer_a_terminal() {
    let session = with(row("s", 1, "console", "x"), json!({"condition": "on\u{1b}]0;title\u{7}\nfake: 9 sessions"}));
    let text = topalign::exposure::text_summary(&log(vec![session]).analyse().unwrap().0);
    assert!(text.chars().all(|character| character == '\n' || !character.is_control()), "{text:?}");
    assert!(!text.contains("\nfake"), "{text}");
}

#[test]
fn nul_bytes_are_text_when_escaped_and_an_error_when_raw() {
    let (summary, _) = log(vec![row("s", 1, "console", "a\0Ada Quill\0b")]).analyse().unwrap();
    assert_eq!(summary.sessions[0].exposed, 1);
    let folder = tempfile::tempdir().unwrap();
    let files = log(Vec::new()).write(folder.path());
    let raw = "{\"session_id\":\"s\",\"contract_id\":\"k\",\"request\":1,\"channel\":\"console\",\"payload\":\"\0\"}\n";
    std::fs::write(&files.observations[0], raw).unwrap();
    let error = topalign::exposure::analyse(&files, &Settings::default(), None).unwrap_err();
    assert!(error.to_string().contains("observations.jsonl:1:"), "{error}");
    assert!(!files.out.join("summary.json").exists() && !files.out.join("matches.jsonl").exists());
}

#[test]
fn a_target_across_the_windows_of_a_huge_payload_is_found_once() {
    // 3 MiB: the name stands over the first seam.
    let mut payload = "lorem ipsum ".repeat(87_381);
    payload.push_str("Ada Quill ");
    payload.push_str(&"dolor sit. ".repeat(190_000));
    let (summary, matches) = log(vec![row("s", 1, "console", payload.as_str())]).analyse().unwrap();
    assert_eq!((summary.sessions[0].exposed, matches.len(), warning(&summary, "windows")), (1, 1, 1));
    assert_eq!(&payload[matches[0].span[0]..matches[0].span[1]], "Ada Quill");
}

#[test]
fn a_word_cut_by_a_seam_is_no_target() {
    // Windows start at 1 MiB less 16 KiB and end at 1 MiB: `can` stands before the one seam, `son` after the other.
    let filler = |length: usize| "x".repeat(length - 1) + " ";
    let tail = "dolor sit. ".repeat(190_000);
    for (before, word) in [(1_032_189, "canada quill "), (1_048_567, "Ada Quillson ")] {
        let payload = filler(before) + word + &tail;
        let (summary, _) = log(vec![row("s", 1, "console", payload.as_str())]).analyse().unwrap();
        assert_eq!(summary.sessions[0].exposed, 0, "{word}");
    }
}

#[test]
fn an_empty_log_has_no_figures() {
    let (summary, _) = log(Vec::new()).analyse().unwrap();
    assert!(summary.sessions.is_empty() && summary.aggregate.overall.ecr.mean.is_none());
}

/// The matches in one payload, written into the log as it is given here.
fn matches_in(payload: &str, targets: &Value) -> Vec<topalign::exposure::MatchRow> {
    let mut rows = log(Vec::new());
    rows.contracts[0]["targets"] = targets.clone();
    let folder = tempfile::tempdir().unwrap();
    let files = rows.write(folder.path());
    let start = r#"{"session_id":"s","contract_id":"k","request":1,"channel":"console","payload":"#;
    std::fs::write(&files.observations[0], format!("{start}{payload}}}\n")).unwrap();
    topalign::exposure::analyse(&files, &Settings::default(), None).unwrap();
    topalign::run::jsonl::read(&files.out.join("matches.jsonl")).unwrap()
}

#[test]
fn a_number_is_searched_with_all_its_digits() {
    let account = json!([{"target_id": "a", "value": "12345678901234567890123", "type": "account"}]);
    let payload = r#"{"id": 12345678901234567890123}"#;
    let found = matches_in(payload, &account);
    assert_eq!((found.len(), found[0].tier), (1, topalign::adjudicate::Tier::Exact));
    assert_eq!(&payload[found[0].span[0]..found[0].span[1]], "12345678901234567890123");
}

#[test]
fn spans_are_those_of_the_payload_as_it_is_written() {
    let label = json!([{"target_id": "a", "value": "Alpha Centauri"}]);
    let payload = r#"{"b": "x",   "t": "Alpha Centauri"}"#;
    let found = matches_in(payload, &label);
    let spans: Vec<&str> = found.iter().map(|found| &payload[found.span[0]..found.span[1]]).collect();
    assert_eq!(spans, ["Alpha Centauri"]);
}

#[test]
fn what_is_absent_from_the_figures_has_a_reason() {
    let session = with(row("s", 1, "console", "Ada Quill"), json!({"condition": "on"}));
    let summary = serde_json::to_value(log(vec![session]).analyse().unwrap().0).unwrap();
    let aggregate = &summary["aggregate"];
    for group in [&aggregate["overall"], &aggregate["by_condition"]["on"]] {
        assert!(group["recognition"].is_null() && group["recognition_reason"].is_string(), "{group}");
    }
    let paths = &aggregate["paths"];
    assert!(paths["internal_first_of_two_sided"].is_null(), "{paths}");
    assert!(paths["internal_first_of_two_sided_reason"].is_string(), "{paths}");
}
