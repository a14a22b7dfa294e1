//! Claims about the split.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use topalign::run::seed::Seed;
use topalign::split::{Reason, split};
use topalign::trace::{Format, Part, Trace, Variant, read, read_many};

/// A trace with its own words everywhere.
fn scenario(number: usize) -> Trace {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/scenario-v2.json");
    let mut trace = read(&path, Format::Auto).expect("read").remove(0);
    let own = |field: &str| (0..8).map(|word| format!("{field}{number}x{word}")).collect::<Vec<_>>().join(" ");
    trace.trace_id = format!("topbench-v2/{number}");
    trace.goal = own("goal");
    trace.sensitive_conclusion = own("conclusion");
    trace.success_criteria = Some(own("criteria"));
    trace.disclosure_criteria = Some(own("disclosure"));
    trace.inference_chain = Some(own("chain"));
    for tool in &mut trace.tools {
        tool.return_text = own(&tool.tool_id);
    }
    trace
}

fn scenarios(count: usize) -> Vec<Trace> {
    (1..=count).map(scenario).collect()
}

#[test]
fn scenarios_that_differ_are_groups_of_their_own_and_the_share_is_met() {
    let mut traces = scenarios(40);
    let split = split(&mut traces, 0.25, Seed(1)).expect("a split");
    assert_eq!(split.groups.len(), 40);
    assert_eq!((split.count(Part::Train), split.count(Part::HeldOut)), (30, 10));
    assert!(traces.iter().all(|trace| trace.group.as_deref() == Some(trace.trace_id.as_str())));
}

#[test]
fn variants_and_near_duplicates_stay_together_with_their_reason() {
    let mut traces = scenarios(20);
    let mut variant = traces[3].clone();
    variant.trace_id.push_str("/social-context");
    variant.variant = Variant::SocialContext;
    traces.push(variant);
    traces[5].sensitive_conclusion = traces[9].sensitive_conclusion.to_uppercase();
    traces[6].goal = traces[12].goal.clone();
    traces[6].tools = traces[12].tools.clone();
    let split = split(&mut traces, 0.2, Seed(1)).expect("a split");
    let reasons: BTreeSet<Reason> = split.reasons.iter().map(|link| link.reason).collect();
    assert_eq!(reasons, BTreeSet::from([Reason::SameConclusion, Reason::GoalAndTools]));
    for (one, other) in [
        ("topbench-v2/4", "topbench-v2/4/social-context"),
        ("topbench-v2/6", "topbench-v2/10"),
        ("topbench-v2/7", "topbench-v2/13"),
    ] {
        assert_eq!(split.part(one), split.part(other));
        assert!(split.part(one).is_some());
    }
}

#[test]
fn the_same_seed_gives_the_same_split_and_another_seed_another() {
    let parts = |seed| split(&mut scenarios(60), 0.2, Seed(seed)).expect("a split").parts;
    assert_eq!(parts(7), parts(7));
    assert_ne!(parts(7), parts(8));
}

#[test]
fn an_empty_part_is_a_fault() {
    for (count, share) in [(1, 0.2), (2, 0.1), (40, 0.0), (40, 1.0), (40, f64::NAN), (0, 0.2)] {
        let error = split(&mut scenarios(count), share, Seed(1)).expect_err("a fault");
        assert_eq!(error.exit_status(), 2, "{count} at {share}");
    }
    let mut alike = vec![scenario(1), scenario(2)];
    alike[1].sensitive_conclusion = alike[0].sensitive_conclusion.clone();
    assert!(split(&mut alike, 0.5, Seed(1)).is_err());
}

#[test]
fn the_public_release_splits_into_180_and_45_at_least() {
    let Some(folder) = crate::trace::shared("data/topbench-v2") else { return };
    let all = read_many(&[folder], Format::Auto).expect("read");
    let base: Vec<Trace> = all.iter().filter(|trace| trace.variant == Variant::Base).cloned().collect();
    for seed in 0..5 {
        let split = split(&mut base.clone(), 0.2, Seed(seed)).expect("a split");
        assert!(split.count(Part::Train) >= 180 && split.count(Part::HeldOut) >= 45);
    }
    let split = split(&mut all.clone(), 0.2, Seed(0)).expect("a split");
    let mut part_of: BTreeMap<&str, BTreeSet<Part>> = BTreeMap::new();
    for trace in &all {
        part_of.entry(trace.base_id()).or_default().extend(split.part(&trace.trace_id));
    }
    assert!(part_of.values().all(|parts| parts.len() == 1));
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(24))]
    #[test]
    fn no_group_is_ever_cut(seed: u64, share in 0.1..0.9_f64, copies in proptest::collection::vec(0..12_usize, 6)) {
        let mut traces = scenarios(24);
        for (index, copied) in copies.into_iter().enumerate() {
            traces[12 + index].sensitive_conclusion = traces[copied].sensitive_conclusion.clone();
        }
        if let Ok(split) = split(&mut traces, share, Seed(seed)) {
            for members in split.groups.values() {
                let parts: BTreeSet<Option<Part>> = members.iter().map(|member| split.part(member)).collect();
                proptest::prop_assert_eq!(parts.len(), 1);
            }
        }
    }
}

