//! Claims about shards: whatever their number, what they give together is what one run gives, byte by byte.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

const COUNTS: [usize; 4] = [1, 2, 3, 7];

fn topalign(arguments: &[&str], folder: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_topalign")).args(arguments).current_dir(folder).output().unwrap()
}

fn done(arguments: &[&str], folder: &Path) -> String {
    let output = topalign(arguments, folder);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn refused(arguments: &[&str], folder: &Path, expected: &str) {
    let output = topalign(arguments, folder);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
    assert!(stderr.contains(expected), "`{expected}` is not in: {stderr}");
}

/// The content of a file, or of every file of a folder.
fn content(path: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    if path.is_file() {
        return BTreeMap::from([(PathBuf::new(), std::fs::read(path).unwrap())]);
    }
    let files = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    files.map(|file| (PathBuf::from(file.file_name().unwrap()), std::fs::read(&file).unwrap())).collect()
}

/// One run of a command against its shards, merged.
fn assert_merges(command: &[&str], folder: &Path) {
    let whole = done(&[command, &["--out", "whole/out", "--json"]].concat(), folder);
    for count in COUNTS {
        let shards: Vec<String> = (1..=count).map(|number| format!("shards/{number}-of-{count}")).collect();
        for (number, shard) in (1..).zip(&shards) {
            done(&[command, &["--out", shard, "--shard", &format!("{number}/{count}")]].concat(), folder);
        }
        // In any order.
        let mut merge: Vec<&str> = shards.iter().rev().map(String::as_str).collect();
        merge.splice(0..0, ["merge-shards"]);
        merge.extend(["--out", "joined/out", "--json"]);
        let joined = done(&merge, folder);
        assert_eq!(joined.replace("joined/out", "whole/out"), whole, "{command:?} in {count}");
        let (one, other) = (content(&folder.join("whole/out")), content(&folder.join("joined/out")));
        assert_eq!(one.keys().collect::<Vec<_>>(), other.keys().collect::<Vec<_>>());
        for (name, bytes) in &one {
            assert!(other[name] == *bytes, "{command:?} in {count}: {} differs", name.display());
        }
        std::fs::remove_dir_all(folder.join("joined")).unwrap();
        std::fs::remove_dir_all(folder.join("shards")).unwrap();
    }
    std::fs::remove_dir_all(folder.join("whole")).unwrap();
}

fn rows(path: &Path) -> Vec<Value> {
    std::fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn write_rows(path: &Path, rows: &[Value]) {
    topalign::run::jsonl::write(path, rows).unwrap();
}

/// Scenarios with twins among them, and copies: one of a whole prompt, one whose results alone differ.
fn material() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    done(&["synthesize", "--count", "60", "--seed", "4", "--twins", "--out", "twins.jsonl"], here);
    let mut traces: Vec<Value> = rows(&here.join("twins.jsonl")).into_iter().step_by(2).collect();
    let copy = |trace: &Value, id: &str| {
        let mut copy = trace.clone();
        copy["trace_id"] = id.into();
        copy["source"]["row"] = 999.into();
        copy
    };
    let base = traces.iter().position(|trace| trace["variant"] == "base").unwrap();
    let same = copy(&traces[base], "copy/prompt");
    traces.insert(base + 5, same);
    let mut near = copy(&traces[base], "copy/results");
    for tool in near["tools"].as_array_mut().unwrap() {
        let text = tool["return_text"].as_str().unwrap().replace('{', "{ ");
        tool["return_text"] = text.into();
    }
    traces.push(near);
    write_rows(&here.join("traces.jsonl"), &traces);
    done(&["contract", "traces.jsonl", "--out", "contracts.jsonl"], here);
    folder
}

#[test]
fn merged_shards_of_synthesize_and_contract_are_one_run() {
    let folder = material();
    for arguments in [
        ["--count", "23", "--seed", "3"],
        ["--count", "2", "--disclosing", "50"],
        ["--count", "5", "--requests", "form"],
    ] {
        assert_merges(&[&["synthesize", "--twins"][..], &arguments].concat(), folder.path());
    }
    assert_merges(&["contract", "traces.jsonl"], folder.path());
}

#[test]
fn merged_shards_of_import_are_one_run_for_traces_responses_and_session_logs() {
    let folder = material();
    let case = |name: &str| format!("{}/tests/cases/{name}", env!("CARGO_MANIFEST_DIR"));
    // The last row is cut.
    let text = std::fs::read_to_string(folder.path().join("traces.jsonl")).unwrap();
    std::fs::write(folder.path().join("cut.jsonl"), format!("{text}{{\"trace_id\": \"cut")).unwrap();
    assert_merges(&["import", "cut.jsonl", &case("scenario-v2.json")], folder.path());
    for name in
        ["topbench-v1.json", "topbench-run.json", "agentleak.json", "inspect.json", "inspect.eval", "openai-chat.jsonl"]
    {
        assert_merges(&["import", &case(&format!("sources/{name}"))], folder.path());
    }
}

#[test]
fn merged_shards_of_build_are_one_run_with_quotas_duplicates_and_held_out_traces() {
    let folder = material();
    let here = folder.path();
    done(&["split", "traces.jsonl", "--held-out", "0.2", "--out", "split"], here);
    let build = ["build", "--traces", "traces.jsonl", "--contracts", "contracts.jsonl"];
    assert_merges(
        &[&build[..], &["--quota", "1", "--selection-pairs", "--severity", "near-duplicate=fail"]].concat(),
        here,
    );
    let responses = json!({"trace_id": rows(&here.join("traces.jsonl"))[0]["trace_id"], "model": "m", "stage": 2, "content": "No."});
    write_rows(&here.join("responses.jsonl"), &[responses]);
    done(&[&build[..], &["--out", "earlier"]].concat(), here);
    let excluded: Vec<Value> = rows(&here.join("earlier/sft.jsonl")).into_iter().take(4).collect();
    write_rows(&here.join("excluded.jsonl"), &excluded);
    let more =
        ["--split", "split/split.json", "--responses", "responses.jsonl", "--exclude", "excluded.jsonl", "--seed", "2"];
    assert_merges(&[&build[..], &more].concat(), here);
}

#[test]
fn merged_shards_of_evaluate_are_one_run_with_its_intervals() {
    let folder = material();
    let here = folder.path();
    let traces = rows(&here.join("traces.jsonl"));
    let completions: Vec<Value> = ["base", "dpo"]
        .iter()
        .flat_map(|system| traces.iter().enumerate().map(move |(index, trace)| (system, index, trace)))
        .map(|(system, index, trace)| {
            let every = if *system == "base" { 2_usize } else { 5 };
            let said = if index.is_multiple_of(every) { trace["sensitive_conclusion"].as_str().unwrap() } else { "All done." };
            let results: Vec<&str> =
                trace["tools"].as_array().unwrap().iter().map(|tool| tool["return_text"].as_str().unwrap()).collect();
            let response = if index.is_multiple_of(3) { said.to_owned() } else { format!("{} {said}", results.join(" ")) };
            json!({"trace_id": trace["trace_id"], "system": system, "response": response, "rationale": "", "finish": "stop",
                "selected_tool_ids": ["T1", "T2"], "variant": trace["variant"]})
        })
        .collect();
    write_rows(&here.join("completions.jsonl"), &completions);
    let evaluate = [
        "evaluate",
        "--completions",
        "completions.jsonl",
        "--traces",
        "traces.jsonl",
        "--contracts",
        "contracts.jsonl",
    ];
    assert_merges(&[&evaluate[..], &["--resamples", "200"]].concat(), here);
}

#[test]
fn merged_shards_of_generate_are_one_run() {
    let folder = material();
    crate::model::tiny(&folder.path().join("model"));
    let words = ["generate", "--model", "model", "--traces", "traces.jsonl", "--limit", "9", "--selection", "given"];
    let tokens = ["--selection-tokens", "4", "--response-tokens", "6", "--temperature", "0.7", "--batch", "3"];
    assert_merges(&[&words[..], &tokens].concat(), folder.path());
    let words = ["generate", "--model", "model", "--traces", "traces.jsonl", "--limit", "3", "--samples", "2"];
    assert_merges(&[&words[..], &tokens].concat(), folder.path());
}

#[test]
fn the_subset_audit_is_merged_into_a_file_of_its_own() {
    let folder = material();
    let here = folder.path();
    done(&["contract", "traces.jsonl", "--subsets", "subsets.jsonl", "--out", "whole.jsonl"], here);
    for shard in ["1/2", "2/2"] {
        let out = shard.replace('/', "-");
        done(&["contract", "traces.jsonl", "--subsets", "unused", "--out", &out, "--shard", shard], here);
    }
    refused(&["merge-shards", "1-2", "2-2", "--out", "merged.jsonl"], here, "needs a file");
    done(&["merge-shards", "1-2", "2-2", "--out", "merged.jsonl", "--subsets", "merged-subsets.jsonl"], here);
    for (one, other) in [("whole.jsonl", "merged.jsonl"), ("subsets.jsonl", "merged-subsets.jsonl")] {
        assert!(content(&here.join(one)) == content(&here.join(other)), "{one}");
    }
}

#[test]
fn shards_that_do_not_fit_together_are_refused_and_nothing_is_written() {
    let folder = material();
    let here = folder.path();
    let synthesize = ["synthesize", "--count", "9"];
    let make = |shard: &str, seed: &str, out: &str| {
        done(&[&synthesize[..], &["--seed", seed, "--shard", shard, "--out", out]].concat(), here);
    };
    make("1/2", "1", "one");
    make("2/2", "1", "two");
    make("2/2", "8", "other-seed");
    make("2/3", "1", "other-number");
    let form = ["--seed", "1", "--requests", "form", "--shard", "2/2", "--out", "other-requests"];
    done(&[&synthesize[..], &form].concat(), here);
    let text = std::fs::read_to_string(here.join("two")).unwrap();
    std::fs::write(here.join("other-version"), text.replacen(env!("CARGO_PKG_VERSION"), "9.9.9", 1)).unwrap();
    std::fs::write(here.join("cut"), &text[..text.len() / 2]).unwrap();
    let contracts = ["contract", "twins.jsonl", "--shard", "2/2", "--out", "contracts-2"];
    done(&contracts, here);
    for (second, expected) in [
        (None, "shards are missing: 2 of 2"),
        (Some("one"), "is there twice"),
        (Some("other-seed"), "another setting `seed`, got `8`, expected `1`"),
        (Some("other-requests"), "another setting `requests`, got `form`, expected `prose`"),
        (Some("other-number"), "another number of shards"),
        (Some("other-version"), "another version of the program, got `9.9.9`"),
        (Some("contracts-2"), "it is of another command, got `contract`"),
        (Some("cut"), "the shard is cut"),
        (Some("traces.jsonl"), "not a shard"),
        (Some("nowhere"), "cannot read"),
    ] {
        let arguments: Vec<&str> =
            ["merge-shards", "one"].into_iter().chain(second).chain(["--out", "out.jsonl"]).collect();
        refused(&arguments, here, expected);
        assert!(!here.join("out.jsonl").exists(), "{expected}");
    }
    // The same command over other inputs.
    done(&["contract", "traces.jsonl", "--shard", "1/2", "--out", "contracts-1"], here);
    refused(
        &["merge-shards", "contracts-1", "contracts-2", "--out", "out.jsonl"],
        here,
        "made from other inputs, `traces`",
    );
    for bad in ["0/2", "3/2", "2", "a/b"] {
        refused(&["synthesize", "--count", "9", "--out", "x", "--shard", bad], here, "expected I/N with 1 <= I <= N");
    }
    let left: Vec<_> = std::fs::read_dir(here).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().starts_with(".topalign-")), "{left:?}");
}

