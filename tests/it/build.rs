//! Claims about `build`.

#![allow(clippy::unwrap_used, reason = "a fixture that fails to read fails its test")]

mod set;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use topalign::audit::{Audited, Verdict};
use topalign::build::{self, Built, Counts, Inputs, Made, Reason, Writer};
use topalign::contract::{self, Contract};
use topalign::dataset::{PairKind, Stage};
use topalign::recipe::settings::{Share, Tables};
use topalign::run::seed::Seed;
use topalign::trace::{self, Flag, Format, Part, Trace};

fn cases() -> (Vec<Trace>, Vec<Contract>) {
    let traces = trace::read(Path::new("tests/cases/build-traces.jsonl"), Format::Canonical).unwrap();
    let contracts = contracts(&traces);
    (traces, contracts)
}

fn contracts(traces: &[Trace]) -> Vec<Contract> {
    contract::derive_all(traces).into_iter().filter_map(|derived| derived.contract.ok()).collect()
}

fn all(traces: &[Trace], contracts: &[Contract], seed: u64) -> Built {
    build::build(traces, contracts, &BTreeMap::new(), &Writer::Template, Seed(seed)).unwrap()
}

/// The public traces, where this machine has them.
fn public_traces() -> Option<Vec<Trace>> {
    let shared = std::env::var("TOPALIGN_SHARED")
        .map_or_else(|_| Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared"), PathBuf::from);
    let path = shared.join("data/topbench-v2/Trajectories.json");
    if !path.exists() {
        println!("skipped: no public traces at TOPALIGN_SHARED or ../shared");
        return None;
    }
    Some(trace::read(&path, Format::Auto).unwrap())
}

#[test]
fn a_usable_trace_gives_two_sft_rows_and_three_pairs_with_one_chosen_answer() {
    let (traces, contracts) = cases();
    for seed in 0..8 {
        let built = all(&traces, &contracts, seed);
        assert!(built.quarantine.is_empty(), "{:?}", built.quarantine);
        assert_eq!((built.sft.len(), built.pairs.len()), (4, 6));
        for trace in &traces {
            let row = built
                .sft
                .iter()
                .map(Audited::row)
                .find(|row| row.trace_id.as_ref() == Some(&trace.trace_id) && row.stage == Some(Stage::Response))
                .unwrap();
            let pairs: Vec<_> = built
                .pairs
                .iter()
                .map(Audited::row)
                .filter(|pair| pair.trace_id.as_ref() == Some(&trace.trace_id))
                .collect();
            assert_eq!(pairs.iter().filter_map(|pair| pair.kind).collect::<Vec<_>>(), PairKind::ALL);
            for pair in pairs {
                assert_eq!(pair.chosen.last(), row.messages.last());
                assert_eq!(pair.prompt[..], row.messages[..2]);
                assert_ne!(pair.rejected, pair.chosen);
            }
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_rows_and_other_traces_never_shift_them() {
    let (traces, contracts) = cases();
    let both = all(&traces, &contracts, 5);
    let again = all(&traces, &contracts, 5);
    assert_eq!((&both.sft, &both.pairs), (&again.sft, &again.pairs));
    let alone = all(&traces[1..], &contracts, 5);
    let answers = |built: &Built| -> Vec<_> {
        let pairs = built.pairs.iter().map(Audited::row);
        pairs.filter(|pair| pair.trace_id.as_deref() == Some("case/2")).map(|pair| pair.rejected.clone()).collect()
    };
    assert_eq!(answers(&both), answers(&alone));
    assert_ne!(all(&traces, &contracts, 6).pairs, both.pairs);
}

#[test]
fn held_out_traces_and_traces_outside_the_split_give_no_row() {
    let (traces, contracts) = cases();
    let parts = BTreeMap::from([("case/1".to_owned(), Part::HeldOut), ("other".to_owned(), Part::Train)]);
    let built = build::build(&traces, &contracts, &parts, &Writer::Template, Seed(0)).unwrap();
    assert!(built.sft.is_empty() && built.pairs.is_empty());
    assert_eq!(built.held_out, 1);
    let out: Vec<_> = built.quarantine.iter().map(|entry| (entry.trace_id.as_str(), entry.reason)).collect();
    assert_eq!(out, [("case/2", Reason::NotInSplit)]);
}

#[test]
fn what_cannot_be_trained_on_is_left_out_with_its_reason() {
    let (mut traces, mut contracts) = cases();
    let mut copy = traces[0].clone();
    copy.trace_id = "case/copy".to_owned();
    contracts.extend(self::contracts(std::slice::from_ref(&copy)));
    traces.push(copy);
    traces[1].flags.push(Flag::Conflict);
    let mut orphan = traces[0].clone();
    orphan.trace_id = "case/orphan".to_owned();
    traces.push(orphan);
    let reasons: Vec<_> = all(&traces, &contracts, 0).quarantine.into_iter().map(|entry| entry.reason).collect();
    assert_eq!(reasons, [Reason::Conflict, Reason::DuplicatePrompt, Reason::NoContract]);
}

#[test]
fn a_required_value_that_states_the_conclusion_is_quarantined_by_the_audit() {
    let (mut traces, _) = cases();
    traces.truncate(1);
    if let Some(truth) = traces[0].truth.as_mut() {
        truth.labels.push("Second conversation".to_owned());
        truth.required.push(trace::Located { tool_id: "T2".to_owned(), pointer: "/events/0/title".to_owned() });
    }
    let contracts = contracts(&traces);
    let built = all(&traces, &contracts, 0);
    assert!(built.sft.is_empty() && built.pairs.is_empty());
    assert_eq!(built.quarantine[0].reason, Reason::Audit);
    assert!(built.audits.iter().any(|record| record.row == "quarantine:0" && record.verdict == Verdict::Fail));
}

#[test]
fn an_answer_that_could_name_only_one_of_several_tools_is_left_out() {
    let (mut traces, _) = cases();
    traces.truncate(1);
    traces[0].tools[1].return_text = r#"{"ok": true}"#.to_owned();
    let built = all(&traces, &contracts(&traces), 0);
    assert!(built.sft.is_empty());
    assert_eq!(built.quarantine[0].reason, Reason::ThinAnswer);
}

fn made<'a>(inputs: &'a Inputs, options: &'a build::Options<'a>) -> Made<'a> {
    Made { inputs, writer: &Writer::Template, seed: Seed(0), options, tables: Tables::Json }
}

#[test]
fn a_folder_holds_every_file_and_the_digests_of_its_outputs() {
    let (traces, contracts) = cases();
    let built = all(&traces, &contracts, 0);
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("data");
    for _ in 0..2 {
        let counts = Counts::of(&built);
        build::write(&out, &built, &counts, made(&Inputs::default(), &build::Options::default())).unwrap();
    }
    let manifest: serde_json::Value =
        serde_json::from_slice(&std::fs::read(out.join("manifest.json")).unwrap()).unwrap();
    for name in ["sft.jsonl", "dpo.jsonl", "audit.jsonl", "quarantine.jsonl", "README.md"] {
        let digest = topalign::run::digest::of_file(&out.join(name)).unwrap();
        assert_eq!(manifest["outputs"][name], digest, "{name}");
    }
    assert_eq!(manifest["counts"]["pairs"]["over-refusal"], 2);
    let lengths = &manifest["counts"]["lengths"];
    assert!(lengths["over-refusal"]["signed_difference"].is_number(), "{lengths}");
    assert!(lengths["chosen"].get("signed_difference").is_none(), "chosen answers are compared with nothing");
    assert!(lengths["chosen"].get("largest_difference").is_none(), "{lengths}");
    assert_eq!(topalign::dataset::read_sft(&out.join("sft.jsonl")).unwrap().len(), 4);
    assert_eq!(topalign::dataset::read_preferences(&out.join("dpo.jsonl")).unwrap().len(), 6);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing temporary stays");
}

#[test]
fn a_row_carries_the_digest_of_its_audit_records() {
    let (traces, contracts) = cases();
    let built = all(&traces, &contracts, 0);
    for (index, pair) in built.pairs.iter().enumerate() {
        let name = format!("dpo:{index}");
        let records: Vec<_> = built.audits.iter().filter(|record| record.row == name).collect();
        assert!(records.len() > 6);
        assert_eq!(pair.row().audit, Some(topalign::run::digest::of_value(&records).unwrap()));
    }
}

#[test]
fn public_traces_give_at_least_180_usable_ones_with_lengths_that_tell_nothing() {
    let Some(traces) = public_traces() else { return };
    let contracts = contracts(&traces);
    let built = all(&traces, &contracts, 0);
    let counts = Counts::of(&built);
    assert!(counts.usable >= 180, "{}", counts.text());
    for kind in PairKind::ALL {
        assert!(counts.pairs[kind.name()] >= 180, "{}", counts.text());
        let lengths = counts.lengths[kind.name()];
        assert!(lengths.signed_difference.unwrap().abs() < 0.01, "{}", counts.text());
        assert!(lengths.largest_difference.unwrap() <= 0.1, "{}", counts.text());
    }
    let accounted: BTreeSet<_> = built
        .sft
        .iter()
        .filter_map(|row| row.row().trace_id.clone())
        .chain(built.quarantine.iter().map(|entry| entry.trace_id.clone()))
        .collect();
    assert_eq!(accounted.len(), traces.len(), "every trace is used or left out with a reason");
}

fn with(traces: &[Trace], contracts: &[Contract], options: &build::Options<'_>) -> Built {
    build::build_with(traces, contracts, &BTreeMap::new(), &Writer::Template, Seed(5), options).unwrap()
}

fn synthetic(count: usize) -> (Vec<Trace>, Vec<Contract>) {
    use topalign::synthesis::{Request, Twins, Wording, synthesize};
    let traces = synthesize(Request {
        count,
        seed: Seed(4),
        part: None,
        twins: Twins::None,
        disclosing: 0,
        wording: Wording::Prose,
    })
    .unwrap();
    let contracts = contracts(&traces);
    (traces, contracts)
}

#[test]
fn stage_one_pairs_reject_too_many_tools_and_a_rationale_that_leaks() {
    use topalign::dataset::SelectionKind;
    let (traces, contracts) = synthetic(60);
    let options = build::Options { selection_pairs: build::SelectionPairs::Written, ..build::Options::default() };
    let built = with(&traces, &contracts, &options);
    let of = |kind| built.selection_pairs.iter().map(Audited::row).filter(move |pair| pair.kind == kind);
    assert_eq!(of(SelectionKind::LeakingRationale).count(), 60);
    let with_noise = traces.iter().filter(|trace| trace.tools.iter().any(|tool| !tool.essential)).count();
    assert_eq!(of(SelectionKind::OverCollection).count(), with_noise);
    for pair in of(SelectionKind::LeakingRationale) {
        let trace = traces.iter().find(|trace| Some(&trace.trace_id) == pair.trace_id.as_ref()).unwrap();
        let conclusion = trace.sensitive_conclusion.trim_end_matches('.').to_lowercase();
        assert!(pair.rejected[0].content.to_lowercase().contains(&conclusion));
        assert!(!pair.chosen[0].content.to_lowercase().contains(&conclusion));
        assert!(topalign::prompt::read_selection(&pair.chosen[0].content, trace).is_ok());
    }
    assert!(all(&traces, &contracts, 5).selection_pairs.is_empty(), "only where asked for");
}

#[test]
fn a_form_is_filled_in_under_its_own_numbers_by_chosen_and_by_unguarded_answers() {
    use topalign::synthesis::{Request, Twins, Wording, synthesize};
    let request =
        Request { count: 60, seed: Seed(4), part: None, twins: Twins::None, disclosing: 0, wording: Wording::Form };
    let traces = synthesize(request).unwrap();
    let contracts = contracts(&traces);
    let built = all(&traces, &contracts, 5);
    let leaking = build::build_unguarded(&traces, &contracts, &BTreeMap::new(), Share::LEAKING, Seed(5)).unwrap();
    let chosen = built.pairs.iter().map(|pair| (&pair.row().trace_id, pair.row().chosen[0].content.as_str()));
    let unguarded = leaking.sft.iter().filter(|row| row.row().stage == Some(Stage::Response));
    let unguarded = unguarded.map(|row| (&row.row().trace_id, row.row().messages[2].content.as_str()));
    let mut seen = 0;
    for (id, answer) in chosen.chain(unguarded) {
        let trace = traces.iter().find(|trace| Some(&trace.trace_id) == id.as_ref()).unwrap();
        for field in trace.goal.lines().skip(1) {
            assert!(answer.lines().any(|line| line.starts_with(&format!("{field}: "))), "{field} in {answer}");
            seen += 1;
        }
    }
    assert!(seen > 500, "{seen}");
}

#[test]
fn a_quota_leaves_at_most_so_many_pairs_of_a_cell_and_says_which_are_out() {
    let (traces, contracts) = synthetic(100);
    let built = with(&traces, &contracts, &build::Options { quota: Some(2), ..build::Options::default() });
    assert_eq!(built.pairs.len(), 3 * 20 * 2);
    let out = built.quarantine.iter().filter(|entry| entry.reason == Reason::OverQuota).count();
    assert_eq!(out, 300 - 120);
    assert_eq!(built.sft.len(), 200);
}

#[test]
fn answers_of_real_runs_are_classed_and_preferred_over_written_ones() {
    let (traces, contracts) = synthetic(4);
    let usual = all(&traces, &contracts, 5);
    let rejected = |built: &Built, trace: &Trace, kind| -> (String, String) {
        let mut pairs = built.pairs.iter().map(Audited::row);
        let pair =
            pairs.find(|pair| pair.trace_id.as_ref() == Some(&trace.trace_id) && pair.kind == Some(kind)).unwrap();
        (pair.rejected[0].content.clone(), pair.writer_rejected.clone().unwrap())
    };
    let chosen = |built: &Built, trace: &Trace| -> (String, String) {
        let mut rows = built.sft.iter().map(Audited::row);
        let row = rows
            .find(|row| row.trace_id.as_ref() == Some(&trace.trace_id) && row.stage == Some(Stage::Response))
            .unwrap();
        (row.messages.last().unwrap().content.clone(), row.writer.clone().unwrap())
    };
    let response = |trace: &Trace, content: &str, extra: serde_json::Value| -> build::Response {
        let mut row = serde_json::json!({"trace_id": trace.trace_id, "model": "m", "stage": 2, "content": content});
        row.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        serde_json::from_value(row).unwrap()
    };
    let none = || serde_json::json!({});
    // Real answers are made of the written ones of another seed, so that their classes are known.
    let other = all(&traces, &contracts, 9);
    let responses = [
        response(&traces[0], &chosen(&other, &traces[0]).0, none()),
        response(&traces[1], &rejected(&other, &traces[1], PairKind::ExplicitLeak).0, none()),
        response(&traces[2], &rejected(&other, &traces[2], PairKind::OverRefusal).0, none()),
        response(
            &traces[3],
            &rejected(&other, &traces[3], PairKind::ExplicitLeak).0,
            serde_json::json!({"finish": "length"}),
        ),
        response(&traces[3], "Something else.", none()),
    ];
    let built =
        with(&traces, &contracts, &build::Options { mined: build::Mined::new(&responses), ..Default::default() });
    let classes: Vec<(&str, usize)> = built.mined.iter().map(|(class, count)| (*class, *count)).collect();
    assert_eq!(
        classes,
        [("explicit-leak", 1), ("incomplete", 1), ("over-refusal", 1), ("safe-complete", 1), ("unusable", 1)]
    );
    assert_eq!(chosen(&built, &traces[0]), (chosen(&other, &traces[0]).0, "mined:m".to_owned()));
    assert_eq!(rejected(&built, &traces[1], PairKind::ExplicitLeak).1, "mined:m");
    assert_eq!(rejected(&built, &traces[1], PairKind::ExplicitLeak).0, responses[1].content.clone().unwrap());
    assert_eq!(rejected(&built, &traces[2], PairKind::OverRefusal).1, "mined:m");
    // A cut run changes nothing.
    assert_eq!(chosen(&built, &traces[3]), chosen(&usual, &traces[3]));
    assert_eq!(
        rejected(&built, &traces[3], PairKind::ExplicitLeak),
        rejected(&usual, &traces[3], PairKind::ExplicitLeak)
    );
}

#[test]
fn rows_depend_neither_on_pieces_nor_on_threads() {
    let (traces, contracts) = synthetic(40);
    let options = build::Options { quota: Some(1), ..build::Options::default() };
    let whole = with(&traces, &contracts, &options);
    let by_id: BTreeMap<&str, &Contract> =
        contracts.iter().map(|contract| (contract.trace_id.as_deref().unwrap(), contract)).collect();
    for threads in [1, 3] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let (parts, writer) = (BTreeMap::new(), Writer::Template);
        let mut builder = build::Builder::new(&parts, &writer, Seed(5), &options);
        let pieces: Vec<Built> =
            traces.chunks(7).map(|piece| pool.install(|| builder.take(piece, &by_id)).unwrap()).collect();
        assert_eq!(pieces.iter().flat_map(|piece| piece.sft.clone()).collect::<Vec<_>>(), whole.sft);
        assert_eq!(pieces.iter().flat_map(|piece| piece.pairs.clone()).collect::<Vec<_>>(), whole.pairs);
        assert_eq!(pieces.iter().flat_map(|piece| piece.audits.clone()).collect::<Vec<_>>(), whole.audits);
        assert_eq!(pieces.iter().flat_map(|piece| piece.quarantine.clone()).collect::<Vec<_>>(), whole.quarantine);
        let mut tallying = build::Tallying::default();
        for piece in &pieces {
            tallying.add(piece);
        }
        assert_eq!(tallying.counts(), Counts::of(&whole));
    }
}

#[test]
fn a_folder_written_piece_by_piece_is_that_of_one_build() {
    let (traces, contracts) = synthetic(30);
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole");
    let (inputs, options) = (Inputs::default(), build::Options::default());
    let built = with(&traces, &contracts, &options);
    let made = Made { seed: Seed(5), ..made(&inputs, &options) };
    build::write(&whole, &built, &Counts::of(&built), made).unwrap();
    let pieces = written_in_pieces(folder.path(), made);
    for name in ["sft.jsonl", "dpo.jsonl", "audit.jsonl", "quarantine.jsonl", "README.md"] {
        assert!(std::fs::read(whole.join(name)).unwrap() == std::fs::read(pieces.join(name)).unwrap(), "{name}");
    }
}

/// Thirty traces, and their contracts in another order, from files.
fn written_in_pieces(folder: &Path, made: Made<'_>) -> PathBuf {
    let (traces, mut contracts) = synthetic(30);
    contracts.reverse();
    let [traces_file, contracts_file, out] =
        ["traces.jsonl", "contracts.jsonl", "pieces"].map(|name| folder.join(name));
    topalign::run::jsonl::write(&traces_file, &traces).unwrap();
    topalign::run::jsonl::write(&contracts_file, &contracts).unwrap();
    let sources = build::Sources { traces: &traces_file, format: Format::Auto, contracts: &contracts_file, only: None };
    build::write_each(&out, sources, &BTreeMap::new(), made).unwrap();
    out
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_files_hold_the_rows_of_the_json_ones() {
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    let folder = tempfile::tempdir().unwrap();
    let (inputs, options) = (Inputs::default(), build::Options::default());
    let out = written_in_pieces(
        folder.path(),
        Made { tables: Tables::JsonAndParquet, seed: Seed(5), ..made(&inputs, &options) },
    );
    let rows = |name: &str| -> Vec<String> {
        let reader = SerializedFileReader::new(std::fs::File::open(out.join(name)).unwrap()).unwrap();
        reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect()
    };
    assert_eq!((rows("sft.parquet").len(), rows("dpo.parquet").len()), (60, 90));
    let pairs = topalign::dataset::read_preferences(&out.join("dpo.jsonl")).unwrap();
    for (pair, row) in pairs.iter().zip(rows("dpo.parquet")) {
        let answer = serde_json::to_string(&pair.rejected[0].content).unwrap();
        let start: String = answer.chars().skip(1).take(20).collect();
        for text in
            [pair.trace_id.as_deref().unwrap(), pair.kind.unwrap().name(), pair.audit.as_deref().unwrap(), &start]
        {
            assert!(row.contains(text), "{text}: {row}");
        }
    }
}

#[cfg(not(feature = "parquet"))]
#[test]
fn a_build_without_parquet_says_so_before_it_writes() {
    let folder = tempfile::tempdir().unwrap();
    let (traces, contracts) = synthetic(3);
    let (inputs, options) = (Inputs::default(), build::Options::default());
    let built = with(&traces, &contracts, &options);
    let made = Made { tables: Tables::JsonAndParquet, ..made(&inputs, &options) };
    let out = folder.path().join("data");
    let error = build::write(&out, &built, &Counts::of(&built), made).unwrap_err();
    assert_eq!((error.exit_status(), error.hints().len()), (2, 1));
    assert!(!out.exists());
}

#[test]
fn no_usable_trace_leaves_the_folder_as_it_was() {
    let (traces, _) = synthetic(3);
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    topalign::run::jsonl::write(&path("traces.jsonl"), &traces).unwrap();
    topalign::run::jsonl::write(&path("contracts.jsonl"), contracts(&synthetic(9).0[5..])).unwrap();
    std::fs::create_dir(path("data")).unwrap();
    std::fs::write(path("data").join("manifest.json"), "as it was").unwrap();
    let sources = build::Sources {
        traces: &path("traces.jsonl"),
        format: Format::Auto,
        contracts: &path("contracts.jsonl"),
        only: None,
    };
    let (inputs, options) = (Inputs::default(), build::Options::default());
    let error = build::write_each(&path("data"), sources, &BTreeMap::new(), made(&inputs, &options)).unwrap_err();
    assert_eq!(error.exit_status(), 2);
    assert!(error.to_string().contains("no-contract 3"), "{error}");
    assert_eq!(std::fs::read_to_string(path("data").join("manifest.json")).unwrap(), "as it was");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3, "nothing temporary stays");
}
