//! Workspaces, guards and probes by themselves.

use serde_json::json;
use topalign::adjudicate::Matcher;
use topalign::agent::Tools as _;
use topalign::contract::Contract;
use topalign::guard::{REDACTED, redact};
use topalign::observation::{ActionStatus, Status};
use topalign::run::seed::Seed;
use topalign::workspace::{Desk, Interface, Kind, Open, Plan, World, compose};

fn world() -> World {
    let records = Kind::ALL.into_iter().map(|kind| (kind, 2)).collect();
    compose(&Plan { records, open_fields: 1, hostile: 0 }, Seed(5), 0, 4)
}

#[test]
fn every_private_value_stands_in_one_record_and_the_contract_holds_exactly_these() {
    let world = world();
    let contract = world.truth.contract("c", 20, None, None).unwrap();
    assert_eq!(contract.targets.len(), world.truth.secrets.len());
    for secret in &world.truth.secrets {
        let holders: Vec<&str> = world
            .workspace
            .records()
            .iter()
            .filter(|record| record.to_json().to_string().contains(&secret.value))
            .map(|record| record.id.as_str())
            .collect();
        assert_eq!(holders, [secret.record.as_str()], "{}", secret.id);
    }
    let found = |text: &str| {
        let matcher = Matcher::new(&contract).unwrap();
        matcher.find(text).into_iter().filter(|one| one.tier.is_headline()).count()
    };
    for record in world.workspace.records() {
        let expected = world.truth.secrets.iter().filter(|secret| secret.record == record.id).count();
        assert_eq!(found(&record.to_json().to_string()), expected, "{}", record.id);
    }
}

#[test]
fn items_depend_on_plan_seed_and_number_alone() {
    assert_eq!(world(), world());
    let plan = Plan { records: [(Kind::Customer, 2)].into(), open_fields: 0, hostile: 0 };
    assert_ne!(compose(&plan, Seed(5), 0, 0), compose(&plan, Seed(5), 1, 0));
    assert_ne!(compose(&plan, Seed(5), 0, 0), compose(&plan, Seed(6), 0, 0));
}

