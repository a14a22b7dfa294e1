//! Claims about the edges of commands: Ctrl-C, folders that hold something else, rows of another form.

use std::path::Path;
use std::process::{Command, Output};

use topalign::completion::Completion;
use topalign::run::jsonl;

fn command(arguments: &[&str], folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_topalign"));
    command.args(arguments).current_dir(folder);
    command
}

fn topalign(arguments: &[&str], folder: &Path) -> Output {
    command(arguments, folder).output().unwrap()
}

#[cfg(unix)]
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Starts the command, sends it one Ctrl-C once it writes, and returns its status.
#[cfg(unix)]
fn interrupted(arguments: &[&str], folder: &Path) -> Option<i32> {
    use std::time::Duration;
    let before = names(folder).len();
    let mut child = command(arguments, folder).stdout(std::process::Stdio::null()).spawn().unwrap();
    for _ in 0..10_000 {
        if names(folder).len() > before || child.try_wait().unwrap().is_some() {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(100));
    // SAFETY: a signal to a child that has not been waited for, whose id is therefore its own.
    let sent = unsafe { libc::kill(libc::pid_t::try_from(child.id()).unwrap(), libc::SIGINT) };
    assert_eq!(sent, 0);
    child.wait().unwrap().code()
}

/// So many scenarios and their contracts.
fn compose(here: &Path, count: &str) {
    for arguments in [
        &["synthesize", "--count", count, "--out", "traces.jsonl"][..],
        &["contract", "traces.jsonl", "--out", "contracts.jsonl"],
    ] {
        assert!(topalign(arguments, here).status.success());
    }
}

#[cfg(unix)]
#[test]
fn the_first_interruption_ends_a_command_with_130_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let synthesize = ["synthesize", "--count", "400000", "--out", "big.jsonl"];
    assert_eq!(interrupted(&synthesize, here), Some(130));
    assert_eq!(names(here), Vec::<String>::new(), "nothing half-written stays");
}

#[cfg(unix)]
#[test]
fn an_interrupted_build_leaves_no_folder() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    compose(here, "6000");
    let build = ["build", "--traces", "traces.jsonl", "--contracts", "contracts.jsonl", "--out", "data"];
    assert_eq!(interrupted(&build, here), Some(130));
    let mut left = names(here);
    left.sort_unstable();
    assert_eq!(left, ["contracts.jsonl", "traces.jsonl"]);
}

#[test]
fn a_folder_that_holds_something_else_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    compose(here, "40");
    let build = ["build", "--traces", "traces.jsonl", "--contracts", "contracts.jsonl", "--out", "keep"];
    let refused = |what: &str| {
        let output = topalign(&build, here);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(what) && stderr.contains("hint:"), "{stderr}");
    };
    std::fs::create_dir(here.join("keep")).unwrap();
    std::fs::write(here.join("keep/notes.txt"), "mine").unwrap();
    refused("notes.txt");
    std::fs::remove_file(here.join("keep/notes.txt")).unwrap();
    for _ in 0..2 {
        assert!(topalign(&build, here).status.success(), "an empty folder and an earlier data set are replaced");
    }
    std::fs::write(here.join("keep/notes.txt"), "mine").unwrap();
    refused("notes.txt");
    assert_eq!(std::fs::read_to_string(here.join("keep/notes.txt")).unwrap(), "mine");
    assert!(here.join("keep/manifest.json").is_file());
}

fn told(row: &str) -> (String, usize) {
    let error = jsonl::parse::<Completion>(row.as_bytes(), "c.jsonl").unwrap_err();
    (error.to_string(), error.hints().len())
}

#[test]
fn a_row_of_another_form_names_its_field_and_what_it_may_be() {
    let (text, hints) = told(r#"{"trace_id": "t", "system": "s", "mitigation": null, "finish": "stop"}"#);
    assert!(text.contains("`mitigation` is null, expected one of `none`, `tnm`, `cbd`"), "{text}");
    assert_eq!(hints, 0, "the line was not cut");
    let (text, hints) = told(r#"{"trace_id": "t", "system": "s", "finish": 7}"#);
    assert!(text.contains("`finish` is a number, expected one of `stop`, `length`, `error`"), "{text}");
    assert_eq!(hints, 0);
    let (text, _) = told(r#"{"trace_id": {"a": 1}, "system": "s", "finish": "stop"}"#);
    assert!(text.contains("`trace_id`: invalid type: map, expected a string"), "{text}");
    let (text, hints) = told(r#"{"trace_id": "t", "system": "s", "finish": nul"#);
    assert!(text.contains("not valid JSON") && hints == 1, "{text}");
}
