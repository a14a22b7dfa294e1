//! Claims about `dataset`.

#![allow(clippy::unwrap_used, reason = "a fixture that fails to read fails its test")]

use std::path::PathBuf;

use topalign::dataset::{PairKind, read_preferences, read_sft};
use topalign::error::Error;

fn file(text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.jsonl");
    std::fs::write(&path, text).unwrap();
    (folder, path)
}

const PROMPT: &str = r#""prompt": [{"role": "user", "content": "q"}]"#;

#[test]
fn null_and_absent_fields_read_the_same() {
    let bare = format!(
        r#"{{{PROMPT}, "chosen": [{{"role": "assistant", "content": "a"}}], "rejected": [{{"role": "assistant", "content": "b"}}]}}"#
    );
    let nulls = bare.replace(
        "{\"prompt\"",
        "{\"kind\": null, \"trace_id\": null, \"split\": null, \"writer_chosen\": null, \"audit\": null, \"score\": 3, \"prompt\"",
    );
    let (_folder, path) = file(&format!("\u{feff}{bare}\r\n{nulls}"));
    let pairs = read_preferences(&path).unwrap();
    assert_eq!(pairs.len(), 2);
    assert_eq!(pairs[0], pairs[1]);
}

#[test]
fn kinds_read_by_their_names() {
    for kind in PairKind::ALL {
        let row = format!(
            r#"{{{PROMPT}, "chosen": [{{"role": "assistant", "content": "a"}}], "rejected": [{{"role": "assistant", "content": "b"}}], "kind": "{}"}}"#,
            kind.name()
        );
        let (_folder, path) = file(&row);
        assert_eq!(read_preferences(&path).unwrap()[0].kind, Some(kind));
    }
}

#[test]
fn rows_that_teach_nothing_are_refused_with_their_place() {
    let sft = [
        r#"{"messages": []}"#,
        r#"{"messages": [{"role": "user", "content": "q"}]}"#,
        r#"{"messages": [{"role": "assistant", "content": "  "}]}"#,
    ];
    for row in sft {
        let (_folder, path) = file(&format!("{}\n{row}\n", r#"{"messages": [{"role": "assistant", "content": "a"}]}"#));
        let error = read_sft(&path).unwrap_err();
        assert_eq!(error.exit_status(), 2);
        assert!(error.to_string().contains("row 1"), "{error}");
    }
    let same = format!(
        r#"{{{PROMPT}, "chosen": [{{"role": "assistant", "content": "a"}}], "rejected": [{{"role": "assistant", "content": "a"}}]}}"#
    );
    let (_folder, path) = file(&same);
    assert!(read_preferences(&path).unwrap_err().to_string().contains("must differ"));
}

#[test]
fn an_empty_file_is_an_invalid_input() {
    let (_folder, path) = file("\n\n");
    assert!(matches!(read_sft(&path), Err(Error::Invalid(_))));
    assert!(matches!(read_preferences(&path), Err(Error::Invalid(_))));
}

#[test]
fn rows_end_at_line_breaks_alone_with_exact_counts_whatever_they_hold() {
    let row = |text: &str| {
        let text = serde_json::to_string(text).unwrap();
        format!(
            "{{\"messages\":[{{\"role\":\"user\",\"content\":\"q\"}},{{\"role\":\"assistant\",\"content\":{text}}}]}}"
        )
    };
    let odd = "a\u{2028}b\u{2029}c\u{85}d";
    let long = "word ".repeat(1_000_000); // a row of 5 MB
    for end in ["", "\n", "\r\n"] {
        let text = [row(odd), row(&long), row("last")].join("\r\n") + end;
        let (_folder, path) = file(&format!("\u{feff}{text}"));
        let rows = topalign::dataset::read_sft(&path).unwrap();
        assert_eq!(rows.len(), 3);
        assert_eq!(rows[0].messages[1].content, odd);
        assert_eq!(rows[1].messages[1].content.len(), long.len());
    }
}
