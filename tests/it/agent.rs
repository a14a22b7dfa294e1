//! Claims about agents behind an endpoint, against a server that answers as scripted.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use topalign::build::{Drawing, Wanted, propose};
use topalign::completion::{Completion, Finish};
use topalign::dataset::PairKind;
use topalign::endpoint::{CallError, Client, EndpointSettings};
use topalign::error::Error;
use topalign::generate::{AgentProtocol, EndpointAgent};
use topalign::prompt::Mitigation;
use topalign::recipe::settings::{GenerateSettings, SelectionSource};
use topalign::run::seed::Seed;
use topalign::trace::Trace;

use crate::server::{Answer, Received, Server};

fn trace(id: &str) -> Trace {
    let tool = |tool_id: &str, essential: bool| {
        json!({"tool_id": tool_id, "name": format!("look up {tool_id}"), "description": "what it does",
            "parameters": ["user_id"], "return_text": format!("{{\"result\": \"of {tool_id}\"}}"), "essential": essential})
    };
    serde_json::from_value(json!({
        "trace_id": id, "source": {"format": "test", "file": "none", "row": 0}, "domain": "PID",
        "goal": format!("goal of {id}"), "tools": [tool("T1", true), tool("T2", true), tool("T3", false)],
        "sensitive_conclusion": "none",
    }))
    .unwrap()
}

fn traces(count: usize) -> Vec<Trace> {
    (0..count).map(|index| trace(&format!("test/{index}"))).collect()
}

fn client(server: &Server) -> Client {
    let settings = EndpointSettings {
        retries: 1,
        first_wait_seconds: 0.01,
        timeout_seconds: 10.0,
        concurrency: 3,
        ..EndpointSettings::new(server.url.parse().unwrap(), "test-model")
    };
    Client::new(settings, Seed(1)).unwrap()
}

fn answer(
    client: &Client,
    protocol: AgentProtocol,
    settings: &GenerateSettings,
    traces: &[Trace],
) -> Result<Vec<Completion>, Error> {
    let agent = EndpointAgent {
        chat: client,
        workers: client.settings().concurrency,
        protocol,
        settings,
        mitigation: Mitigation::Tnm,
        system: "agent",
        seed: Seed(7),
    };
    agent.answer_traces(traces, |_| Ok(()))
}

