//! Claims about `agreement`.

use serde_json::{Value, json};
use topalign::exposure::{Agreement, LabelRow, agreement, disagreements};
use topalign::statistic::Resampling;

fn rows(rows: &[(&str, Value, Value, Value, Value)]) -> Vec<LabelRow> {
    rows.iter()
        .enumerate()
        .map(|(place, (slice, a, b, gold, prediction))| {
            let row = json!({"pair_id": place, "slice": slice, "annotator_a": a, "annotator_b": b, "gold": gold,
                "prediction": prediction, "text": "what was seen"});
            serde_json::from_value(row).unwrap()
        })
        .collect()
}

fn of(labels: &[LabelRow]) -> Agreement {
    agreement(labels, "full", Resampling::default()).unwrap()
}

/// `count` rows of one kind, with gold as the first annotator has it and the second as prediction.
fn kind(a: &str, b: &str, count: usize) -> Vec<(&'static str, Value, Value, Value, Value)> {
    vec![("s", json!(a), json!(b), json!(a), json!(b)); count]
}

#[test]
fn kappa_of_two_classes_is_the_textbook_value() {
    // 20 yes-yes, 5 yes-no, 10 no-yes, 15 no-no: p_o = 0.7, p_e = 0.5, kappa = 0.4.
    let labels: Vec<_> =
        [kind("yes", "yes", 20), kind("yes", "no", 5), kind("no", "yes", 10), kind("no", "no", 15)].concat();
    let found = of(&rows(&labels)).overall;
    assert_eq!(found.raw_agreement, Some(0.7));
    assert!((found.kappa.unwrap() - 0.4).abs() < 1e-12);
    let [low, high] = found.kappa_interval.unwrap();
    assert!(low < 0.4 && 0.4 < high && found.raw_agreement_interval.unwrap()[0] < 0.7);
}

#[test]
fn kappa_of_three_classes_passes_what_two_could_reach_at_that_agreement() {
    // The published 0.850 and 0.747 need three classes or more: with two at p_o = 0.85 kappa is at most 0.7.
    let (agree, differ) = (["full", "partial", "none"], [("full", "partial"), ("partial", "none"), ("none", "full")]);
    let mut labels: Vec<_> = agree.iter().flat_map(|label| kind(label, label, 85)).collect();
    labels.extend(differ.iter().flat_map(|(a, b)| kind(a, b, 15)));
    let found = of(&rows(&labels)).overall;
    assert_eq!((found.raw_agreement, found.classes.len()), (Some(0.85), 3));
    // p_e = 1/3: (0.85 - 1/3) / (2/3) = 0.775.
    assert!((found.kappa.unwrap() - 0.775).abs() < 1e-12);
}

#[test]
fn one_class_has_agreement_1_and_no_kappa() {
    let found = of(&rows(&kind("full", "full", 4))).overall;
    assert_eq!((found.raw_agreement, found.kappa, found.strict_f1), (Some(1.0), None, Some(1.0)));
    assert_eq!(found.kappa_reason.as_deref(), Some("only one class is present"));
    // The interval of a constant sample is the point itself, and says so.
    assert_eq!(found.raw_agreement_interval, Some([1.0, 1.0]));
    assert!(found.raw_agreement_reason.unwrap().contains("degenerate"));
}

#[test]
fn strict_f1_counts_only_a_full_match() {
    // full predicted for 3 of 4 full and for 1 partial: precision 3/4, recall 3/4.
    let labels: Vec<_> = [
        kind("full", "full", 3),
        kind("full", "partial", 1),
        kind("partial", "full", 1),
        kind("partial", "partial", 5),
        kind("none", "partial", 2),
    ]
    .concat();
    let labels = rows(&labels);
    let found = of(&labels).overall;
    assert_eq!((found.strict_precision, found.strict_recall, found.strict_f1), (Some(0.75), Some(0.75), Some(0.75)));
    assert_eq!(found.confusion["partial"]["full"], 1);
    let partial = agreement(&labels, "partial", Resampling::default()).unwrap().overall;
    assert_eq!(partial.strict_f1, Some(10.0 / 14.0));
    let absent = agreement(&labels, "other", Resampling::default()).unwrap().overall;
    assert!(absent.strict_f1.is_none() && absent.strict_f1_reason.is_some());
}

#[test]
fn slices_are_apart_and_disagreements_keep_their_text() {
    let labels = rows(&[
        ("C1", json!("full"), json!("full"), json!("full"), json!("none")),
        ("C2", json!("full"), json!("none"), json!("none"), json!("none")),
        ("C2", json!(1), json!(1), Value::Null, json!("none")),
    ]);
    let found = of(&labels);
    assert_eq!((found.by_slice["C1"].raw_agreement, found.by_slice["C2"].raw_agreement), (Some(1.0), Some(0.5)));
    assert_eq!((found.by_slice["C2"].n, found.by_slice["C2"].judged), (2, 1));
    let listed = disagreements(&labels);
    assert_eq!((listed.len(), found.disagreements), (2, 2));
    assert_eq!((listed[0].between.as_slice(), listed[1].between.as_slice()), (&["judge"][..], &["annotators"][..]));
    assert_eq!(serde_json::to_value(&listed[0]).unwrap()["text"], "what was seen");
}

#[test]
fn nothing_and_a_pair_twice_are_refused() {
    assert_eq!(agreement(&[], "full", Resampling::default()).unwrap_err().exit_status(), 2);
    let mut labels = rows(&kind("full", "full", 2));
    labels[1].pair_id = labels[0].pair_id.clone();
    assert!(
        agreement(&labels, "full", Resampling::default()).unwrap_err().to_string().contains("`pair_id` appears twice")
    );
}
