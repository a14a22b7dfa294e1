//! Claims about readers.

use std::path::PathBuf;

/// A file of the shared reference data, or `None` with a printed reason where it is absent.
pub fn shared(name: &str) -> Option<PathBuf> {
    let root = std::env::var_os("TOPALIGN_SHARED")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared"), PathBuf::from);
    let path = root.join(name);
    if path.exists() {
        return Some(path);
    }
    eprintln!("skipped: no shared data at {} (set TOPALIGN_SHARED)", path.display());
    None
}

use std::path::Path;

use topalign::error::Error;
use topalign::trace::{Difficulty, Domain, Flag, Format, Trace, Variant, leaves, read, read_as, read_many};

fn case(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(name)
}

/// Reads text under a file name of its own.
fn read_text(name: &str, text: &str) -> Result<Vec<Trace>, Error> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(name);
    std::fs::write(&path, text).expect("written");
    read(&path, Format::Auto)
}

fn fault_text(result: Result<Vec<Trace>, Error>) -> String {
    let error = result.expect_err("a fault");
    assert_eq!(error.exit_status(), 2);
    error.to_string()
}

#[test]
fn v2_keeps_returns_byte_for_byte_and_takes_support_from_the_chain() {
    let traces = read(&case("scenario-v2.json"), Format::Auto).expect("read");
    let trace = &traces[0];
    assert_eq!(trace.trace_id, "topbench-v2/7");
    assert_eq!(trace.domain, Domain::Fad);
    assert_eq!(trace.support, ["T1", "T2"]);
    assert_eq!(trace.difficulty, Some(Difficulty::D1));
    assert_eq!(trace.tools[0].return_text, r#"{"employer": "Evening Bakery Ltd", "amount": 170.50, "status": "Paid"}"#);
    assert!(trace.tools[1].essential && !trace.tools[2].essential);
    assert_eq!(trace.flags, [Flag::NoiseFlagMismatch, Flag::NoiseFlagMissing]);
}

#[test]
fn v3_keeps_returns_byte_for_byte_with_truth_and_unknown_fields() {
    let traces = read(&case("scenario-v3.jsonl"), Format::Auto).expect("read");
    let trace = &traces[0];
    assert_eq!(trace.tools[0].return_text, r#"{"price": 12.50, "time": "14:00", "title": "Dr. Hale"}"#);
    assert_eq!(trace.extra["author_note"], "kept");
    let truth = trace.truth.as_ref().expect("truth");
    assert_eq!(truth.labels, ["physiotherapy", "rehab exercises"]);
    assert_eq!((truth.required[0].tool_id.as_str(), truth.required[0].pointer.as_str()), ("T1", "/time"));
    assert!(trace.flags.is_empty());
}

#[test]
fn canonical_traces_read_back_as_written() {
    let traces = read(&case("scenario-v2.json"), Format::Auto).expect("read");
    let lines: String = traces.iter().map(|trace| serde_json::to_string(trace).expect("JSON") + "\r\n").collect();
    assert_eq!(read_text("traces.jsonl", &format!("\u{FEFF}{lines}")).expect("read back"), traces);
}

#[test]
fn variants_are_told_by_content_by_file_name_or_by_the_caller() {
    let base = std::fs::read_to_string(case("scenario-v2.json")).expect("readable");
    let social = base.replace("\"evaluation_benchmarks\"", "\"mitigation_logic\": \"m\", \"evaluation_benchmarks\"");
    assert_eq!(read_text("x.json", &social).expect("read")[0].trace_id, "topbench-v2/7/social-context");
    let negative = &read_text("Negative_control.json", &base).expect("read")[0];
    assert_eq!(negative.variant, Variant::NegativeControl);
    assert_eq!(negative.base_id(), "topbench-v2/7");
    assert_eq!(negative.control_conclusion.as_deref(), Some("The user hides a second job."));
    let declared =
        read_as(&case("scenario-v2.json"), Format::TopBenchV2, Some(Variant::NegativeControl)).expect("read");
    assert_eq!(declared[0].variant, Variant::NegativeControl);
}

#[test]
fn crlf_and_byte_order_mark_change_nothing_but_nothing() {
    let base = std::fs::read_to_string(case("scenario-v2.json")).expect("readable");
    let windows = format!("\u{FEFF}{}", base.replace('\n', "\r\n"));
    assert_eq!(
        read_text("x.json", &windows).expect("read")[0].tools,
        read_text("x.json", &base).expect("read")[0].tools
    );
}

#[test]
fn bad_inputs_name_file_row_line_and_expectation_without_values() {
    let base = std::fs::read_to_string(case("scenario-v2.json")).expect("readable");
    let missing = fault_text(read_text("x.json", &base.replace("\"user_goal\"", "\"user_gaol\"")));
    assert!(missing.contains("no supported trace format"), "{missing}");
    let wrong =
        fault_text(read_text("x.json", &base.replace("\"noise_tool\": false", "\"noise_tool\": \"secret words\"")));
    assert!(wrong.contains("x.json:2 (row 0)") && wrong.contains("expected a boolean"), "{wrong}");
    assert!(!wrong.contains("secret words"), "{wrong}");
    let domain = fault_text(read_text("x.json", &base.replace("FAD Financial whatever", "Finance")));
    assert!(domain.contains("got `Finance`"), "{domain}");
    let cut = fault_text(read_text("x.json", &base[..base.len() - 9]));
    assert!(cut.contains("not a valid JSON array"), "{cut}");
    let line = fault_text(read_text("x.jsonl", "{\"trace_id\": 1,\n"));
    assert!(line.contains("x.jsonl:1"), "{line}");
    assert!(fault_text(read_text("x.json", "[]")).contains("no rows"));
    assert!(fault_text(read_text("x.json", "[1]")).contains("no supported trace format"));
    let absent = read(Path::new("/nonexistent/x.json"), Format::Auto).expect_err("unreadable");
    assert_eq!(absent.exit_status(), 2);
}

#[test]
fn truth_that_points_at_nothing_is_refused() {
    let text = std::fs::read_to_string(case("scenario-v3.jsonl")).expect("readable");
    let fault = fault_text(read_text("x.jsonl", &text.replace("\"/subject\"", "\"/subjekt\"")));
    assert!(fault.contains("`clues` points at no single value"), "{fault}");
}

#[test]
fn an_id_that_appears_twice_is_refused() {
    let error = read_many(&[case("scenario-v2.json"), case("scenario-v2.json")], Format::Auto).expect_err("a fault");
    assert!(error.to_string().contains("appears twice"));
    assert!(error.hints()[0].contains("--variant negative-control"));
}

#[test]
fn leaves_keep_numbers_as_written_and_escape_pointers() {
    let found = leaves(r#"{"a/b": [{"x": 170.50}, "y"], "c~": true}"#);
    let pairs: Vec<(&str, &str)> = found.iter().map(|leaf| (leaf.pointer.as_str(), leaf.text.as_str())).collect();
    assert_eq!(pairs, [("/a~1b/0/x", "170.50"), ("/a~1b/1", "y"), ("/c~0", "true")]);
}

#[test]
fn the_public_release_reads_whole() {
    let Some(folder) = shared("data/topbench-v2") else { return };
    let traces = read_many(&[folder], Format::Auto).expect("read");
    let count = |variant| traces.iter().filter(|trace| trace.variant == variant).count();
    assert_eq!((count(Variant::Base), count(Variant::NegativeControl), count(Variant::SocialContext)), (240, 240, 82));
    assert!(traces.iter().all(|trace| trace.support.len() >= 2 && !trace.flags.contains(&Flag::ReturnNotJson)));
}
