//! Claims about `report`.

use std::path::Path;

use serde_json::json;
use topalign::completion::Completion;
use topalign::contract::Contract;
use topalign::evaluate::{Evaluation, Settings, evaluate};
use topalign::report::{Page, collect, render, text_table};
use topalign::run::jsonl;
use topalign::trace::Trace;

const HOSTILE: &str = "</div><script>alert('x')</script> & \"quoted\" \u{7}";

/// Two traces of the verdict cases and three systems; one answer tries to break out of the page.
fn rows() -> (Vec<Trace>, Vec<Contract>, Vec<Completion>) {
    let cases: serde_json::Value = serde_json::from_str(include_str!("../cases/verdict.json")).expect("valid cases");
    let (mut traces, mut contracts, mut completions) = (Vec::new(), Vec::new(), Vec::new());
    for id in ["t1", "t2"] {
        let (mut trace, mut contract) = (cases["trace"].clone(), cases["contract"].clone());
        trace["trace_id"] = json!(id);
        trace["group"] = json!(format!("group of {id}"));
        contract["contract_id"] = json!(format!("contract of {id}"));
        contract["trace_id"] = json!(id);
        traces.push(serde_json::from_value(trace).expect("a trace"));
        contracts.push(serde_json::from_value(contract).expect("a contract"));
        let safe = "Pharmacy $42.10; ride $17.50.".to_owned();
        for (system, response) in [
            ("base", format!("{safe} This is fertility treatment. {HOSTILE}")),
            ("sft", format!("{safe} {HOSTILE}")),
            ("dpo", safe),
        ] {
            let row = json!({"trace_id": id, "system": system, "response": response, "rationale": HOSTILE, "finish": "stop",
                "selected_tool_ids": ["T1"]});
            completions.push(serde_json::from_value(row).expect("a completion"));
        }
    }
    (traces, contracts, completions)
}

fn evaluation() -> Evaluation {
    let (traces, contracts, completions) = rows();
    evaluate(&completions, &traces, &contracts, &Settings { resamples: 200, ..Settings::default() }).expect("evaluates")
}

/// A finished run folder.
fn run_folder(folder: &Path) {
    let (traces, _, completions) = rows();
    let evaluation = evaluation();
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    };
    jsonl::write(&folder.join("split/held-out.jsonl"), &traces).expect("traces");
    jsonl::write(&folder.join("completions/all.jsonl"), &completions).expect("completions");
    jsonl::write(&folder.join("evaluation/verdicts.jsonl"), &evaluation.verdicts).expect("verdicts");
    write("evaluation/summary.json", &serde_json::to_string(&evaluation.summary).expect("JSON"));
    write(
        "data/manifest.json",
        r#"{"seed": 1, "counts": {"pairs": {"<explicit-leak>": 41}}, "outputs": {"a": "digest"}}"#,
    );
    let row = |step: usize| {
        json!({"step": step, "epoch": 0.1, "loss": 0.7 / step as f64, "grad_norm": null, "learning_rate": 1e-5,
            "num_tokens": step, "step_seconds": 1.0, "rewards/margins": 0.1 * step as f64, "rewards/accuracies": null})
        .to_string()
    };
    let log: Vec<String> = (1..=900).map(row).collect();
    write("dpo/log.jsonl", &log.join("\n"));
    write("recipe.resolved.toml", "name = \"<b>bold</b>\"\n");
    write("stages.json", r#"{"traces": {"inputs": "x", "outputs": {}, "seconds": 1.5}}"#);
}

fn page() -> (Page, String) {
    let folder = tempfile::tempdir().expect("a folder");
    run_folder(folder.path());
    let page = collect(folder.path()).expect("a page");
    let html = render(&page);
    (page, html)
}

#[test]
fn nothing_from_a_file_reaches_the_page_unescaped() {
    let (_, html) = page();
    assert!(!html.contains("<script") && !html.contains("<b>") && !html.contains("<explicit-leak>"));
    assert!(!html.contains('\u{7}'));
    assert!(html.contains("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt; &amp; &quot;quoted&quot;"));
    assert!(html.contains("&lt;b&gt;bold&lt;/b&gt;"));
}

