//! What is known of scripted sessions is measured.

use topalign::session::{KnownRow, Outcome};

use super::{SMALL, played, recipe, settings};

/// Of 95% intervals one in twenty misses by chance, but none by as much as its own width.
fn assert_known(outcome: &Outcome, least: usize) {
    let judged: Vec<&KnownRow> = outcome.known.iter().filter(|row| row.inside.is_some()).collect();
    assert!(judged.len() >= least, "only {} known figures", judged.len());
    for row in &judged {
        let (low, high) = (row.low.unwrap(), row.high.unwrap());
        let width = (high - low).max(0.01);
        assert!(
            low - width <= row.known && row.known <= high + width,
            "{} {}: known {} and [{low}, {high}]",
            row.condition,
            row.metric,
            row.known
        );
    }
    let missed: Vec<&&KnownRow> = judged.iter().filter(|row| row.inside == Some(false)).collect();
    assert!(missed.len() * 10 <= judged.len() * 2, "{} of {} missed: {missed:#?}", missed.len(), judged.len());
}

fn value(outcome: &Outcome, condition: &str, metric: &str) -> f64 {
    let found = outcome.known.iter().find(|row| row.condition == condition && row.metric == metric);
    found.and_then(|row| row.measured).unwrap_or_else(|| panic!("no {metric} of {condition}"))
}

#[test]
fn a_guard_on_one_outlet_lowers_that_outlet_and_leaves_the_session_and_the_oracle_leaves_nothing() {
    let (_folder, outcome) = played(&recipe("session-outlets.toml", &["resamples=500"]));
    assert_known(&outcome, 40);
    for (off, on) in [("R-off", "R-on"), ("F-off", "F-on")] {
        let fell = value(&outcome, off, "coverage.email") - value(&outcome, on, "coverage.email");
        assert!(fell > 0.2, "{off}: e-mail coverage fell by {fell} only");
        let stayed = value(&outcome, off, "ecr") - value(&outcome, on, "ecr");
        assert!(stayed < 0.1, "{off}: the session's exposure fell by {stayed}");
        assert!(value(&outcome, on, "olf") > value(&outcome, off, "olf") + 0.2);
    }
    assert!(value(&outcome, "R-both", "ecr") < value(&outcome, "R-off", "ecr") - 0.3);
    let oracle = &outcome.summary.aggregate.by_condition["R-oracle"];
    assert_eq!((oracle.ecr.mean, oracle.n), (Some(0.0), 40));
    assert!(outcome.summary.sessions.iter().all(|session| !session.incomplete));
}

#[test]
fn each_view_of_the_log_has_its_known_coverage() {
    let (_folder, outcome) = played(&recipe("session-views.toml", &["items=15", "resamples=500"]));
    assert_known(&outcome, 9);
    let union = value(&outcome, "plain", "view.union");
    for view in ["final_answer", "successful_action", "expected_outlet", "self_report"] {
        assert!(value(&outcome, "plain", &format!("view.{view}")) < union, "{view} shows as much as the union");
    }
}

#[test]
fn reports_are_noisy_and_a_limit_leaves_exposed_targets_out() {
    let (_folder, outcome) = played(&recipe("session-candidates.toml", &["items=12", "resamples=500"]));
    assert_known(&outcome, 14);
    let of = |condition: &str, metric: &str| value(&outcome, condition, &format!("recognition.{metric}"));
    assert!((of("unlimited", "precision") - 0.15).abs() < 0.05, "private values are hardly told from open ones");
    assert!(of("top-10", "gap") > of("unlimited", "gap"));
}

#[test]
fn schema_groups_have_their_known_rates() {
    let (_folder, outcome) = played(&recipe("session-schema.toml", &["items=10", "resamples=500"]));
    assert_known(&outcome, 8);
    let of = |name: &str| value(&outcome, "plain", name);
    assert!(of("schema.match.overlap") > of("schema.partial.overlap") + 0.2);
}

#[test]
fn renaming_changes_nothing_and_minimised_returns_cost_calls_and_tasks() {
    let (_folder, outcome) = played(&recipe("session-replay.toml", &["items=8", "resamples=500"]));
    assert_known(&outcome, 12);
    let row = |name: &str| outcome.frontier.iter().find(|row| row.condition == name).unwrap();
    let plain = row("replay-plain");
    for renamed in ["replay-inputs-renamed", "replay-outputs-renamed"] {
        assert_eq!(row(renamed).visible.value, plain.visible.value, "{renamed}");
        assert_eq!(row(renamed).tool_calls.value, plain.tool_calls.value, "{renamed}");
    }
    let minimised = row("replay-minimised");
    assert!(minimised.overlap.value.unwrap() < 0.6 * plain.overlap.value.unwrap());
    assert!(minimised.tool_calls.value.unwrap() > 1.5 * plain.tool_calls.value.unwrap());
    let (tasks, without) = (row("tasks-plain"), row("tasks-minimised"));
    assert!(tasks.success.value.unwrap() > 0.6);
    assert_eq!((without.success.value, without.exposure.value), (Some(0.0), Some(0.0)));
    assert_eq!(without.backend_success.value, Some(1.0), "the information was lacking, not the services");
    assert!(without.tool_calls.value.unwrap() > 4.0 * tasks.tool_calls.value.unwrap());
    assert!(without.cost.value.unwrap() > tasks.cost.value.unwrap());
    assert_eq!(row("tasks-guarded").success.value, tasks.success.value, "redaction of what is private hinders no task");
    assert_eq!(row("tasks-guarded").exposure.value, Some(0.0));
}

#[test]
fn both_runtimes_expose_the_same_under_one_policy() {
    let (_folder, outcome) = played(&settings(SMALL, &[]));
    let coverage = |condition: &str| {
        let own = outcome.summary.sessions.iter().filter(|session| session.condition.as_deref() == Some(condition));
        own.map(|session| session.coverage.clone()).collect::<Vec<_>>()
    };
    assert_eq!(coverage("R"), coverage("F"));
    assert!(coverage("R").iter().any(|exits| exits["email"] > 0.0 && exits["console"] > 0.0));
    assert_eq!(outcome.summary.aggregate.by_condition["oracle"].ecr.mean, Some(0.0));
}

#[test]
fn guided_and_unguided_probes_ask_the_same_bank_in_another_order() {
    let text = SMALL.replace("name = \"F\"\nruntime = \"F\"", "name = \"F\"\nmode = \"fge\"\nruntime = \"R\"");
    let (folder, _) = played(&settings(&text, &[]));
    let requests = std::fs::read_to_string(folder.path().join("requests.jsonl")).unwrap();
    let of = |condition: &str| {
        let rows = requests.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let own = rows.filter(|row| row["session_id"].as_str().unwrap().starts_with(condition));
        own.map(|row| (row["item"].clone(), row["text"].as_str().unwrap().contains("inbox"))).collect::<Vec<_>>()
    };
    let (zero, guided) = (of("R/"), of("F/"));
    assert_eq!(zero.len(), guided.len());
    assert_ne!(zero, guided);
}
