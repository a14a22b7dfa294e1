//! Claims about `control`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::json;
use topalign::contract::{Contract, derive_all};
use topalign::control::{
    Appearance, Checked, Checks, ControlCounts, Pairing, control, donors, every_target, repair, subsets,
};
use topalign::observation::{self, Observation, Status};
use topalign::run::jsonl;
use topalign::run::seed::Seed;
use topalign::split::split;
use topalign::trace::{Format, Part, Trace, Variant, read, read_as};

fn traces(path: &Path) -> Vec<Trace> {
    read(path, Format::Auto).expect("traces")
}

fn own() -> Vec<Trace> {
    let mut folder: Vec<_> = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("data"))
        .expect("the scenarios")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
        .collect();
    folder.sort();
    folder.iter().flat_map(|path| traces(path)).collect()
}

fn public() -> Option<Vec<Trace>> {
    crate::trace::shared("data/topbench-v2/Trajectories.json").map(|path| traces(&path))
}

fn contracts(traces: &[Trace]) -> Vec<Contract> {
    derive_all(traces).into_iter().filter_map(|derived| derived.contract.ok()).collect()
}

/// Exposure of every target on every visible channel, and how many targets are found at all.
fn extremes(contracts: &[Contract]) -> ControlCounts {
    let mut counts = ControlCounts::default();
    for contract in contracts {
        counts.add(&control(contract, &every_target(contract)).expect("a control"));
    }
    counts
}

#[test]
fn authorising_everybody_exposes_nothing_and_nobody_everything_in_every_source() {
    let mut sources = vec![own()];
    sources.extend(public());
    for traces in sources {
        let counts = extremes(&contracts(&traces));
        assert!(counts.contracts > 0);
        assert_eq!(counts.appeared, counts.targets, "every target is found where it stands");
        assert_eq!(counts.exposures(), Some((0.0, 1.0)));
    }
}

#[test]
fn internal_channels_and_texts_without_a_target_expose_nothing_either_way() {
    let contract: Contract = serde_json::from_value(json!({
        "contract_id": "c", "channels": [{"name": "email", "visibility": "external"}, {"name": "log", "visibility": "internal"}],
        "targets": [{"target_id": "e1", "value": "Ann Lee"}, {"target_id": "e2", "value": "Bo Ray"}]}))
    .unwrap();
    let on = |channel: &str, payload: &str| Appearance { channel: channel.to_owned(), payload: payload.to_owned() };
    let found = control(&contract, &[on("log", "Bo Ray"), on("email", "to Ann Lee"), on("fax", "nothing")]).unwrap();
    assert_eq!((found.appeared, found.authorized, found.unauthorized), (1, 0, 1));
    let mut none = ControlCounts::default();
    none.add(&control(&contract, &[on("log", "Bo Ray")]).unwrap());
    assert_eq!(none.exposures(), None);
}

