//! Claims about disks that are full and folders that cannot be written: a clear error, nothing half-written, the earlier output as it was.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn topalign(arguments: &[&str], folder: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_topalign")).args(arguments).current_dir(folder).output().unwrap()
}

/// The same with files that may not grow past so many blocks of 512 to 1,024 bytes: writing fails as it does on a full disk.
fn topalign_in(blocks: usize, arguments: &[&str], folder: &Path) -> Output {
    let words: Vec<String> = arguments.iter().map(|word| format!("'{word}'")).collect();
    let script =
        format!("trap '' XFSZ; ulimit -f {blocks}; exec '{}' {}", env!("CARGO_BIN_EXE_topalign"), words.join(" "));
    Command::new("sh").args(["-c", &script]).current_dir(folder).output().unwrap()
}

/// Every file under a folder with its content.
fn tree(folder: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { tree(&path, found) } else { _ = found.insert(path.clone(), std::fs::read(&path).unwrap()) }
    }
}

fn everything(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    tree(folder, &mut found);
    found
}

const COMMANDS: [(&str, &[&str]); 7] = [
    ("synthesize", &["synthesize", "--count", "400", "--out", "out"]),
    ("import", &["import", "traces.jsonl", "--out", "out"]),
    ("import of sessions", &["import", "sessions.jsonl", "--out", "out"]),
    ("contract", &["contract", "traces.jsonl", "--subsets", "subsets", "--out", "out"]),
    ("build", &["build", "--traces", "traces.jsonl", "--contracts", "contracts.jsonl", "--out", "out"]),
    (
        "a shard",
        &["build", "--traces", "traces.jsonl", "--contracts", "contracts.jsonl", "--out", "out", "--shard", "1/1"],
    ),
    ("merging", &["merge-shards", "shard", "--out", "out"]),
];

fn material() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let turn = |index: usize| {
        let text = "word ".repeat(400);
        serde_json::json!({"id": format!("s{index}"), "messages": [{"role": "user", "content": text}, {"role": "assistant", "content": text}]})
    };
    topalign::run::jsonl::write(&here.join("sessions.jsonl"), (0..60).map(turn)).unwrap();
    for arguments in [
        &["synthesize", "--count", "60", "--out", "traces.jsonl"][..],
        &["contract", "traces.jsonl", "--out", "contracts.jsonl"],
        &["build", "--traces", "traces.jsonl", "--contracts", "contracts.jsonl", "--out", "shard", "--shard", "1/1"],
    ] {
        let output = topalign(arguments, here);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    folder
}

#[cfg(unix)]
#[test]
fn a_full_disk_ends_with_1_and_leaves_the_earlier_output_and_nothing_else() {
    for (name, arguments) in COMMANDS {
        let folder = material();
        let here = folder.path();
        let made = topalign(arguments, here);
        assert!(made.status.success(), "{name}: {}", String::from_utf8_lossy(&made.stderr));
        let before = everything(here);
        for blocks in [0, 40] {
            let output = topalign_in(blocks, arguments, here);
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(1), "{name}: {stderr}");
            assert!(stderr.contains("cannot write") && stderr.contains("File too large"), "{name}: {stderr}");
            assert!(!stderr.contains(".topalign-"), "{name}: {stderr}");
            assert!(everything(here) == before, "{name}: the folder changed");
        }
        // With room again the same command gives the same.
        assert!(topalign(arguments, here).status.success(), "{name}");
        assert!(everything(here) == before, "{name}");
    }
}

#[test]
fn an_output_that_cannot_be_made_ends_with_1_and_names_it() {
    let folder = material();
    let here = folder.path();
    std::fs::write(here.join("file"), "kept").unwrap();
    let before = everything(here);
    for (name, arguments) in COMMANDS {
        // Under a file there is no folder, whoever asks.
        let mut arguments = arguments.to_vec();
        let out = arguments.iter().position(|word| *word == "out").unwrap();
        arguments[out] = "file/out";
        let output = topalign(&arguments, here);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{name}: {stderr}");
        assert!(stderr.contains("file") && stderr.contains("cannot write"), "{name}: {stderr}");
        assert!(everything(here) == before, "{name}");
    }
}