fn pinned(number: usize, part: Part) -> Trace {
    Trace { part: Some(part), ..scenario(number) }
}

#[test]
fn a_pinned_scenario_is_not_dealt_and_draws_its_near_duplicates_to_its_side() {
    for part in [Part::Train, Part::HeldOut] {
        let mut traces = scenarios(20);
        traces.extend((101..=104).map(|number| pinned(number, part)));
        traces[7].goal = traces[22].goal.clone();
        traces[7].tools = traces[22].tools.clone();
        for seed in 0..8 {
            let split = split(&mut traces.clone(), 0.25, Seed(seed)).expect("a split");
            for trace in &traces[20..] {
                assert_eq!(split.part(&trace.trace_id), Some(part));
            }
            assert_eq!(split.part("topbench-v2/8"), Some(part), "it is like a pinned one");
        }
    }
}

#[test]
fn the_share_is_of_what_is_dealt() {
    let mut traces = scenarios(40);
    traces.extend((101..=160).map(|number| pinned(number, Part::Train)));
    let split = split(&mut traces, 0.25, Seed(1)).expect("a split");
    assert_eq!((split.count(Part::Train), split.count(Part::HeldOut)), (90, 10));
}

#[test]
fn pins_to_both_parts_hold_though_the_traces_are_alike_and_what_is_dealt_beside_them_trains() {
    let mut traces = vec![pinned(1, Part::Train), pinned(2, Part::HeldOut), scenario(3)];
    for other in 1..3 {
        traces[other].sensitive_conclusion = traces[0].sensitive_conclusion.clone();
    }
    let split = split(&mut traces, 0.5, Seed(1)).expect("a split");
    let parts: Vec<_> = (1..=3).map(|number| split.part(&format!("topbench-v2/{number}"))).collect();
    assert_eq!(parts, [Some(Part::Train), Some(Part::HeldOut), Some(Part::Train)]);
}

#[test]
fn variants_pinned_to_different_parts_are_a_fault() {
    let mut traces = vec![pinned(1, Part::Train), pinned(1, Part::HeldOut), scenario(3)];
    traces[1].trace_id.push_str("/social-context");
    traces[1].variant = Variant::SocialContext;
    let error = split(&mut traces, 0.5, Seed(1)).expect_err("a fault");
    assert_eq!(error.exit_status(), 2);
}

#[test]
fn a_smaller_share_of_the_training_traces_is_part_of_a_greater_one_and_keeps_groups_whole() {
    let mut traces = scenarios(40);
    for (one, other) in [(5, 9), (6, 30), (7, 31)] {
        traces[one].sensitive_conclusion = traces[other].sensitive_conclusion.clone();
    }
    let split = split(&mut traces, 0.2, Seed(3)).unwrap();
    let train = |share: f64| -> BTreeSet<String> {
        let parts = split.with_train_share(share);
        assert_eq!(parts.values().filter(|part| **part == Part::HeldOut).count(), split.count(Part::HeldOut));
        parts.into_iter().filter(|(_, part)| *part == Part::Train).map(|(id, _)| id).collect()
    };
    let all = split.count(Part::Train);
    let (eighth, half, most) = (train(0.125), train(0.5), train(0.999));
    assert!(eighth.is_subset(&half) && half.is_subset(&most));
    assert!(half.len().abs_diff(all / 2) <= 4, "{} of {all}", half.len());
    assert!(!train(1e-9).is_empty(), "at least one group stays");
    for members in split.groups.values() {
        let kept = members.iter().filter(|id| half.contains(*id)).count();
        let trained = members.iter().filter(|id| split.part(id) == Some(Part::Train)).count();
        assert!(kept == 0 || kept == trained, "{members:?}");
    }
}
