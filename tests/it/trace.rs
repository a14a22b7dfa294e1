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
use topalign::trace::{
    Cut, Difficulty, Domain, Flag, Format, Rows, Trace, Variant, each_in, leaves, read, read_as, read_many,
};

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
    assert!(cut.contains("x.json:") && cut.contains("not valid JSON: EOF"), "{cut}");
    let line = fault_text(read_text("x.jsonl", "{\"trace_id\": 1,\n"));
    assert!(line.contains("x.jsonl:1"), "{line}");
    assert!(fault_text(read_text("x.json", "[]")).contains("no rows"));
    assert!(fault_text(read_text("x.json", "[1]")).contains("no supported trace format"));
    let absent = read(Path::new("/nonexistent/x.json"), Format::Auto).expect_err("unreadable");
    assert_eq!(absent.exit_status(), 2);
}

/// Texts and lines of all rows, and where the input was cut, read in pieces of `piece` bytes.
#[expect(clippy::type_complexity, reason = "told in the line above")]
fn rows_of(bytes: &[u8], piece: usize) -> Result<(Vec<(usize, String)>, Option<Cut>), Error> {
    let mut rows = Rows::new(std::io::BufReader::with_capacity(piece, bytes), "x")?;
    let mut found = Vec::new();
    while let Some(row) = rows.next_row()? {
        assert_eq!(row.index, found.len());
        found.push((row.line, row.text.to_owned()));
    }
    Ok((found, rows.cut()))
}

#[test]
fn lines_arrays_and_objects_over_several_lines_give_the_same_rows_in_pieces_of_any_size() {
    let line = "{\"a\": 170.50, \"b\": \"x\u{2028}y\\\"}]\"}";
    let layouts = [
        (format!("{line}\r\n\r\n{line}\n"), vec![1, 3]),
        (format!("\u{FEFF} \n[{line},\n {line} ]\n"), vec![2, 3]),
        (format!("{line}\n{line}"), vec![1, 2]),
        (format!("[\n{line}\n,\n{line}\n]"), vec![2, 4]),
    ];
    for (text, lines) in &layouts {
        for piece in [1, 2, 3, 7, 4096] {
            let (rows, cut) = rows_of(text.as_bytes(), piece).expect("read");
            assert_eq!(rows, lines.iter().map(|at| (*at, line.to_owned())).collect::<Vec<_>>(), "{text:?} by {piece}");
            assert_eq!(cut, None);
        }
    }
    let (rows, _) = rows_of(b"{\n\"a\": 1\n}\n{\n\"a\": 2}\n", 2).expect("read");
    assert_eq!(rows, [(1, "{\n\"a\": 1\n}".to_owned()), (4, "{\n\"a\": 2}".to_owned())]);
    assert_eq!(rows_of(b"[1, \"a]\", [2], null]", 1).expect("read").0.len(), 4);
    assert_eq!(rows_of(b"[]", 1).expect("read").0.len(), 0);
}

#[test]
fn a_cut_last_row_is_left_out_and_told_but_never_one_before_it() {
    let cut = |text: &str| rows_of(text.as_bytes(), 5).map(|(rows, cut)| (rows.len(), cut));
    assert_eq!(cut("{\"a\": 1}\n{\"a\": \"é").expect("kept"), (1, Some(Cut { line: 2, byte: 9 })));
    assert_eq!(cut("{\"a\": 1}\r\n{\"a\": 2\r\n").expect("kept"), (1, Some(Cut { line: 2, byte: 10 })));
    assert_eq!(cut("[{\"a\": 1},\n{\"a\"").expect("kept"), (1, Some(Cut { line: 2, byte: 11 })));
    assert_eq!(cut("[{\"a\": 1}").expect("kept"), (1, Some(Cut { line: 1, byte: 9 })));
    let half_a_character = [b"{\"a\": 1}\n{\"a\": \"".as_slice(), &[0xc3]].concat();
    assert_eq!(rows_of(&half_a_character, 5).expect("kept").1, Some(Cut { line: 2, byte: 9 }));
    for text in [
        "{\"a\": 1}\n{\"a\": \n{\"a\": 2}\n",
        "{\"a\": 1}\n{\"a\": }\n",
        "[{\"a\": 1},\n{\"a\": }]",
        "{\"a\": ",
        "[{\"a\": 1",
    ] {
        assert_eq!(cut(text).expect_err("no cut end but an error").exit_status(), 2, "{text}");
    }
}

