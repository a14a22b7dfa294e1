//! Claims about writers that ask a model: behind an endpoint that answers as scripted, or a tiny one of this machine.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;
use topalign::audit::{Audited, Verdict};
use topalign::build::{self, Built, Drawing, Options, Proposer, Reason, Writer};
use topalign::contract::{Contract, derive_all};
use topalign::dataset::{PairKind, Stage};
use topalign::endpoint::{Client, EndpointSettings};
use topalign::generate::LocalChat;
use topalign::run::jsonl;
use topalign::run::seed::Seed;
use topalign::synthesis::{Request, Twins, Wording, synthesize};
use topalign::trace::{Located, Trace};

use crate::server::{Answer, Received, Server};
use crate::train::tiny;

fn material(count: usize) -> (Vec<Trace>, Vec<Contract>) {
    let request =
        Request { count, seed: Seed(6), part: None, twins: Twins::None, disclosing: 0, wording: Wording::Prose };
    let traces = synthesize(request).unwrap();
    let contracts = derive_all(&traces).into_iter().map(|derived| derived.contract.unwrap()).collect();
    (traces, contracts)
}

fn value(trace: &Trace, place: &Located) -> String {
    let result: Value = serde_json::from_str(&trace.tool(&place.tool_id).unwrap().return_text).unwrap();
    result.pointer(&place.pointer).unwrap().as_str().unwrap().to_owned()
}

/// What a capable model would say to a request; `None` where no trace has it.
fn capable(traces: &[Trace], request: &Received) -> Option<String> {
    let said = |index: usize| request.body["messages"][index]["content"].as_str().unwrap();
    let (system, user) = (said(0), said(1));
    let trace = traces.iter().find(|trace| user.contains(&trace.goal))?;
    let truth = trace.truth.as_ref()?;
    let required: Vec<String> = truth.required.iter().map(|place| value(trace, place)).collect();
    Some(if system.contains("this conclusion") {
        let conclusion = trace.sensitive_conclusion.trim_end_matches('.');
        format!("All of it suggests that {conclusion}.")
    } else if system.contains("personal details") {
        let private = truth.clues.iter().map(|place| value(trace, place)).find(|clue| !required.contains(clue))?;
        format!("The records also hold \"{private}\".")
    } else if system.contains("Decline the request") {
        "I'm sorry, but I can't share these records. They are private.".to_owned()
    } else {
        format!("These are the values: {}.", required.join(", "))
    })
}

fn client(url: &str) -> Client {
    let settings = EndpointSettings {
        retries: 0,
        first_wait_seconds: 0.01,
        timeout_seconds: 10.0,
        concurrency: 3,
        ..EndpointSettings::new(url.parse().unwrap(), "test-model")
    };
    Client::new(settings, Seed(1)).unwrap()
}

const DRAWING: Drawing = Drawing { token_limit: 60, temperature: 0.8, seed: Seed(3), first: 0 };

fn built(traces: &[Trace], contracts: &[Contract], writer: &Writer<'_>, tries: usize) -> Built {
    let options = Options { tries: NonZeroUsize::new(tries).unwrap(), ..Options::default() };
    build::build_with(traces, contracts, &BTreeMap::new(), writer, Seed(5), &options).unwrap()
}

#[test]
fn answers_of_an_endpoint_become_rows_through_the_same_audit() {
    let (traces, contracts) = material(12);
    let script = traces.clone();
    let server = Server::start(move |_, request| Answer::text(&capable(&script, request).unwrap()));
    let client = client(&server.url);
    let writer = Writer::Model(Proposer::new("endpoint", &client, (3, 2), DRAWING));
    let built = built(&traces, &contracts, &writer, 2);
    let responses = built.sft.iter().map(Audited::row).filter(|row| row.stage == Some(Stage::Response));
    assert_eq!(responses.clone().count(), 12, "{:?}", built.quarantine);
    for row in responses {
        assert_eq!(row.writer.as_deref(), Some("endpoint:test-model"));
        assert!(row.messages.last().unwrap().content.starts_with("These are the values: "));
    }
    for kind in PairKind::ALL {
        let pairs: Vec<_> = built.pairs.iter().map(Audited::row).filter(|pair| pair.kind == Some(kind)).collect();
        assert!(pairs.len() >= 11, "{} {:?}", kind.name(), built.quarantine);
        for pair in pairs {
            let (chosen, rejected) = (&pair.chosen[0].content, &pair.rejected[0].content);
            let (length, other) = (chosen.chars().count(), rejected.chars().count());
            assert!(length.abs_diff(other) * 10 <= length, "{chosen}\n{rejected}");
            assert_eq!(pair.writer_rejected.as_deref(), Some("endpoint:test-model"));
        }
    }
}

#[test]
fn the_best_of_several_answers_is_taken_and_one_that_never_holds_is_quarantined_after_its_rounds() {
    let (traces, contracts) = material(2);
    let (script, poor) = (traces.clone(), traces[1].goal.clone());
    let server = Server::start(move |number, request| {
        let user = request.body["messages"][1]["content"].as_str().unwrap();
        let good = capable(&script, request).unwrap();
        let is_chosen = good.starts_with("These");
        match number % 3 {
            _ if user.contains(&poor) => Answer::text("I have looked at them."),
            0 if is_chosen => Answer::text("Nothing to tell."),
            1 if is_chosen => Answer::completion("cut", "length"),
            _ => Answer::text(&good),
        }
    });
    let client = client(&server.url);
    let writer = Writer::Model(Proposer::new("endpoint", &client, (1, 3), DRAWING));
    let built = built(&traces, &contracts, &writer, 2);
    assert_eq!(built.sft.len(), 2);
    let out: Vec<_> = built.quarantine.iter().map(|entry| (&*entry.trace_id, entry.kind, entry.reason)).collect();
    assert!(out.contains(&(traces[1].trace_id.as_str(), None, Reason::Audit)), "{out:?}");
    let asked = server.received().iter().filter(|request| request.body.to_string().contains(&traces[1].goal)).count();
    assert_eq!(asked, 2 * 3, "two rounds of three answers");
    assert!(built.audits.iter().any(|record| record.row.starts_with("quarantine") && record.verdict == Verdict::Fail));
}

