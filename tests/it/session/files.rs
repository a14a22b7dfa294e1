//! A run folder: the same bytes whatever the threads and the kills, and logs that `topalign exposure` reads.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use super::SMALL;

const LOGS: [&str; 9] = [
    "contracts.jsonl",
    "observations.jsonl",
    "candidates.jsonl",
    "actions.jsonl",
    "sessions.jsonl",
    "requests.jsonl",
    "known.json",
    "frontier.json",
    "exposure/summary.json",
];

fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_topalign"));
    command.args(arguments).current_dir(folder);
    command
}

fn topalign(folder: &Path, arguments: &[&str]) -> Output {
    let output = command(folder, arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn bytes(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    LOGS.iter().map(|name| (PathBuf::from(name), std::fs::read(folder.join(name)).unwrap())).collect()
}

fn assert_same(one: &Path, other: &Path) {
    for ((name, one), (_, other)) in bytes(one).into_iter().zip(bytes(other)) {
        assert!(one == other, "{} differs", name.display());
    }
}

fn folder_with_recipe() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("small.toml"), SMALL).unwrap();
    folder
}

#[test]
fn any_number_of_threads_leaves_the_same_bytes() {
    let folder = folder_with_recipe();
    for threads in ["1", "4"] {
        let out = format!("out-{threads}");
        let mut command = command(folder.path(), &["session", "small.toml", "--out", &out]);
        assert!(command.env("RAYON_NUM_THREADS", threads).output().unwrap().status.success());
    }
    assert_same(&folder.path().join("out-1"), &folder.path().join("out-4"));
}

#[test]
fn a_killed_run_goes_on_at_the_next_session_and_ends_with_the_same_bytes() {
    let folder = folder_with_recipe();
    let here = folder.path();
    topalign(here, &["session", "small.toml", "--out", "whole"]);
    let more = ["session", "small.toml", "--out", "killed"];
    let mut child = command(here, &more).env("RAYON_NUM_THREADS", "1").spawn().unwrap();
    let progress = here.join("killed/progress.jsonl");
    let lines =
        || std::fs::read(&progress).map_or(0, |bytes| bytes.split(|byte| *byte == b'\n').count().saturating_sub(1));
    for _ in 0..20_000 {
        if lines() > 4 || child.try_wait().unwrap().is_some() {
            break;
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let done = lines();
    assert!((2..19).contains(&done), "killed too early or too late: {done} lines");
    assert!(!here.join("killed/observations.jsonl").exists(), "a log is whole or not there");
    // The kill may have cut a line.
    let mut cut = std::fs::read(&progress).unwrap();
    cut.extend_from_slice(b"{\"place\":17,\"row\":{\"session");
    std::fs::write(&progress, cut).unwrap();
    topalign(here, &["session", "small.toml", "--out", "killed", "--resume"]);
    assert_same(&here.join("whole"), &here.join("killed"));
    let manifest: serde_json::Value =
        serde_json::from_slice(&std::fs::read(here.join("killed/manifest.json")).unwrap()).unwrap();
    assert_eq!((manifest["status"].as_str(), manifest["sessions"].as_u64()), (Some("complete"), Some(18)));
    assert!(manifest["resumed"].as_u64().unwrap() >= done as u64 - 1, "finished sessions were played again");
    assert!(!progress.exists());
}

#[test]
fn progress_of_another_recipe_is_refused() {
    let folder = folder_with_recipe();
    let here = folder.path();
    std::fs::create_dir(here.join("out")).unwrap();
    std::fs::write(here.join("out/progress.jsonl"), "{\"recipe_digest\":\"0\"}\n").unwrap();
    let output = command(here, &["session", "small.toml", "--out", "out", "--resume"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("of another recipe"));
}

#[test]
fn the_logs_are_read_by_the_exposure_analysis_unchanged_and_the_page_has_the_frontier() {
    let folder = folder_with_recipe();
    let here = folder.path();
    topalign(here, &["session", "small.toml", "--out", "out"]);
    let path = |name: &str| format!("out/{name}.jsonl");
    topalign(
        here,
        &[
            "exposure",
            "--contracts",
            &path("contracts"),
            "--observations",
            &path("observations"),
            "--candidates",
            &path("candidates"),
            "--actions",
            &path("actions"),
            "--resamples",
            "200",
            "--answer-channel",
            "response",
            "--out",
            "again",
        ],
    );
    let read = |name: &str| std::fs::read(here.join(name)).unwrap();
    assert_eq!(read("out/exposure/summary.json"), read("again/summary.json"));
    let page = String::from_utf8(read("out/exposure/exposure.html")).unwrap();
    for part in ["Known and measured", "Privacy and utility", "Coverage by channel", "Sessions that were played"] {
        assert!(page.contains(part), "the page lacks {part}");
    }
}

#[test]
fn a_replay_asks_what_was_asked() {
    let folder = folder_with_recipe();
    let here = folder.path();
    topalign(here, &["session", "small.toml", "--out", "first"]);
    topalign(
        here,
        &[
            "session",
            "small.toml",
            "--out",
            "second",
            "--set",
            "probe.kind=replay",
            "--set",
            "probe.requests=first/requests.jsonl",
        ],
    );
    for name in ["requests.jsonl", "observations.jsonl"] {
        let read = |run: &str| std::fs::read(here.join(run).join(name)).unwrap();
        assert!(read("first") == read("second"), "{name} differs");
    }
}

#[test]
fn every_fault_of_a_recipe_is_told_at_once() {
    let folder = folder_with_recipe();
    let cases: [(&[&str], &[&str]); 6] = [
        (
            &["budget=0", "models.scripted.leak={email=1.5}"],
            &["`budget` must be", "`models.scripted.leak.email` must be"],
        ),
        (&["models.scripted.leak={fax=0.5}"], &["names no exit", "got `fax`"]),
        (&["conditions=[]"], &["`conditions` must be at least one"]),
        (&["probe.kind=model"], &["`probe.kind` does not fit"]),
        (&["workspace.recrods=1"], &["unknown key `workspace.recrods`", "did you mean `records`?"]),
        (&["workspace.traces=['missing.jsonl']", "workspace.records=1"], &["unknown key `workspace.records`"]),
    ];
    for (overrides, expected) in cases {
        let sets: Vec<&str> = overrides.iter().flat_map(|one| ["--set", *one]).collect();
        let arguments = [&["session", "small.toml", "--out", "bad"][..], &sets[..]].concat();
        let output = command(folder.path(), &arguments).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{overrides:?}: {stderr}");
        for part in expected {
            assert!(stderr.contains(part), "{overrides:?}: `{part}` is not in: {stderr}");
        }
        assert!(!folder.path().join("bad").exists(), "nothing may be half-written");
    }
}
