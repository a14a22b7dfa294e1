//! Claims about what the rows of a set decide together: repeats, what was kept out, values of other traces, severities.

use super::*;

#[test]
fn severities_decide_what_a_check_does_to_a_row() {
    use topalign::audit::{Check, Severity};
    let (traces, contracts) = synthetic(20);
    let of = |check, severity| build::Options {
        severities: std::iter::once((check, severity)).collect(),
        ..build::Options::default()
    };
    let off = with(&traces, &contracts, &of(Check::Grounding, Severity::Off));
    assert!(off.audits.iter().all(|record| record.check != Check::Grounding) && !off.sft.is_empty());
    // What only warns by default fails the rows that it warns of.
    let usual = with(&traces, &contracts, &build::Options::default());
    let warned = usual.audits.iter().any(|record| record.check == Check::Leak && record.verdict == Verdict::Warn);
    let strict = with(&traces, &contracts, &of(Check::Leak, Severity::Fail));
    assert!(strict.audits.iter().all(|record| record.check != Check::Leak || record.verdict != Verdict::Warn));
    assert!(!warned || strict.sft.len() + strict.pairs.len() < usual.sft.len() + usual.pairs.len());
}

fn severity(check: topalign::audit::Check, severity: topalign::audit::Severity) -> build::Options<'static> {
    build::Options { severities: std::iter::once((check, severity)).collect(), ..build::Options::default() }
}

fn reasons(built: &Built) -> Vec<(&str, Reason)> {
    built.quarantine.iter().map(|entry| (entry.trace_id.as_str(), entry.reason)).collect()
}

/// A copy under another id whose results read otherwise, by a space or by one word.
fn altered(trace: &Trace, id: &str, from: &str, to: &str) -> Trace {
    let mut copy = trace.clone();
    id.clone_into(&mut copy.trace_id);
    for tool in &mut copy.tools {
        tool.return_text = tool.return_text.replacen(from, to, 1);
    }
    copy
}

#[test]
fn rows_that_repeat_earlier_ones_exactly_or_nearly_are_told_and_weighed() {
    use topalign::audit::{Check, Severity};
    let (mut traces, _) = synthetic(6);
    traces.push(altered(&traces[1], "spaced", "{", "{ "));
    // In a long request one word more is little.
    traces[2].goal += " Keep the wording of each item as it stands in its source, give them in the order in which this request has \
        them, put every one on a line of its own, and leave out whatever was not asked for, so that nothing has to be cut later on. \
        The reader of the answer has little time, works with paper at a desk by the window, and will copy what you write by hand into \
        a ledger that an assistant keeps for the whole department, which is why plain words are better than clever ones. Should some \
        source disagree with another, the newer one is right, and the older one may be passed over without a remark. Neither a \
        greeting nor a farewell is called for, nor any account of how the sources were read, in what order they were opened, or what \
        else stood in them.";
    let mut near = traces[2].clone();
    near.trace_id = "near".to_owned();
    near.goal += " Thanks.";
    traces.push(near);
    let contracts = contracts(&traces);
    let told = |built: &Built, check| -> Vec<(String, Verdict)> {
        let of_check = built.audits.iter().filter(|record| record.check == check);
        of_check.map(|record| (record.trace_id.clone().unwrap_or_default(), record.verdict)).collect()
    };
    let usual = with(&traces, &contracts, &build::Options::default());
    assert_eq!(reasons(&usual), [("spaced", Reason::Audit)]);
    assert!(usual.quarantine[0].checks.contains(&Check::Duplicate));
    let duplicates = told(&usual, Check::Duplicate);
    assert!(duplicates.iter().all(|found| *found == ("spaced".to_owned(), Verdict::Fail)) && !duplicates.is_empty());
    let nearly = told(&usual, Check::NearDuplicate);
    assert!(nearly.contains(&("near".to_owned(), Verdict::Warn)), "{nearly:?}");
    assert_eq!(usual.passed[&Check::Duplicate], usual.sft.len());
    assert_eq!(usual.passed[&Check::Personal], usual.sft.len() + usual.pairs.len());
    let strict = with(&traces, &contracts, &severity(Check::NearDuplicate, Severity::Fail));
    assert!(reasons(&strict).contains(&("near", Reason::Audit)), "{:?}", reasons(&strict));
    let off = with(&traces, &contracts, &severity(Check::Duplicate, Severity::Off));
    assert!(told(&off, Check::Duplicate).is_empty() && !off.passed.contains_key(&Check::Duplicate));
}

