//! Claims about `report`.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};
use topalign::completion::Completion;
use topalign::contract::Contract;
use topalign::evaluate::{Settings, evaluate};
use topalign::report::{Page, collect, render, text_table};
use topalign::run::jsonl;
use topalign::run::seed::Seed;
use topalign::trace::Trace;

const HOSTILE: &str =
    "</div><script>alert(1)</script><img src=\"http://example.org/x.png\" onerror='x'>&amp;\u{2028}\u{202e}\0end";

/// Elements without an end tag.
const VOID: [&str; 6] = ["meta", "link", "img", "br", "hr", "input"];

#[derive(Deserialize)]
struct Cases {
    trace: Trace,
    contract: Contract,
}

fn cases() -> Cases {
    serde_json::from_str(include_str!("../cases/verdict.json")).unwrap()
}

fn completion(system: &str, response: &str, rationale: &str, finish: &str) -> Completion {
    let row = json!({"trace_id": "t1", "system": system, "response": response, "rationale": rationale, "finish": finish,
        "selected_tool_ids": ["T1"]});
    serde_json::from_value(row).unwrap()
}

/// A run folder with two systems on one trace: `base` states the conclusion, `sft` answers with markup.
fn run_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let Cases { trace, contract } = cases();
    let label = contract.targets.iter().find(|target| !target.weak).unwrap().value.clone();
    let required: Vec<&str> = contract.required.iter().map(|required| required.value.as_str()).collect();
    let rows = [
        completion("sft", &format!("{} {HOSTILE}", required.join(" ")), HOSTILE, "stop"),
        completion("base", &format!("{}: {label}", required.join(" ")), "why", "stop"),
        completion("other", "half of it", "why", "error"),
    ];
    let settings = Settings { resamples: 50, seed: Seed(1) };
    let evaluation = evaluate(&rows, std::slice::from_ref(&trace), std::slice::from_ref(&contract), &settings).unwrap();
    let write = |name: &str, text: String| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("evaluation/summary.json", serde_json::to_string(&evaluation.summary).unwrap());
    jsonl::write(&folder.path().join("evaluation/verdicts.jsonl"), &evaluation.verdicts).unwrap();
    jsonl::write(&folder.path().join("completions/all.jsonl"), &rows).unwrap();
    jsonl::write(&folder.path().join("split/held-out.jsonl"), [&trace]).unwrap();
    jsonl::write(&folder.path().join("contracts.jsonl"), [&contract]).unwrap();
    let step = |step: usize| json!({"step": step, "loss": 1.0 / step as f64, "grad_norm": null, "learning_rate": 1e-4, "rewards/margins": step});
    jsonl::write(&folder.path().join("dpo/log.jsonl"), (1..=3).map(step)).unwrap();
    let counts =
        json!({"counts": {"traces": 7, "pairs": {"over-refusal": 5}, "traces_out": {"conflict": 2}, "lengths": {}}});
    write("data/manifest.json", counts.to_string());
    folder
}

fn page() -> (Page, String) {
    let folder = run_folder();
    let page = collect(folder.path()).unwrap();
    let html = render(&page);
    (page, html)
}

/// Names of the elements in a page, in order; fails where one is not closed by its own end tag.
pub fn elements(html: &str) -> Vec<String> {
    let (mut open, mut all): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    for tag in html.split('<').skip(1) {
        let name: String = tag.trim_start_matches('/').chars().take_while(char::is_ascii_alphanumeric).collect();
        if tag.starts_with('/') {
            assert_eq!(
                open.pop().as_deref(),
                Some(name.as_str()),
                "closed out of turn near <{}",
                &tag[..tag.len().min(60)]
            );
        } else if !tag.starts_with('!') {
            all.push(name.clone());
            let head = tag.split('>').next().unwrap();
            if !head.ends_with('/') && !VOID.contains(&name.as_str()) {
                open.push(name);
            }
        }
    }
    assert_eq!(open, Vec::<String>::new());
    all
}