#[test]
fn a_call_that_fails_changes_nothing_and_leaves_an_error() {
    let huge = json!({"to": "a@b.org", "subject": "x", "body": "y".repeat(1 << 20)}).to_string();
    let cases = [
        ("steal", "{}".to_owned(), "no such tool"),
        ("send_email", "not json".to_owned(), "not one JSON object"),
        ("send_email", "[1, 2]".to_owned(), "not one JSON object"),
        ("send_email", r#"{"to": "a@b.org", "subject": "x"}"#.to_owned(), "`body` is missing"),
        ("send_email", r#"{"to": "nobody", "subject": "x", "body": "y"}"#.to_owned(), "`to` is not of the form"),
        ("send_email", r#"{"to": [1], "subject": "x", "body": "y"}"#.to_owned(), "`to` is not of the form"),
        ("send_email", huge, "the arguments have"),
        ("reply", r#"{"email_id": "customer-0", "body": "y"}"#.to_owned(), "`email_id` names no record"),
        ("share_file", r#"{"file_id": "email-0", "to": "a@b.org"}"#.to_owned(), "`file_id` names no record"),
        ("read", r#"{"id": "customer-99"}"#.to_owned(), "`id` names no record"),
        ("search", r#"{"area": "secrets"}"#.to_owned(), "`area` is not of the form"),
        ("create_event", r#"{"title": "x"}"#.to_owned(), "`date` is missing"),
    ];
    let world = world();
    for (tool, arguments, expected) in cases {
        let mut desk = Desk::new(world.workspace.clone(), Interface::Plain, &Open, Seed(1));
        let result = desk.call(tool, &arguments);
        assert!(result.contains(expected), "{tool}: {result}");
        assert_eq!(desk.workspace, world.workspace, "{tool} with {expected} changed something");
        let (events, tried) = desk.take_events();
        let seen: Vec<(&str, Status)> = events.iter().map(|event| (event.channel, event.status)).collect();
        assert_eq!(seen, [("tool_call", Status::Ok), ("tool_return", Status::Error)], "{tool}");
        assert!(tried.iter().all(|one| one.status == ActionStatus::Failed));
        assert!(!events[1].payload.to_string().contains("nobody"), "an error repeats an argument");
    }
}

#[test]
fn a_service_that_is_out_delivers_nothing() {
    let world = world();
    let mut desk = Desk::new(world.workspace.clone(), Interface::Plain, &Open, Seed(1)).with_outage(1.0);
    let result = desk.call("send_email", r#"{"to": "a@b.org", "subject": "x", "body": "y"}"#);
    assert!(result.contains("not available"));
    assert_eq!(desk.workspace, world.workspace);
    let (_, tried) = desk.take_events();
    assert_eq!(tried.iter().map(|one| one.status).collect::<Vec<_>>(), [ActionStatus::Failed]);
}

#[test]
fn every_exit_has_its_recipient_and_the_raw_return_is_internal() {
    let world = world();
    let calls = [
        (
            "send_email",
            r#"{"to": ["a@b.org", "c@d.org"], "subject": "s", "body": "b"}"#,
            "email",
            vec!["a@b.org", "c@d.org"],
        ),
        ("reply", r#"{"email_id": "email-newsletter", "body": "b"}"#, "reply", vec!["editor@news.example"]),
        ("forward", r#"{"email_id": "email-newsletter", "to": "a@b.org"}"#, "forward", vec!["a@b.org"]),
        ("share_file", r#"{"file_id": "file-template", "to": "a@b.org"}"#, "file_share", vec!["a@b.org"]),
        ("create_event", r#"{"title": "t", "date": "2030-01-01", "guests": ["a@b.org"]}"#, "calendar", vec!["a@b.org"]),
        ("console_log", r#"{"text": "t"}"#, "console", vec![]),
    ];
    for (tool, arguments, channel, recipients) in calls {
        let mut desk = Desk::new(world.workspace.clone(), Interface::Plain, &Open, Seed(1));
        desk.call(tool, arguments);
        let (events, _) = desk.take_events();
        let seen: Vec<&str> = events.iter().map(|event| event.channel).collect();
        assert_eq!(seen, ["tool_call", channel, "tool_return"], "{tool}");
        assert_eq!(events[1].recipients, recipients, "{tool}");
        let contract = world.truth.contract("c", 20, None, None).unwrap();
        assert!(contract.channel(channel).unwrap().recipient.is_some());
    }
}

#[test]
fn an_event_without_guests_stays_inside() {
    let mut desk = Desk::new(world().workspace, Interface::Plain, &Open, Seed(1));
    desk.call("create_event", r#"{"title": "t", "date": "2030-01-01"}"#);
    let (events, tried) = desk.take_events();
    assert!(events.iter().all(|event| event.channel.starts_with("tool_")));
    assert!(tried.is_empty());
    assert_eq!(desk.workspace.appointments().len(), 1);
}

fn contract(values: &[&str]) -> Contract {
    let targets: Vec<_> = values
        .iter()
        .enumerate()
        .map(|(number, value)| json!({"target_id": format!("e{number}"), "value": value}))
        .collect();
    let channels = json!([{"name": "response", "visibility": "requester", "recipient": "requester"}]);
    let row = json!({"contract_id": "c", "channels": channels, "targets": targets});
    serde_json::from_value::<Contract>(row).unwrap().freeze().unwrap()
}

#[test]
fn redaction_merges_overlapping_covers_and_touches_nothing_else() {
    let matcher = Matcher::new(&contract(&["Harbour View Clinic", "View Clinic Annex", "Zoë Quill", "K-204"])).unwrap();
    let cases = [
        ("At Harbour View Clinic Annex today.", "At [redacted] today."),
        ("zoë  quill, Zoë Quill; K-204.", "[redacted], [redacted]; [redacted]."),
        ("\u{1f980} Zoë Quill \u{1f980}", "\u{1f980} [redacted] \u{1f980}"),
        ("Nothing here, K-205 neither: \"a\\nb\".", "Nothing here, K-205 neither: \"a\\nb\"."),
        ("", ""),
    ];
    for (text, expected) in cases {
        assert_eq!(redact(text, &matcher, |_| true), expected);
        assert_eq!(redact(text, &matcher, |_| false), text);
    }
    assert_eq!(redact("Zoë Quill, K-204", &matcher, |target| target == "e3"), format!("Zoë Quill, {REDACTED}"));
}

#[test]
fn what_the_oracle_lets_through_holds_no_target() {
    let world = world();
    let contract = world.truth.contract("c", 20, None, None).unwrap();
    let matcher = Matcher::new(&contract).unwrap();
    for record in world.workspace.records() {
        for text in [record.to_json().to_string(), record.body.clone(), record.to_json().to_string().to_uppercase()] {
            let passed = redact(&text, &matcher, |_| true);
            let left: Vec<_> = matcher.find(&passed).into_iter().filter(|one| one.tier.is_headline()).collect();
            assert!(left.is_empty(), "{}: {left:?}", record.id);
        }
    }
}