fn said(request: &Received) -> String {
    request.body["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|turn| turn["content"].as_str())
        .collect::<Vec<_>>()
        .join("\n")
}

fn is_stage_1(request: &Received) -> bool {
    said(request).contains("selected_tool_ids")
}

const SELECTION: &str = r#"{"selected_tool_ids": ["T2"], "rationale": "needed", "missing_capability_if_any": null}"#;

#[test]
fn stage_2_sees_the_results_of_the_selected_tools_only_and_completions_keep_the_order_of_the_traces() {
    let server = Server::start(|number, request| {
        // The first requests take longest.
        std::thread::sleep(Duration::from_millis(30_u64.saturating_sub(5 * number as u64)));
        if is_stage_1(request) { Answer::text(SELECTION) } else { Answer::text("the answer") }
    });
    let traces = traces(7);
    let completions = answer(&client(&server), AgentProtocol::TwoStage, &GenerateSettings::default(), &traces).unwrap();
    let ids: Vec<&str> = completions.iter().map(|completion| completion.trace_id.as_str()).collect();
    assert_eq!(ids, traces.iter().map(|trace| trace.trace_id.as_str()).collect::<Vec<_>>());
    for completion in &completions {
        assert_eq!(completion.selected_tool_ids, ["T2"]);
        assert_eq!(
            (completion.rationale.as_deref(), completion.response.as_deref()),
            (Some("needed"), Some("the answer"))
        );
        assert_eq!((completion.finish, completion.error.as_deref(), completion.seed), (Finish::Stop, None, 7));
    }
    let received = server.received();
    assert_eq!(received.len(), 14);
    for request in received {
        let (said, stage_1) = (said(&request), is_stage_1(&request));
        assert_eq!(said.contains("of T2"), !stage_1);
        assert!(!said.contains("of T1") && !said.contains("of T3"));
        assert!(said.contains(Mitigation::Tnm.suffix()));
        assert_eq!(request.body["max_tokens"], if stage_1 { 160 } else { 320 });
        assert_eq!(request.body.get("seed"), None, "greedy decoding has no draws");
    }
}

#[test]
fn what_goes_wrong_is_recorded_by_stage_and_never_as_an_empty_answer() {
    let empty = json!({"choices": [{"message": {"content": null}, "finish_reason": "stop"}]}).to_string();
    let cases = [
        (Answer::text("T1 seems right"), None, "stage 1: unreadable selection: the reply holds no JSON object"),
        (Answer::completion(SELECTION, "length"), None, "stage 1: cut at the token limit"),
        (Answer::status(400), None, "stage 1: status 400"),
        (Answer::text(SELECTION), Some(Answer::status(500)), "stage 2: status 500"),
        (Answer::text(SELECTION), Some(Answer::Send(200, Vec::new(), empty)), "stage 2: the reply has no text"),
        (
            Answer::text(SELECTION),
            Some(Answer::completion("", "content_filter")),
            "stage 2: the endpoint filtered the reply",
        ),
    ];
    for (first, second, expected) in cases {
        let server =
            Server::start(move |_, request| if is_stage_1(request) { first.clone() } else { second.clone().unwrap() });
        let completions =
            answer(&client(&server), AgentProtocol::TwoStage, &GenerateSettings::default(), &traces(1)).unwrap();
        let completion = &completions[0];
        assert_eq!((completion.finish, completion.error.as_deref()), (Finish::Error, Some(expected)));
        assert_eq!(completion.response, None, "{expected}");
    }
}

#[test]
fn a_cut_answer_is_kept_as_cut() {
    let server = Server::start(|_, request| {
        if is_stage_1(request) { Answer::text(SELECTION) } else { Answer::completion("half of", "length") }
    });
    let completions =
        answer(&client(&server), AgentProtocol::TwoStage, &GenerateSettings::default(), &traces(1)).unwrap();
    assert_eq!((completions[0].finish, completions[0].response.as_deref()), (Finish::Length, Some("half of")));
}

#[test]
fn under_a_given_selection_an_unreadable_stage_1_is_recorded_and_stage_2_answers() {
    let server =
        Server::start(|_, request| if is_stage_1(request) { Answer::text("hm") } else { Answer::text("the answer") });
    let settings =
        GenerateSettings { selection: SelectionSource::Given, temperature: 0.5, ..GenerateSettings::default() };
    let completions = answer(&client(&server), AgentProtocol::TwoStage, &settings, &traces(1)).unwrap();
    assert!(completions[0].selection_fault.is_some());
    assert_eq!((completions[0].finish, completions[0].response.as_deref()), (Finish::Stop, Some("the answer")));
    let received = server.received();
    assert!(said(&received[1]).contains("of T1") && said(&received[1]).contains("of T2"));
    let seeds: Vec<_> = received.iter().map(|request| request.body["seed"].as_u64().unwrap()).collect();
    assert_ne!(seeds[0], seeds[1], "each draw has its own seed");
}

fn calls(names: &[&str], text: &Value) -> Answer {
    let call = |(index, name): (usize, &&str)| json!({"id": format!("c{index}"), "type": "function", "function": {"name": name, "arguments": "{\"user_id\": 1}"}});
    let calls: Vec<Value> = names.iter().enumerate().map(call).collect();
    let message = json!({"role": "assistant", "content": text, "tool_calls": calls});
    Answer::Send(200, Vec::new(), json!({"choices": [{"message": message, "finish_reason": "tool_calls"}]}).to_string())
}

#[test]
fn called_tools_are_the_selection_their_results_go_back_and_the_last_text_is_the_answer() {
    let server = Server::start(|number, _| match number {
        0 => calls(&["T2_look_up_T2", "T9_nothing"], &json!("Let me see.")),
        1 => calls(&["T1_look_up_T1", "T2_look_up_T2"], &Value::Null),
        _ => Answer::text("the answer"),
    });
    let completions =
        answer(&client(&server), AgentProtocol::ToolCalling, &GenerateSettings::default(), &traces(1)).unwrap();
    let completion = &completions[0];
    assert_eq!(completion.selected_tool_ids, ["T2", "T1"]);
    assert_eq!((completion.response.as_deref(), completion.finish), (Some("the answer"), Finish::Stop));
    assert_eq!(completion.rationale.as_deref(), Some("Let me see."));
    assert_eq!(completion.calls.len(), 4);
    assert_eq!(completion.calls[1], json!({"tool_id": null, "name": "T9_nothing", "arguments": {"user_id": 1}}));
    let received = server.received();
    let function = &received[0].body["tools"][0]["function"];
    assert_eq!(function["name"], "T1_look_up_T1");
    assert_eq!(function["parameters"], json!({"type": "object", "properties": {"user_id": {"type": "string"}}}));
    let turns = received[1].body["messages"].as_array().unwrap();
    let tool_turns: Vec<(&Value, &Value)> = turns
        .iter()
        .filter(|turn| turn["role"] == "tool")
        .map(|turn| (&turn["tool_call_id"], &turn["content"]))
        .collect();
    assert_eq!(
        tool_turns,
        [(&json!("c0"), &json!("{\"result\": \"of T2\"}")), (&json!("c1"), &json!("{\"error\": \"no such tool\"}")),]
    );
    assert!(!said(&received[2]).contains("of T3"), "a tool that was not called returned something");
}

#[test]
fn an_agent_that_calls_tools_for_ever_has_no_answer() {
    let server = Server::start(|_, _| calls(&["T1_look_up_T1"], &Value::Null));
    let completions =
        answer(&client(&server), AgentProtocol::ToolCalling, &GenerateSettings::default(), &traces(1)).unwrap();
    assert_eq!(completions[0].error.as_deref(), Some("no answer within 8 rounds of tool calls"));
    assert_eq!((completions[0].finish, completions[0].response.as_deref()), (Finish::Error, None));
    assert_eq!(server.received().len(), 8);
}

fn generate(server: &Server, folder: &Path, out: &str, more: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_topalign"))
        .args([
            "generate",
            "--endpoint",
            &server.url,
            "--endpoint-model",
            "lab/model",
            "--traces",
            "traces.jsonl",
            "--out",
            out,
        ])
        .args(["--endpoint-retries", "0", "--endpoint-concurrency", "1"])
        .args(more)
        .current_dir(folder)
        .output()
        .unwrap()
}

fn scenarios(folder: &Path) -> PathBuf {
    let path = folder.join("traces.jsonl");
    let rows: Vec<String> = traces(24).iter().map(|trace| serde_json::to_string(trace).unwrap()).collect();
    std::fs::write(&path, rows.join("\n")).unwrap();
    path
}

#[test]
fn a_run_over_an_endpoint_that_dies_half_way_resumes_to_the_bytes_of_one_that_did_not() {
    let folder = tempfile::tempdir().unwrap();
    scenarios(folder.path());
    let respond =
        |request: &Received| if is_stage_1(request) { Answer::text(SELECTION) } else { Answer::text("the answer") };
    let whole = Server::start(move |_, request| respond(request));
    let output = generate(&whole, folder.path(), "whole.jsonl", &[]);
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(stdout.starts_with("lab_model: 24 traces, 24 answered now; ended by the model 24"), "{stdout}");
    assert!(stdout.contains("48 requests, 0 from the cache, 48 calls"), "{stdout}");

    let served = AtomicUsize::new(0);
    let dying =
        Server::start(
            move |_, request| {
                if served.fetch_add(1, Ordering::SeqCst) < 11 { respond(request) } else { Answer::status(503) }
            },
        );
    let output = generate(&dying, folder.path(), "resumed.jsonl", &[]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("given up after 8 failed requests in a row: status 503"), "{stderr}");
    let left = std::fs::read_to_string(folder.path().join("resumed.jsonl")).unwrap();
    assert!(left.lines().count() < 24 && left.contains("\"finish\":\"stop\""), "{left}");

    let before = whole.received().len();
    let output = generate(&whole, folder.path(), "resumed.jsonl", &["--resume"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(whole.received().len() - before < 48, "everything was asked for again");
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    assert_eq!(read("resumed.jsonl"), read("whole.jsonl"));
}

#[test]
fn what_the_calls_took_stays_beside_the_completions_run_by_run() {
    let folder = tempfile::tempdir().unwrap();
    scenarios(folder.path());
    let served = AtomicUsize::new(0);
    let server = Server::start(move |_, request| match served.fetch_add(1, Ordering::SeqCst) {
        5 => Answer::status(400),
        _ if is_stage_1(request) => Answer::text(SELECTION),
        _ => Answer::text("the answer"),
    });
    let more = ["--endpoint-prices", "2,10", "--limit", "4"];
    assert!(generate(&server, folder.path(), "out.jsonl", &more).status.success());
    let read = || -> Vec<Value> {
        serde_json::from_str(&std::fs::read_to_string(folder.path().join("out.calls.json")).unwrap()).unwrap()
    };
    let runs = read();
    assert_eq!(runs.len(), 1);
    // Each reply counts 7 prompt and 3 reply tokens; the refused request none.
    assert_eq!(
        (&runs[0]["calls"], &runs[0]["failures"], &runs[0]["prompt_tokens"]),
        (&json!(8), &json!(1), &json!(49))
    );
    assert!((runs[0]["cost"].as_f64().unwrap() - 7.0 * (2.0 * 7.0 + 10.0 * 3.0) / 1e6).abs() < 1e-12, "{}", runs[0]);
    assert!(runs[0]["median_seconds"].as_f64().is_some() && runs[0]["p95_seconds"].as_f64().is_some());
    // The trace whose call failed is asked again; an earlier run stays on record.
    assert!(generate(&server, folder.path(), "out.jsonl", &[&more[..], &["--resume"]].concat()).status.success());
    let runs = read();
    assert_eq!((runs.len(), &runs[0]["calls"], &runs[1]["calls"]), (2, &json!(8), &json!(2)));
}

#[test]
fn merged_shards_keep_what_the_calls_of_each_took() {
    let folder = tempfile::tempdir().unwrap();
    scenarios(folder.path());
    let server = Server::start(
        |_, request| if is_stage_1(request) { Answer::text(SELECTION) } else { Answer::text("the answer") },
    );
    for shard in ["1/2", "2/2"] {
        let more = ["--limit", "5", "--shard", shard];
        assert!(generate(&server, folder.path(), &format!("part-{}", &shard[..1]), &more).status.success());
    }
    let merge = ["merge-shards", "part-2", "part-1", "--out", "out.jsonl"];
    let command = Command::new(env!("CARGO_BIN_EXE_topalign")).args(merge).current_dir(folder.path()).output().unwrap();
    assert!(command.status.success(), "{}", String::from_utf8_lossy(&command.stderr));
    let calls = std::fs::read_to_string(folder.path().join("out.calls.json")).unwrap();
    let runs: Vec<Value> = serde_json::from_str(&calls).unwrap();
    // Three traces in the first shard and two in the second, two calls each.
    assert_eq!(runs.iter().map(|run| run["calls"].as_u64()).collect::<Vec<_>>(), [Some(6), Some(4)]);
}

#[test]
fn as_many_requests_are_under_way_together_as_the_settings_say() {
    use std::sync::Arc;
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (inside, peak) = (Arc::clone(&now), Arc::clone(&most));
    let server = Server::start(move |_, request| {
        peak.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        std::thread::sleep(std::time::Duration::from_millis(60));
        inside.fetch_sub(1, Ordering::SeqCst);
        if is_stage_1(request) { Answer::text(SELECTION) } else { Answer::text("the answer") }
    });
    let client = client(&server);
    let settings = GenerateSettings { temperature: 0.7, samples: 2, ..GenerateSettings::default() };
    let agent = EndpointAgent {
        chat: &client,
        workers: 3,
        protocol: AgentProtocol::TwoStage,
        settings: &settings,
        mitigation: Mitigation::None,
        system: "s",
        seed: Seed(9),
    };
    let completions = agent.answer_traces(&traces(4), |_| Ok(())).unwrap();
    assert_eq!(most.load(Ordering::SeqCst), 3);
    let seeds: Vec<(String, u64)> = completions.iter().map(|row| (row.trace_id.clone(), row.seed)).collect();
    let expected: Vec<(String, u64)> =
        traces(4).iter().flat_map(|trace| [9, 10].map(|seed| (trace.trace_id.clone(), seed))).collect();
    assert_eq!(seeds, expected, "two samples of each trace, in order");
    let drawn: std::collections::BTreeSet<u64> =
        server.received().iter().map(|request| request.body["seed"].as_u64().unwrap()).collect();
    assert_eq!(drawn.len(), 16, "each draw has its own seed");
}

#[test]
fn a_key_given_in_place_of_its_variable_is_in_no_message() {
    let folder = tempfile::tempdir().unwrap();
    scenarios(folder.path());
    let server = Server::start(|_, _| Answer::text("fine"));
    let output = generate(&server, folder.path(), "out.jsonl", &["--endpoint-key-env", "sk-secret-0123"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("environment variable") && !stderr.contains("sk-secret"), "{stderr}");
    assert!(server.received().is_empty());
}

#[test]
fn proposals_differ_by_seed_and_only_an_explicit_leak_is_told_the_conclusion() {
    let server =
        Server::start(
            |number, _| if number == 1 { Answer::completion("half", "length") } else { Answer::text(" a draft \n") },
        );
    let client = client(&server);
    let trace = Trace { sensitive_conclusion: "a secret thing".to_owned(), ..trace("test/0") };
    let drawing = Drawing { token_limit: 50, temperature: 0.8, seed: Seed(3), first: 0 };
    let drafts = propose(&client, &trace, (Wanted::Chosen, 3), drawing);
    assert_eq!(drafts, [Ok("a draft".to_owned()), Err(CallError::Truncated), Ok("a draft".to_owned())]);
    for kind in PairKind::ALL {
        assert_eq!(propose(&client, &trace, (Wanted::Rejected(kind), 1), drawing), [Ok("a draft".to_owned())]);
    }
    let received = server.received();
    let told: Vec<bool> = received.iter().map(|request| said(request).contains("a secret thing")).collect();
    assert_eq!(told, [false, false, false, true, false, false]);
    let seeds: std::collections::BTreeSet<u64> =
        received.iter().map(|request| request.body["seed"].as_u64().unwrap()).collect();
    assert_eq!(seeds.len(), 6);
    assert!(received.iter().all(|request| said(request).contains("of T1") && !said(request).contains("of T3")));
}