#[test]
fn subsets_carry_what_any_of_their_tools_returns() {
    let tool = |id: &str, text: &str| json!({"tool_id": id, "name": id, "description": "", "return_text": text, "essential": true});
    let trace: Trace = serde_json::from_value(json!({"trace_id": "s/1", "source": {"format": "case", "file": "f", "row": 0},
        "domain": "PID", "goal": "g", "tools": [tool("T1", r#"{"a": "moon\u006cighting rota"}"#), tool("T2", r#"{"b": "Bakery"}"#),
        tool("T3", "{}")], "support": ["T1", "T2", "T3"], "sensitive_conclusion": "c"}))
    .unwrap();
    let contract: Contract = serde_json::from_value(json!({"contract_id": "c", "channels": [],
        "targets": [{"target_id": "l", "value": "moonlighting", "type": "label"},
            {"target_id": "k", "value": "Bakery", "type": "clue"}, {"target_id": "n", "value": "nowhere", "type": "label"}]}))
    .unwrap();
    let found = subsets(&trace, &contract).unwrap().unwrap();
    assert_eq!(found.carried.keys().collect::<Vec<_>>(), ["k", "l"]);
    assert_eq!(found.carried["l"].tools, ["T1"]);
    let (one, two) = (found.by_size[&1], found.by_size[&2]);
    assert_eq!((one.subsets, one.with_label, one.with_fragment), (3, 1, 1));
    assert_eq!((two.subsets, two.with_label, two.with_fragment), (3, 2, 2));
    assert!(!found.by_size.contains_key(&3), "the whole support is no proper subset");
}

#[test]
fn scenarios_with_exact_truth_have_no_label_in_any_proper_subset() {
    let traces = own();
    let mut checks = Checks::default();
    for (trace, contract) in traces.iter().zip(contracts(&traces)) {
        checks.add(&Checked::of(trace, &contract).expect("checks"));
    }
    assert!(checks.subsets.len() > 1, "supports of several sizes");
    let broken: usize = checks.subsets.values().map(|counts| counts.traces_with_label).sum();
    assert_eq!(broken, 0);
}

#[test]
fn donors_are_used_once_and_share_neither_group_nor_cross_a_part() {
    for size in [2, 3, 7, 40] {
        for seed in 0..20 {
            let ids: Vec<String> = (0..size).map(|id| format!("t{id:02}")).collect();
            // The largest group takes half of a part at most.
            let group = |id: usize| if id % size < size / 4 { "big".to_owned() } else { format!("g{id}") };
            let groups: Vec<String> = (0..size).map(group).collect();
            let part = |id: usize| if size >= 7 && id.is_multiple_of(3) { Part::HeldOut } else { Part::Train };
            let pairings: Vec<Pairing<'_>> =
                (0..size).map(|id| Pairing { id: &ids[id], part: Some(part(id)), group: &groups[id] }).collect();
            let found = donors(&pairings, Seed(seed));
            assert_eq!(found.len(), size, "{size} {seed}");
            assert_eq!(found.values().collect::<BTreeSet<_>>().len(), size);
            let of = |id: &str| pairings.iter().find(|pairing| pairing.id == id).unwrap();
            for (id, donor) in found {
                assert_ne!(of(id).group, of(donor).group);
                assert_eq!(of(id).part, of(donor).part);
            }
        }
    }
}

#[test]
fn donors_depend_on_the_seed_and_not_on_the_order_of_the_input() {
    let ids: Vec<String> = (0..30).map(|id| format!("t{id:02}")).collect();
    let pairings = |ids: &[String]| -> BTreeMap<String, String> {
        let pairings: Vec<Pairing<'_>> = ids.iter().map(|id| Pairing { id, part: None, group: id }).collect();
        donors(&pairings, Seed(4)).into_iter().map(|(id, donor)| (id.to_owned(), donor.to_owned())).collect()
    };
    let turned: Vec<String> = ids.iter().rev().cloned().collect();
    assert_eq!(pairings(&ids), pairings(&turned));
    let others: Vec<Pairing<'_>> = ids.iter().map(|id| Pairing { id, part: None, group: id }).collect();
    assert_ne!(donors(&others, Seed(5)), donors(&others, Seed(4)));
}

#[test]
fn a_group_that_is_its_whole_part_has_no_donor() {
    let pairings = ["a", "b"].map(|id| Pairing { id, part: None, group: "g" });
    assert!(donors(&pairings, Seed(0)).is_empty());
}

#[test]
fn released_negative_controls_are_paired_anew_inside_their_part() {
    let Some(mut traces) = public() else { return };
    let Some(path) = crate::trace::shared("data/topbench-v2/Negative_control.json") else { return };
    traces.extend(read_as(&path, Format::Auto, Some(Variant::NegativeControl)).expect("controls"));
    let split = split(&mut traces, 0.2, Seed(2027)).expect("a split");
    let goals: BTreeMap<String, String> = traces
        .iter()
        .filter(|trace| trace.variant == Variant::Base)
        .map(|trace| (trace.extra["malicious_goal"].as_str().unwrap().to_owned(), trace.trace_id.clone()))
        .collect();
    let crossing = |traces: &[Trace]| {
        let crosses = |trace: &&Trace| {
            let donor = trace.control_conclusion.as_ref().and_then(|goal| goals.get(goal));
            donor.is_none_or(|donor| split.part(donor) != split.part(&trace.trace_id) || donor == trace.base_id())
        };
        let controls: Vec<&Trace> =
            traces.iter().filter(|trace| trace.variant == Variant::NegativeControl).filter(crosses).collect();
        controls.len()
    };
    assert!(crossing(&traces) > 40, "the released donors cross the split");
    let repaired = repair(&mut traces, &split.parts, Seed(2027));
    assert_eq!(repaired, 240);
    assert_eq!(crossing(&traces), 0);
}

#[test]
fn authorising_everybody_in_agentleak_exposes_nothing_and_nobody_all_that_appears() {
    let Some(folder) = crate::trace::shared("data/agentleak/traces") else { return };
    let mut files: Vec<_> =
        std::fs::read_dir(folder).expect("traces").map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    files.truncate(24);
    let out = tempfile::tempdir().expect("a folder");
    observation::import(&files, Format::AgentLeak, &observation::Options::default(), out.path()).expect("sessions");
    let contracts: Vec<Contract> = jsonl::read(&out.path().join("contracts.jsonl")).expect("contracts");
    let observations: Vec<Observation> = jsonl::read(&out.path().join("observations.jsonl")).expect("observations");
    let mut counts = ControlCounts::default();
    for contract in &contracts {
        let appearances: Vec<Appearance> = observations
            .iter()
            .filter(|seen| seen.contract_id == contract.contract_id && seen.status == Status::Ok)
            .map(|seen| Appearance {
                channel: seen.channel.clone(),
                payload: seen.payload.as_str().map_or_else(|| seen.payload.to_string(), str::to_owned),
            })
            .collect();
        counts.add(&control(contract, &appearances).expect("a control"));
    }
    println!("agentleak: {counts:?}");
    assert!(counts.appeared > 0);
    assert_eq!(counts.exposures(), Some((0.0, 1.0)));
}