#[test]
fn a_trace_that_two_shards_have_is_found_when_they_are_merged() {
    let folder = material();
    let here = folder.path();
    let mut traces = rows(&here.join("traces.jsonl"));
    traces[1]["trace_id"] = traces[0]["trace_id"].clone();
    write_rows(&here.join("twice.jsonl"), &traces);
    let build = ["build", "--traces", "twice.jsonl", "--contracts", "contracts.jsonl"];
    for (name, command) in
        [("import", &["import", "twice.jsonl"][..]), ("contract", &["contract", "twice.jsonl"]), ("build", &build)]
    {
        for shard in ["1/2", "2/2"] {
            let out = format!("{name}-{}", shard.replace('/', "-"));
            done(&[command, &["--shard", shard, "--out", &out]].concat(), here);
        }
        let parts = [format!("{name}-1-2"), format!("{name}-2-2")];
        refused(&["merge-shards", &parts[0], &parts[1], "--out", name], here, "`trace_id` appears twice");
        assert!(!here.join(name).exists());
    }
}

#[test]
fn an_end_that_cannot_be_read_is_refused_and_not_taken_for_none() {
    let folder = material();
    let here = folder.path();
    done(&["import", "traces.jsonl", "--shard", "1/1", "--out", "shard"], here);
    let whole = std::fs::read_to_string(here.join("shard")).unwrap();
    let changed = whole.replace("\"cut_files\":0", "\"cut_files\":\"none\"");
    assert_ne!(whole, changed, "{}", whole.lines().last().unwrap());
    std::fs::write(here.join("shard"), changed).unwrap();
    refused(&["merge-shards", "shard", "--out", "out.jsonl"], here, "a shard's end cannot be read");
    assert!(!here.join("out.jsonl").exists());
}

#[test]
fn what_cannot_be_dealt_says_so() {
    let folder = material();
    let here = folder.path();
    let build = ["build", "--traces", "traces.jsonl", "--contracts", "contracts.jsonl", "--out", "x", "--shard", "1/2"];
    refused(&[&build[..], &["--answers", "unguarded"]].concat(), here, "built in one piece");
    let evaluate =
        ["evaluate", "--completions", "c", "--traces", "traces.jsonl", "--contracts", "contracts.jsonl", "--out", "x"];
    let judged = ["--shard", "1/2", "--judge-url", "http://127.0.0.1:1", "--judge-model", "m"];
    refused(&[&evaluate[..], &judged].concat(), here, "cannot be used with");
    assert!(!here.join("x").exists());
}