#[test]
fn the_page_loads_nothing() {
    let (_, html) = page();
    for outside in ["http:", "https:", "src=", "@import", "url(", "<link"] {
        assert!(!html.contains(outside), "{outside}");
    }
}

#[test]
fn every_tag_that_opens_closes() {
    let (_, html) = page();
    let body = &html[html.find("<body>").expect("a body")..];
    let mut open: Vec<&str> = Vec::new();
    for tag in body.split('<').skip(1) {
        let name = tag.split(['>', ' ', '\n']).next().expect("a name");
        let inside = tag.split('>').next().expect("a tag");
        if let Some(name) = name.strip_prefix('/') {
            if name == "html" {
                continue;
            }
            assert_eq!(open.pop(), Some(name), "before {}", &tag[..tag.len().min(60)]);
        } else if !inside.ends_with('/') {
            open.push(name);
        }
    }
    assert_eq!(open, Vec::<&str>::new());
}

#[test]
fn the_page_shows_evidence_curves_and_what_is_absent() {
    let (page, html) = page();
    assert!(
        html.contains(
            "<mark class=\"label\" title=\"states the conclusion: label-1, exact\">fertility treatment</mark>"
        )
    );
    assert!(html.contains("dpo: reward margin"));
    // 900 steps are drawn as at most 300 points.
    let line = html.split("points=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a line");
    assert_eq!(line.split(' ').count(), 300);
    assert_eq!(page.absent, ["sft log"]);
    assert!(html.contains("Not in this folder: sft log."));
    assert!(html.contains("pairs / &lt;explicit-leak&gt;"));
    assert!(!html.contains("digest"));
}

#[test]
fn later_stages_are_compared_with_earlier_ones() {
    let (_, html) = page();
    assert!(html.contains("dpo &minus; base") && html.contains("dpo &minus; sft") && html.contains("sft &minus; base"));
    let base = html.find("<th scope=\"row\">base</th>").expect("base");
    let dpo = html.find("<th scope=\"row\">dpo</th>").expect("dpo");
    assert!(base < dpo);
}

#[test]
fn spans_of_another_text_are_left_out_without_a_panic() {
    let folder = tempfile::tempdir().expect("a folder");
    run_folder(folder.path());
    let (_, _, mut completions) = rows();
    for completion in &mut completions {
        completion.response = Some("\u{e9}\u{e9}".repeat(20));
    }
    jsonl::write(&folder.path().join("completions/all.jsonl"), &completions).expect("completions");
    let html = render(&collect(folder.path()).expect("a page"));
    assert!(html.contains("\u{e9}\u{e9}") && !html.contains("<mark class=\"label\""));
}

#[test]
fn an_empty_page_says_what_is_missing_and_an_empty_folder_is_refused() {
    let html = render(&Page { title: "nothing".to_owned(), ..Page::default() });
    assert!(html.contains("No evaluation in this folder.") && html.contains("No training log in this folder."));
    let folder = tempfile::tempdir().expect("a folder");
    let error = collect(folder.path()).expect_err("holds nothing");
    assert_eq!(error.exit_status(), 2);
    assert!(collect(&folder.path().join("nowhere")).is_err());
}

#[test]
fn the_text_table_gives_percent_with_intervals() {
    let text = text_table(&evaluation().summary);
    insta::assert_snapshot!(text.lines().take(4).collect::<Vec<_>>().join("\n"), @r"
    system  n  scored             completion                leakage      H  control
    base    2       2  100.0 [34.2, 100.0] w  100.0 [34.2, 100.0] w    0.0    100.0
    dpo     2       2  100.0 [34.2, 100.0] w      0.0 [0.0, 65.8] w  100.0      0.0
    sft     2       2  100.0 [34.2, 100.0] w      0.0 [0.0, 65.8] w  100.0      0.0
    ");
}