#[test]
fn corruption_in_the_middle_names_line_and_byte() {
    let text = |bytes: &[u8]| rows_of(bytes, 3).expect_err("a fault").to_string();
    assert!(text(b"{\"a\": 1}\n{\"a\": 1 \"b\"}\n{}\n").starts_with("x:2 (byte 17): not valid JSON"));
    assert!(text(b"{\"a\": 1}\n{\"a\": \"\xff\"}\n{}\n").starts_with("x:2 (byte 16): not UTF-8 text"));
    assert!(text(b"[{\"a\": 1}\n{\"a\": 2}]").starts_with("x:2 (byte 10): not valid JSON: no comma between two items"));
    assert!(text(b"[{},\n{\"a\":\n@}]").starts_with("x:3 (byte 11): not valid JSON"));
    assert!(text(b"[{}, ]").contains("a comma before the end"));
    assert!(text(b"[{}]\n{}").contains("x:2 (byte 5): not valid JSON: something follows the array"));
    assert!(text(b"[, {}]").contains("not valid JSON"));
}

#[test]
fn content_of_no_known_format_names_the_formats() {
    let fault = fault_text(read_text("traces.jsonl", "{\"question\": 1, \"answer\": 2}\n"));
    for name in [
        "topbench-v1",
        "topbench-v2",
        "topbench-v3",
        "canonical",
        "topbench-run",
        "agentleak",
        "openai-chat",
        "inspect",
        "agentdojo",
    ] {
        assert!(fault.contains(name), "{name} in {fault}");
    }
    assert!(fault.contains("got `answer, question`"), "{fault}");
    let session = fault_text(read(&case("sources/agentdojo.json"), Format::Auto));
    assert!(session.contains("`agentdojo` holds no traces"), "{session}");
}

#[test]
fn v1_labels_never_stand_in_a_return_and_all_else_stays_as_written() {
    let traces = read(&case("sources/topbench-v1.json"), Format::Auto).expect("read");
    let trace = &traces[0];
    assert_eq!((trace.trace_id.as_str(), trace.domain), ("topbench-v1/12", Domain::Hmd));
    let returns: Vec<&str> = trace.tools.iter().map(|tool| tool.return_text.as_str()).collect();
    assert_eq!(
        returns,
        [
            r#"{"visits": [{"fee": 80.50, "room": "Oncology 2"}]}"#,
            r#"{"paid": 80.50, "to": "Hospital"}"#,
            "sunny all day"
        ]
    );
    let labels = &trace.extra["clue_ids"];
    assert_eq!((&labels["/T1/clue_id"], &labels["/T1/visits/0/Clue ID"]), (&"C1".into(), &"7".into()));
    assert_eq!(trace.flags, [Flag::ReturnNotJson, Flag::ClueLabelRemoved]);
    assert_eq!(trace.sensitive_conclusion, "The user has cancer.");
    assert_eq!(trace.disclosure_criteria.as_deref(), Some("T1 and T2 together name 'Oncology'."));
}

#[test]
fn v1_support_is_the_labelled_tools_then_the_named_then_all_flagged() {
    let traces = read(&case("sources/topbench-v1.json"), Format::Auto).expect("read");
    assert_eq!(traces[0].support, ["T1", "T2", "T3"]);
    assert_eq!((traces[1].support.len(), traces[1].flags.as_slice()), (2, [Flag::SupportFromFlags].as_slice()));
    assert_eq!(
        (traces[1].goal.as_str(), traces[1].tools[0].return_text.as_str()),
        ("Sum my receipts.", r#"{"total": 12.00}"#)
    );
    let text = std::fs::read_to_string(case("sources/topbench-v1.json")).expect("readable");
    let named = read_text("x.json", &text.replace("clue_id", "x").replace("Clue ID", "y")).expect("read");
    assert_eq!(named[0].support, ["T1", "T2"]);
    let no_domain = fault_text(read_text("x.json", &text.replace("\"Domain\": \"FAD\"", "\"Domain\": \"Money\"")));
    assert!(no_domain.contains("(row 1)") && no_domain.contains("privacy domain"), "{no_domain}");
}

proptest::proptest! {
    #[test]
    fn no_bytes_make_a_reader_panic_and_counts_agree(bytes in proptest::collection::vec(proptest::sample::select(b"{}[]\",:\\ \n1naE\xff".as_slice()), 0..200)) {
        let whole = rows_of(&bytes, 4096).map(|(rows, cut)| (rows.len(), cut)).ok();
        let pieces = rows_of(&bytes, 1).map(|(rows, cut)| (rows.len(), cut)).ok();
        proptest::prop_assert_eq!(whole, pieces);
        let mut seen = 0;
        let extent = each_in(&bytes, "x", Format::Canonical, &mut |_| { seen += 1; Ok(()) });
        proptest::prop_assert!(extent.is_err() || seen > 0);
    }
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
