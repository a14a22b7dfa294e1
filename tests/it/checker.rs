//! Claims about rows built from scenarios with known truth, by a checker that shares no code with builder, audit or adjudicator:
//! it reads the traces' JSON and the rows' JSON, and compares words.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use topalign::build::{self, Counts, Writer, build_unguarded};
use topalign::contract::{Contract, derive_all};
use topalign::recipe::settings::Share;
use topalign::run::seed::Seed;
use topalign::synthesis::{Request, Twins, Wording, synthesize};
use topalign::trace::Trace;

/// Case-folded words with a space around each.
fn words(text: &str) -> String {
    let lower = text.to_lowercase();
    let words: Vec<&str> = lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    format!(" {} ", words.join(" "))
}

/// What the truth of one trace says, as plain texts.
struct Known {
    labels: Vec<String>,
    required: Vec<String>,
    /// Steps of the chain that the request does not ask for.
    private: Vec<String>,
    essential: BTreeSet<String>,
}

fn known(trace: &Value) -> Known {
    let strings = |value: &Value| -> Vec<String> {
        value.as_array().unwrap().iter().map(|item| item.as_str().unwrap().to_owned()).collect()
    };
    let at = |place: &Value| -> String {
        let tools = trace["tools"].as_array().unwrap();
        let tool = tools.iter().find(|tool| tool["tool_id"] == place["tool_id"]).unwrap();
        let result: Value = serde_json::from_str(tool["return_text"].as_str().unwrap()).unwrap();
        result.pointer(place["pointer"].as_str().unwrap()).unwrap().as_str().unwrap().to_owned()
    };
    let truth = &trace["truth"];
    let required: Vec<String> = truth["required"].as_array().unwrap().iter().map(at).collect();
    let mut labels = strings(&truth["labels"]);
    labels.push(trace["sensitive_conclusion"].as_str().unwrap().trim_end_matches('.').to_owned());
    let clues = truth["clues"].as_array().unwrap().iter().map(at);
    let tools = trace["tools"].as_array().unwrap().iter();
    Known {
        labels,
        private: clues.filter(|clue| !required.contains(clue)).collect(),
        required,
        essential: tools
            .filter(|tool| tool["essential"] == true)
            .map(|tool| tool["tool_id"].as_str().unwrap().to_owned())
            .collect(),
    }
}

impl Known {
    /// Said of the user, or to them: `you were fired` says `was fired`.
    fn states_conclusion(&self, answer: &str) -> bool {
        let of_user = words(answer);
        let to_user = of_user.replace(" you are ", " you is ").replace(" you were ", " you was ");
        self.labels.iter().any(|label| of_user.contains(&words(label)) || to_user.contains(&words(label)))
    }

    fn is_complete(&self, answer: &str) -> bool {
        self.required.iter().all(|value| answer.contains(value))
    }

    fn tells_private(&self, answer: &str) -> bool {
        self.private.iter().any(|value| words(answer).contains(&words(value)))
    }
}

/// One in ten requests asks for the private entry itself.
fn material(count: usize) -> (Vec<Trace>, Vec<Contract>, BTreeMap<String, Known>) {
    let request =
        Request { count, seed: Seed(23), part: None, twins: Twins::None, disclosing: 10, wording: Wording::Prose };
    let traces = synthesize(request).unwrap();
    let contracts = derive_all(&traces).into_iter().map(|derived| derived.contract.unwrap()).collect();
    let known = traces.iter().map(|trace| (trace.trace_id.clone(), known(&serde_json::to_value(trace).unwrap())));
    let known = known.collect();
    (traces, contracts, known)
}

fn last<'a>(row: &'a Value, field: &str) -> &'a str {
    row[field].as_array().unwrap().last().unwrap()["content"].as_str().unwrap()
}

fn selected(answer: &str) -> BTreeSet<String> {
    let reply: Value = serde_json::from_str(answer).unwrap();
    reply["selected_tool_ids"].as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_owned()).collect()
}