#[test]
fn a_prompt_that_is_nearly_a_held_out_or_an_excluded_one_gives_no_row() {
    use topalign::audit::{Check, Severity};
    let (traces, contracts) = synthetic(4);
    let mut near = traces[0].clone();
    near.trace_id = "held/near".to_owned();
    near.goal += " Thanks.";
    let all: Vec<Trace> = traces.iter().cloned().chain([near]).collect();
    let train = traces.iter().map(|trace| (trace.trace_id.clone(), Part::Train));
    let parts: BTreeMap<String, Part> = train.chain([("held/near".to_owned(), Part::HeldOut)]).collect();
    let build = |options: &build::Options<'_>| {
        build::build_with(&all, &contracts, &parts, &Writer::Template, Seed(5), options).unwrap()
    };
    let held = build(&build::Options::default());
    assert_eq!(reasons(&held), [(traces[0].trace_id.as_str(), Reason::KeptOutPrompt)]);
    assert_eq!(held.passed[&Check::Contamination], held.sft.len());
    let warned = build(&severity(Check::Contamination, Severity::Warn));
    let of_check: Vec<_> = warned.audits.iter().filter(|record| record.check == Check::Contamination).collect();
    assert!(!of_check.is_empty() && of_check.iter().all(|record| record.verdict == Verdict::Warn), "{of_check:?}");
    assert_eq!(warned.sft.len(), 8);
    // Rows of another file, by what their prompts say.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows.jsonl");
    topalign::run::jsonl::write(&file, held.sft.iter().rev().take(1)).unwrap();
    let excluded = topalign::audit::file::prompts_of(&[file]).unwrap();
    let out = with(&traces, &contracts, &build::Options { excluded, ..build::Options::default() });
    assert_eq!(reasons(&out), [(traces[3].trace_id.as_str(), Reason::KeptOutPrompt)]);
}

#[test]
fn an_answer_of_a_real_run_with_a_private_value_of_another_trace_is_no_target() {
    use topalign::audit::{Check, Severity};
    let (traces, mut contracts) = synthetic(2);
    let usual = all(&traces, &contracts, 5);
    let row = usual.sft.iter().map(Audited::row).find(|row| row.stage == Some(Stage::Response)).unwrap();
    let content = format!("{} The parcel of grey wool is on its way.", row.messages.last().unwrap().content);
    let json = serde_json::json!({"trace_id": row.trace_id, "model": "m", "stage": 2, "content": content});
    let responses: Vec<build::Response> = vec![serde_json::from_value(json).unwrap()];
    let written = |contracts: &[Contract], severities: topalign::audit::Severities| -> String {
        let mined = build::Mined::new(&responses);
        let built = with(&traces, contracts, &build::Options { mined, severities, ..build::Options::default() });
        let mut rows = built.sft.iter().map(Audited::row);
        rows.find(|row| row.stage == Some(Stage::Response)).unwrap().writer.clone().unwrap()
    };
    let usual = topalign::audit::Severities::default;
    assert_eq!(written(&contracts, usual()), "mined:m");
    let secret = serde_json::json!({"target_id": "x", "value": "parcel of grey wool", "type": "clue"});
    contracts[1].targets.push(serde_json::from_value(secret).unwrap());
    assert_eq!(written(&contracts, usual()), "template");
    let off = std::iter::once((Check::ForeignSecret, Severity::Off)).collect();
    assert_eq!(written(&contracts, off), "mined:m");
}

#[test]
fn what_the_whole_set_shows_has_a_record_of_its_own_and_may_end_the_build() {
    use topalign::audit::{Check, Severity};
    let (traces, contracts) = synthetic(60);
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("data");
    let built = with(&traces, &contracts, &build::Options::default());
    let (inputs, options) = (Inputs::default(), build::Options::default());
    build::write(&out, &built, &Counts::of(&built), made(&inputs, &options)).unwrap();
    let audits = std::fs::read_to_string(out.join("audit.jsonl")).unwrap();
    let of_set: Vec<&str> = audits.lines().filter(|line| line.starts_with("{\"row\":\"set\"")).collect();
    assert_eq!(of_set.len(), 2, "{of_set:?}");
    let card = std::fs::read_to_string(out.join("README.md")).unwrap();
    assert!(card.contains("60 better answers have") && card.contains("Words that tell most"), "{card}");
    // Sixty answers of one frame.
    let mut counts = Counts::of(&built);
    counts.set.top_frame = Some(0.5);
    let before = std::fs::read(out.join("manifest.json")).unwrap();
    let strict = severity(Check::Frame, Severity::Fail);
    let error = build::write(&out, &built, &counts, made(&inputs, &strict)).unwrap_err();
    assert_eq!(error.exit_status(), 3);
    assert!(error.to_string().contains("50.0% of 60 better answers have one frame"), "{error}");
    assert_eq!(std::fs::read(out.join("manifest.json")).unwrap(), before);
}
