//! Dry runs: what a run would do, and nothing written.

use topalign::dataset::Message;
use topalign::train::{self, Activations, Job, Rows};

use super::decoder::{dpo_settings, folders, job, lora, sft_settings, topalign};
use super::tiny;

#[test]
fn a_supervised_plan_counts_rows_tokens_and_steps_and_shows_three_rows_with_what_is_trained() {
    let folders = folders();
    let out = folders.root.path().join("run");
    let mut rows = tiny::sft_rows(9);
    rows[4].messages[1] = Message::user(tiny::words(0, 60));
    let settings = sft_settings("learning_rate = 0.01\nrows_per_step = 3\nepochs = 2\nmax_tokens = 40");
    let held_out = Rows { train: &rows[..7], held_out: &rows[7..] };
    let plan = train::plan_sft(&job(&folders.model, &out), held_out, &settings).unwrap();
    assert_eq!((plan.rows, plan.units, plan.dropped.len(), plan.held_out_units), (7, 6, 1, 2));
    assert_eq!((plan.steps, plan.truncated), (4, 0));
    assert_eq!(plan.step_tokens as usize, 2 * (plan.masked_tokens + plan.trained_tokens - plan.units));
    assert_eq!(plan.examples.len(), 3);
    for example in &plan.examples {
        assert!(example.masked.contains("<|user|>") && example.masked.ends_with("<|assistant|>"), "{example:?}");
        assert_eq!((example.trained.len(), example.trained[0].side.as_str()), (1, "answer"));
        assert!(example.trained[0].text.ends_with("</s>"), "{example:?}");
        assert!(!example.trained[0].text.contains("<|"), "{example:?}");
    }
    assert_eq!(plan.activations, Activations::Kept);
    assert!(plan.memory_bytes > plan.memory.weights && plan.time.steps_seconds > 0.0);
    assert!(!out.exists(), "nothing is written");
}

#[test]
fn a_preference_plan_names_the_sides_and_the_kinds() {
    let folders = folders();
    let out = folders.root.path().join("run");
    let lora = lora();
    let job = Job { lora: Some(&lora), ..job(&folders.model, &out) };
    let plan = train::plan_dpo(&job, &tiny::pairs(4), &dpo_settings("learning_rate = 0.01")).unwrap();
    assert_eq!((plan.rows, plan.units, plan.answers), (12, 4, 16));
    let sides: Vec<&str> = plan.examples[0].trained.iter().map(|trained| trained.side.as_str()).collect();
    assert_eq!(sides, ["chosen", "rejected, explicit-leak", "rejected, over-disclosure", "rejected, over-refusal"]);
    assert!(plan.time.forward_seconds > 0.0, "the reference takes time");
}

#[test]
fn the_command_prints_the_plan_and_writes_nothing() {
    let folders = folders();
    let root = folders.root.path();
    let text = "name = \"x\"\n[data]\ntraces = [\"t\"]\n[model]\nsource = \"model\"\n[sft]\nlearning_rate = 0.01\n";
    std::fs::write(root.join("recipe.toml"), text).unwrap();
    let rows: Vec<String> = tiny::sft_rows(5).iter().map(|row| serde_json::to_string(row).unwrap()).collect();
    std::fs::write(root.join("rows.jsonl"), rows.join("\n")).unwrap();
    let path = |name: &str| root.join(name);
    let (recipe, data, out) = (path("recipe.toml"), path("rows.jsonl"), path("run"));
    let flag = std::path::Path::new;
    let arguments = [flag("sft"), &recipe, flag("--data"), &data, flag("--out"), &out, flag("--dry-run")];
    let (status, stdout, stderr) = topalign(&arguments);
    assert_eq!((status, stderr.as_str()), (Some(0), ""));
    for expected in ["5 read, 5 trained", "peak memory", "about", "example 3 of 3", "  - <", "  + w"] {
        assert!(stdout.contains(expected), "{expected}: {stdout}");
    }
    assert!(!out.exists());
    let (status, ..) = topalign(&[&arguments[..], &[flag("--resume")]].concat());
    assert_eq!(status, Some(2));
}