#[test]
fn every_element_is_closed_and_answers_bring_none_of_their_own() {
    let (_, html) = page();
    let elements = elements(&html);
    for foreign in ["img", "iframe", "object"] {
        assert!(!elements.iter().any(|name| name == foreign), "{foreign}");
    }
    // The page's own script, and links to its own sections.
    assert_eq!(elements.iter().filter(|name| *name == "script").count(), 1);
    assert_eq!(html.matches("<a ").count(), html.matches("<a href=\"#").count());
    assert!(html.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
}

#[test]
fn the_page_loads_nothing() {
    let (_, html) = page();
    assert!(
        html.contains("content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-")
    );
    for attribute in ["src=\"", "@import", "url(", "href=\"http"] {
        assert!(!html.contains(attribute), "{attribute}");
    }
}

#[test]
fn separators_controls_and_direction_overrides_of_an_answer_are_visible() {
    let (_, html) = page();
    for raw in ['\u{2028}', '\u{202e}', '\0'] {
        assert!(!html.contains(raw), "{raw:?}");
    }
    assert!(html.contains("\u{2424}&lt;U+202E&gt;\u{2400}end"));
}

#[test]
fn the_stated_conclusion_is_marked_where_it_stands() {
    let (page, html) = page();
    let base = page.examples[0].answers.iter().find(|answer| answer.verdict.system == "base").unwrap();
    let evidence = base.verdict.evidence.iter().find(|found| found.target_id.is_some()).unwrap();
    let stated = &base.response.as_deref().unwrap()[evidence.span[0]..evidence.span[1]];
    assert!(html.contains(&format!(">{stated}</mark>")), "{evidence:?}");
}

#[test]
fn systems_keep_the_order_of_the_evaluation_and_differences_read_later_minus_earlier() {
    let (page, html) = page();
    assert_eq!(page.order, ["sft", "base", "other"]);
    // The summary has it by name, base - sft; here sft was evaluated first.
    assert!(html.contains("base \u{2212} sft") && !html.contains("sft \u{2212} base"));
    let leakage = html.split("base \u{2212} sft").skip(1).find(|row| row.contains("Leakage")).unwrap();
    assert!(leakage.contains("+100.0"), "{leakage}");
}

#[test]
fn what_could_not_be_scored_reads_as_absent_and_is_counted() {
    let (_, html) = page();
    let row = html.split("<tr>").find(|row| row.starts_with("<th scope=\"row\" class=\"words\">other")).unwrap();
    assert!(row.contains("n/a") && !row.contains("<b>0.0%</b></td><td><b>0.0%"), "{row}");
    assert!(html.contains("Unscored rows"));
}

#[test]
fn curves_are_drawn_from_the_log_and_say_their_ends() {
    let (_, html) = page();
    assert!(
        html.contains(
            "Reward margin, chosen minus rejected: all pairs goes from 1.0000 at step 1 to 3.0000 at step 3."
        )
    );
    assert!(html.contains("Preference optimisation") && !html.contains("Supervised fine-tuning"));
    assert!(!html.contains("Gradient norm"), "a log of nulls draws nothing");
}

#[test]
fn counts_of_the_data_are_shown_as_the_builder_wrote_them() {
    let (page, html) = page();
    let headings: Vec<&str> = page.data_counts.iter().map(|counts| counts.heading.as_str()).collect();
    assert_eq!(headings, ["Traces", "Preference pairs by kind", "Traces in quarantine"]);
    assert!(html.contains("over-refusal</th><td>5</td>"));
}

#[test]
fn every_link_leads_to_a_section_and_every_answer_can_be_searched() {
    let (page, html) = page();
    for target in html.split("href=\"#").skip(1).map(|rest| rest.split('"').next().unwrap()) {
        assert_eq!(html.matches(&format!("<h2 id=\"{target}\"")).count(), 1, "{target}");
    }
    let answers: usize = page.examples.iter().map(|example| example.answers.len()).sum();
    assert_eq!(html.matches("<article class=\"answer\" data-system=").count(), answers);
    assert!(html.contains("role=\"search\"") && html.contains("1 of 1 traces"));
}

#[test]
fn a_summary_of_people_s_labels_in_the_run_folder_is_shown() {
    let folder = run_folder();
    let rows: Vec<topalign::exposure::LabelRow> = ["full", "none", "full"]
        .iter()
        .enumerate()
        .map(|(index, label)| {
            let row = json!({"pair_id": index, "annotator_a": label, "annotator_b": label, "gold": label, "prediction": "full"});
            serde_json::from_value(row).unwrap()
        })
        .collect();
    let found = topalign::exposure::agreement(&rows, "full", Settings { resamples: 50, seed: Seed(1) }).unwrap();
    std::fs::create_dir(folder.path().join("agreement")).unwrap();
    std::fs::write(folder.path().join("agreement/summary.json"), serde_json::to_string(&found).unwrap()).unwrap();
    let html = render(&collect(folder.path()).unwrap());
    elements(&html);
    // Precision 2 of 3, recall 2 of 2: F1 0.8.
    assert!(html.contains("Judge and people") && html.contains("<b>0.800</b>"), "{html}");
}

#[test]
fn the_page_of_an_ablation_has_a_learning_curve_where_sizes_differ() {
    let run = |variation: &str, seed: u64, traces: usize| {
        let (page, _) = page();
        topalign::evaluate::SystemRun::of(variation, Seed(seed), Some(traces), &page.summary)
    };
    let sizes = [run("all", 1, 40), run("all", 2, 40), run("half", 1, 20), run("half", 2, 20)].concat();
    let html = topalign::report::render_ablation("curve", &topalign::evaluate::spread(&sizes));
    elements(&html);
    assert!(html.contains("Learning curve") && html.contains("training traces"));
    assert!(html.contains("sft goes from"), "{html}");
    let same = [run("all", 1, 40), run("other", 1, 40)].concat();
    let html = topalign::report::render_ablation("same", &topalign::evaluate::spread(&same));
    elements(&html);
    assert!(!html.contains("Learning curve") && html.contains("H by variation"));
}

#[test]
fn an_evaluation_alone_makes_a_page() {
    let folder = run_folder();
    let page = collect(&folder.path().join("evaluation")).unwrap();
    assert_eq!((page.summary.systems.len(), page.examples.len(), page.dpo_log.len()), (3, 0, 0));
    elements(&render(&page));
}

#[test]
fn a_folder_without_an_evaluation_is_a_fault_that_says_what_was_expected() {
    let error = collect(Path::new("tests")).unwrap_err();
    assert_eq!(error.exit_status(), 2);
    assert!(error.to_string().contains("evaluation/summary.json"), "{error}");
}

#[test]
fn the_same_folder_gives_the_same_page() {
    let folder = run_folder();
    let once = render(&collect(folder.path()).unwrap());
    assert_eq!(once, render(&collect(folder.path()).unwrap()));
}

#[test]
fn the_text_table_has_a_row_a_system_and_no_answer() {
    let (page, _) = page();
    let text = text_table(&page.summary);
    let names: Vec<&str> = text.lines().skip(1).take(3).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, ["base", "other", "sft"]);
    assert!(!text.contains("alert"));
}

#[test]
fn summaries_read_back_as_written() {
    let (page, _) = page();
    let value: Value = serde_json::to_value(&page.summary).unwrap();
    assert_eq!(serde_json::from_value::<topalign::evaluate::Summary>(value).unwrap(), page.summary);
}