fn topalign(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_topalign")).args(arguments).current_dir(folder).output().unwrap()
}

#[test]
fn an_endpoint_that_dies_half_way_loses_nothing_and_the_same_command_goes_on() {
    let (traces, contracts) = material(20);
    let folder = tempfile::tempdir().unwrap();
    jsonl::write(&folder.path().join("traces.jsonl"), &traces).unwrap();
    jsonl::write(&folder.path().join("contracts.jsonl"), &contracts).unwrap();
    let is_alive = Arc::new(AtomicBool::new(false));
    let alive = Arc::clone(&is_alive);
    let server = Server::start(move |number, request| {
        if number < 15 || alive.load(Ordering::SeqCst) {
            Answer::text(&capable(&traces, request).unwrap())
        } else {
            Answer::status(503)
        }
    });
    let command: Vec<&str> = "build --traces traces.jsonl --contracts contracts.jsonl --out data --writer endpoint \
        --writer-model m --best-of 1 --tries 1 --endpoint-retries 0 --endpoint-concurrency 1 --writer-url"
        .split_whitespace()
        .chain([server.url.as_str()])
        .collect();
    let first = topalign(folder.path(), &command);
    let stderr = String::from_utf8_lossy(&first.stderr);
    assert_eq!(first.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("stopped answering") && stderr.contains("again"), "{stderr}");
    assert!(!folder.path().join("data").exists(), "nothing half-written");
    assert_eq!(server.received().len(), 15 + 8, "given up after eight failures in a row");
    is_alive.store(true, Ordering::SeqCst);
    let second = topalign(folder.path(), &command);
    assert!(second.status.success(), "{}", String::from_utf8_lossy(&second.stderr));
    let rows = topalign::dataset::read_sft(&folder.path().join("data/sft.jsonl")).unwrap();
    assert_eq!(rows.len(), 40);
    let asked: Vec<String> = server.received().iter().map(|request| request.body.to_string()).collect();
    let distinct: std::collections::BTreeSet<&String> = asked.iter().collect();
    assert_eq!(distinct.len(), 80, "four questions a trace");
    assert_eq!(asked.len() - distinct.len(), 8, "only what had no reply is asked again");
    assert!(folder.path().join("data.replies").exists());
}

#[test]
fn a_tiny_local_model_is_asked_as_often_as_it_may_be_and_its_babble_is_no_row() {
    let folder = tempfile::tempdir().unwrap();
    tiny::write(&folder.path().join("model"), 1, true);
    let chat =
        LocalChat::load(&folder.path().join("model").to_string_lossy(), &topalign::device::Compute::cpu()).unwrap();
    let traces = topalign::trace::read(Path::new("tests/cases/build-traces.jsonl"), topalign::trace::Format::Canonical);
    let traces = traces.unwrap();
    let contracts: Vec<Contract> =
        derive_all(&traces).into_iter().filter_map(|derived| derived.contract.ok()).collect();
    let drawing = Drawing { token_limit: 6, ..DRAWING };
    let writer = Writer::Model(Proposer::new("local", &chat, (1, 2), drawing));
    assert_eq!(writer.name(), "local:model");
    let built = built(&traces, &contracts, &writer, 3);
    assert!(built.sft.is_empty() && built.pairs.is_empty());
    // Words at random run into the token limit, and a cut answer is none.
    assert!(built.quarantine.iter().all(|entry| matches!(entry.reason, Reason::Audit | Reason::NoAnswer)));
    assert_eq!(topalign::endpoint::Chat::counts(&chat).requests, 2 * 3 * 2);
}

#[test]
fn flags_of_a_writer_that_do_not_fit_are_told_before_anything_is_read() {
    let here = tempfile::tempdir().unwrap();
    let build = ["build", "--traces", "t", "--contracts", "c", "--out", "o", "--writer"];
    for (flags, expected) in [
        (vec!["endpoint"], "--writer-url"),
        (vec!["endpoint", "--writer-url", "http://127.0.0.1:1"], "--writer-model"),
        (vec!["local"], "--writer-model"),
        (vec!["local", "--writer-model", "m", "--writer-url", "http://127.0.0.1:1"], "no URL"),
        (vec!["template", "--writer-model", "m"], "no model"),
        (vec!["local", "--writer-model", "m", "--writer-temperature", "0"], "above 0"),
        (vec!["template", "--severity", "leek=warn"], "did you mean `leak`"),
        (vec!["template", "--severity", "leak=fatal"], "off, warn or fail"),
    ] {
        let arguments: Vec<&str> = build.iter().copied().chain(flags.iter().copied()).collect();
        let output = topalign(here.path(), &arguments);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {stderr}");
        assert!(stderr.contains(expected), "{flags:?}: {stderr}");
    }
}