/// Builds and checks all rows; prints what it counted.
fn check(count: usize) {
    let (traces, contracts, known) = material(count);
    let built = build::build(&traces, &contracts, &BTreeMap::new(), &Writer::Template, Seed(3)).unwrap();
    let mut wrong: BTreeMap<String, usize> = BTreeMap::new();
    let mut rows: BTreeMap<String, usize> = BTreeMap::new();
    let mut expect = |kind: &str, claim: &str, holds: bool| {
        *rows.entry(kind.to_owned()).or_default() += 1;
        *wrong.entry(format!("{kind}: {claim}")).or_default() += usize::from(!holds);
    };
    for row in &built.sft {
        let row = serde_json::to_value(row).unwrap();
        let (truth, answer) = (&known[row["trace_id"].as_str().unwrap()], last(&row, "messages"));
        if row["stage"] == 1 {
            expect("selection", "takes other tools than the essential ones", selected(answer) == truth.essential);
            continue;
        }
        expect("chosen", "states the conclusion", !truth.states_conclusion(answer));
        expect("chosen", "tells a private step", !truth.tells_private(answer));
        expect("chosen", "misses a required value", truth.is_complete(answer));
    }
    for pair in &built.pairs {
        let pair = serde_json::to_value(pair).unwrap();
        let (truth, answer) = (&known[pair["trace_id"].as_str().unwrap()], last(&pair, "rejected"));
        let (kind, chosen) = (pair["kind"].as_str().unwrap(), last(&pair, "chosen"));
        let (length, other) = (answer.chars().count() as f64, chosen.chars().count() as f64);
        expect(kind, "is more than a tenth off in length", (length - other).abs() <= 0.1 * other);
        match kind {
            "explicit-leak" => {
                expect(kind, "does not state the conclusion", truth.states_conclusion(answer));
                expect(kind, "misses a required value", truth.is_complete(answer));
            }
            "over-disclosure" => {
                expect(kind, "states the conclusion", !truth.states_conclusion(answer));
                // Where the request asks for every step, ordinary values beyond the task take their place.
                expect(kind, "tells nothing private", truth.private.is_empty() || truth.tells_private(answer));
                expect(kind, "misses a required value", truth.is_complete(answer));
            }
            "over-refusal" => {
                expect(kind, "gives every required value", !truth.is_complete(answer));
                expect(kind, "states the conclusion", !truth.states_conclusion(answer));
            }
            other => panic!("{other}"),
        }
    }
    let counts = Counts::of(&built);
    println!("{count} scenarios: {wrong:?}\n{}", counts.text());
    assert!(wrong.values().all(|count| *count == 0), "{wrong:?}");
    assert_eq!((built.sft.len(), built.pairs.len(), built.quarantine.len()), (2 * count, 3 * count, 0));
    for (kind, separability) in &counts.separability {
        assert!(separability.length_only < 0.55 + 1.0 / (count as f64).sqrt(), "{kind} {separability:?}");
    }
}

#[test]
fn an_independent_checker_finds_no_wrong_row() {
    check(200);
}

#[test]
#[ignore = "minutes without optimisation: cargo test --release --test it checker -- --ignored --nocapture"]
fn an_independent_checker_finds_no_wrong_row_among_ten_thousand_scenarios() {
    check(10_000);
}

#[test]
fn unguarded_answers_are_complete_and_leak_in_the_share_asked_for() {
    let (traces, contracts, known) = material(120);
    let share = Share::try_from(0.75).unwrap();
    let built = build_unguarded(&traces, &contracts, &BTreeMap::new(), share, Seed(3)).unwrap();
    assert_eq!((built.sft.len(), built.quarantine.len()), (240, 0));
    let (mut leaking, mut over_collecting, mut with_fragment) = (0, 0, 0);
    for row in &built.sft {
        let row = serde_json::to_value(row).unwrap();
        assert_eq!(row["writer"], "template-unguarded");
        let (truth, answer) = (&known[row["trace_id"].as_str().unwrap()], last(&row, "messages"));
        if row["stage"] == 1 {
            let selected = selected(answer);
            assert!(selected.is_superset(&truth.essential));
            over_collecting += usize::from(selected.len() > truth.essential.len());
            continue;
        }
        assert!(truth.is_complete(answer), "{answer}");
        leaking += usize::from(truth.states_conclusion(answer));
        with_fragment += usize::from(truth.tells_private(answer));
    }
    println!("{leaking} leak, {with_fragment} tell private steps, {over_collecting} over-collect, of 120");
    assert!((75..=105).contains(&leaking), "{leaking}");
    assert!((10..=50).contains(&over_collecting) && with_fragment > 5, "{over_collecting} {with_fragment}");
    assert_eq!(built.counts.rows.values().sum::<usize>(), 240);
}

#[test]
fn an_unguarded_folder_says_what_it_is_and_holds_no_pair() {
    let (traces, contracts, _) = material(20);
    let built = build_unguarded(&traces, &contracts, &BTreeMap::new(), Share::LEAKING, Seed(3)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("data");
    build::write_unguarded(&out, &built, &build::Inputs::default(), Share::LEAKING, Seed(3)).unwrap();
    let manifest: Value = serde_json::from_slice(&std::fs::read(out.join("manifest.json")).unwrap()).unwrap();
    assert_eq!((&manifest["answers"], &manifest["writer"]), (&"unguarded".into(), &"template-unguarded".into()));
    assert!(std::fs::read_to_string(out.join("README.md")).unwrap().starts_with("# UNGUARDED"));
    assert_eq!(std::fs::read_to_string(out.join("dpo.jsonl")).unwrap(), "");
    assert_eq!(topalign::dataset::read_sft(&out.join("sft.jsonl")).unwrap().len(), 40);
}
