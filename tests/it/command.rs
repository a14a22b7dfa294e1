//! Claims about the program as a user meets it: exit status, messages, and the whole pipeline on a model from nothing.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use topalign::train::{RESOLVED, RunManifest, RunStatus, read_log};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn topalign(arguments: &[&str], folder: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_topalign")).args(arguments).current_dir(folder).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The command must fail with this status and say all of this on stderr, once each.
fn assert_fails(arguments: &[&str], folder: &Path, status: i32, expected: &[&str]) {
    let output = topalign(arguments, folder);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {stderr}");
    for part in expected {
        assert!(stderr.contains(part), "{arguments:?}: `{part}` is not in: {stderr}");
    }
    assert!(!stderr.contains("panicked"), "{stderr}");
}

const TINY: &str = r#"
name = "tiny"
[data]
traces = ["SCENARIOS"]
[model]
source = "scratch"
[model.scratch]
hidden_size = 32
intermediate_size = 64
layers = 2
heads = 4
key_value_heads = 2
vocabulary = 512
[model.lora]
rank = 4
alpha = 8
[sft]
learning_rate = 1e-3
max_steps = 3
rows_per_step = 2
save_every = 2
[dpo]
learning_rate = 1e-4
max_steps = 2
rows_per_step = 2
[generate]
selection = "given"
selection_tokens = 8
response_tokens = 12
[evaluate]
mitigations = ["tnm"]
resamples = 200
limit = 4
"#;

fn tiny_recipe(folder: &Path) -> PathBuf {
    let scenarios = root().join("data/scenarios.jsonl");
    let recipe = folder.join("tiny.toml");
    std::fs::write(&recipe, TINY.replace("SCENARIOS", scenarios.to_str().unwrap())).unwrap();
    recipe
}

#[test]
fn one_command_runs_everything_and_a_second_one_skips_it_all() {
    let folder = tempfile::tempdir().unwrap();
    tiny_recipe(folder.path());
    let first = topalign(&["run", "tiny.toml"], folder.path());
    assert!(first.status.success(), "{}", text(&first.stderr));
    let run = folder.path().join("runs/tiny");
    for file in [
        "traces.jsonl",
        "contracts.jsonl",
        "split/split.json",
        "data/sft.jsonl",
        "data/dpo.jsonl",
        "sft/final/adapter_model.safetensors",
        "sft/merged/model.safetensors",
        "dpo/merged/config.json",
        "completions/base+tnm.jsonl",
        "evaluation/summary.json",
        "evaluation/verdicts.jsonl",
        "report.html",
    ] {
        assert!(run.join(file).is_file(), "{file} is missing");
    }
    for stage in ["sft", "dpo"] {
        let of = |folder: &Path| std::fs::read_to_string(folder.join(RESOLVED)).unwrap();
        assert_eq!(of(&run.join(stage)), of(&run), "{stage} tells what it was trained by");
    }
    let dpo = std::fs::read_to_string(run.join("dpo/log.jsonl")).unwrap();
    let row: serde_json::Value = serde_json::from_str(dpo.lines().next().unwrap()).unwrap();
    assert!((row["loss"].as_f64().unwrap() - std::f64::consts::LN_2).abs() < 1e-5, "{row}");
    let summary = std::fs::read(run.join("evaluation/summary.json")).unwrap();
    let summary: serde_json::Value = serde_json::from_slice(&summary).unwrap();
    let systems: Vec<&String> = summary["systems"].as_object().unwrap().keys().collect();
    assert_eq!(systems, ["base", "base+tnm", "dpo", "sft"]);
    let stages = std::fs::read(run.join("stages.json")).unwrap();

    let second = topalign(&["run", "tiny.toml"], folder.path());
    assert!(second.status.success());
    assert!(!text(&second.stderr).contains("running"), "{}", text(&second.stderr));
    assert_eq!(stages, std::fs::read(run.join("stages.json")).unwrap());
    assert_eq!(first.stdout.is_empty(), second.stdout.is_empty());
}

/// `topalign run tiny.toml` must succeed; what it said.
fn run_tiny(more: &[&str], folder: &Path) -> String {
    let ran = topalign(&[&["run", "tiny.toml"][..], more].concat(), folder);
    let stderr = text(&ran.stderr);
    assert!(ran.status.success(), "{more:?}: {stderr}");
    stderr
}

fn checkpoints(stage: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(stage).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("checkpoint-")).collect()
}

#[test]
fn a_forced_training_begins_with_nothing_and_one_that_is_not_whole_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    tiny_recipe(here);
    run_tiny(&[], here);
    let run = here.join("runs/tiny");
    for (stage, steps) in [("sft", 3), ("dpo", 2)] {
        let out = run.join(stage);
        std::fs::write(out.join("left"), "by the earlier run").unwrap();
        // Preferences are trained again over damaged checkpoints, which nothing may read.
        for checkpoint in checkpoints(&out).iter().filter(|_| stage == "dpo") {
            std::fs::write(checkpoint.join("trainable.safetensors"), "cut").unwrap();
        }
        let said = run_tiny(&["--force", stage], here);
        assert!(said.contains(&format!("{stage}: running")), "{said}");
        let manifest = RunManifest::read(&out).unwrap();
        assert_eq!((manifest.status, manifest.resumed_from), (RunStatus::Complete, None), "{stage}");
        assert_eq!(read_log(&out.join("log.jsonl")).unwrap().len(), steps, "{stage}");
        assert!(!out.join("left").exists(), "{stage}");
    }
    let hidden = std::fs::read_dir(&run).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(hidden.filter(|name| name.to_string_lossy().starts_with(".topalign-")).count(), 0);
    std::fs::remove_dir_all(run.join("dpo/final")).unwrap();
    run_tiny(&[], here);
    assert_eq!(RunManifest::read(&run.join("dpo")).unwrap().resumed_from, Some(2));
}

#[test]
fn an_ablation_runs_each_variation_and_seed_and_makes_equal_stages_once() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    tiny_recipe(here);
    let ablation = "name = 'abl'\nrecipe = 'tiny.toml'\nseeds = 2\n\
                    set = ['data.held_out=0.05', 'data.synthetic.held_out=2', 'data.synthetic.twins=true', 'evaluate.limit=20']\n\
                    [[variation]]\nname = 'full'\n\
                    [[variation]]\nname = 'half'\nset = ['data.train_share=0.5']\n\
                    [[variation]]\nname = 'higher-beta'\nset = ['dpo.beta=0.5']\n\
                    [[variation]]\nname = 'dpo-only'\nwithout = ['sft']\n";
    std::fs::write(here.join("abl.toml"), ablation).unwrap();
    let ran = topalign(&["ablate", "abl.toml", "--json"], here);
    let stderr = text(&ran.stderr);
    assert!(ran.status.success(), "{stderr}");
    let table: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
    let rows = table.as_array().unwrap();
    let has = |variation: &str, system: &str| {
        rows.iter().any(|row| {
            row["variation"] == variation && row["system"] == system && row["seeds"].as_array().unwrap().len() == 2
        })
    };
    assert!(has("full", "dpo") && has("full", "sft") && has("full", "base"), "{table}");
    assert!(!rows.iter().any(|row| row["variation"] == "dpo-only" && row["system"] == "sft"), "{table}");
    // Two seeds make SFT, on all and on half of the rows; that of another beta is the same. The base of half the rows is another one,
    // since its tokenizer is.
    assert_eq!(stderr.matches("\nsft: running").count(), 4, "{stderr}");
    assert_eq!(stderr.matches("\nsplit: running").count(), 1, "{stderr}");
    assert_eq!(stderr.matches("generate/base: running").count(), 3, "{stderr}");
    assert!(here.join("runs/abl/higher-beta/seed-2028/report.html").is_file());
    let trained_on = |variation: &str| {
        let row = rows.iter().find(|row| row["variation"] == variation && row["system"] == "sft").unwrap();
        row["training_traces"].as_u64().unwrap()
    };
    assert!(trained_on("half") * 2 < trained_on("full") + 4, "{table}");
    let page = std::fs::read_to_string(here.join("runs/abl/ablation.html")).unwrap();
    assert!(page.contains("Learning curve"), "sizes differ");
    held_out_twins_are_answered_and_controls_are_not(&here.join("runs/abl/full/seed-2028"));
    let again = topalign(&["ablate", "abl.toml", "--json"], here);
    assert_eq!(again.stdout, ran.stdout);
    assert!(!text(&again.stderr).contains("running"), "{}", text(&again.stderr));
    assert_fails(&["ablate", "abl.toml", "--set", "sft.epoch=1"], here, 2, &["unknown key `sft.epoch`"]);
    std::fs::write(here.join("bad.toml"), ablation.replace("['sft']", "['sfd']").replace("seeds", "sedes")).unwrap();
    assert_fails(&["ablate", "bad.toml"], here, 2, &["unknown key `sedes`", "did you mean `seeds`?"]);
    std::fs::write(here.join("bad.toml"), ablation.replace("['sft']", "['sfd']")).unwrap();
    assert_fails(&["ablate", "bad.toml"], here, 2, &["no such section to leave out", "sfd"]);
}

/// Controls are judged by the answers to their bases, whose prompts they share.
fn held_out_twins_are_answered_and_controls_are_not(run: &Path) {
    let completions = std::fs::read_to_string(run.join("completions/sft.jsonl")).unwrap();
    assert_eq!(completions.matches("/social-context\"").count(), 2, "{completions}");
    assert!(!completions.contains("/negative-control"));
    let summary = std::fs::read(run.join("evaluation/summary.json")).unwrap();
    let summary: serde_json::Value = serde_json::from_slice(&summary).unwrap();
    let sft = &summary["systems"]["sft"];
    assert_eq!((&sft["twins"]["pairs"], &sft["own_control_leakage"]["n"]), (&2.into(), &2.into()), "{sft}");
    assert_eq!(sft["n"].as_u64().unwrap() as usize + 2, completions.lines().count(), "twins stay out of the headline");
}

#[test]
fn a_system_behind_an_endpoint_stands_in_the_same_table_and_goes_on_after_a_failure() {
    use crate::server::{Answer, Server};
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let recipe = tiny_recipe(here);
    let dies = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let dead = std::sync::Arc::clone(&dies);
    let server = Server::start(move |number, request| {
        if number > 2 && dead.load(std::sync::atomic::Ordering::SeqCst) {
            return Answer::status(503);
        }
        let said = request.body.to_string();
        Answer::text(if said.contains("selected_tool_ids") { "no JSON" } else { "an answer" })
    });
    untrained_with_agent(&recipe, &server.url, 12);
    let ran = topalign(&["run", "tiny.toml"], here);
    assert_eq!(ran.status.code(), Some(1), "{}", text(&ran.stderr));
    let asked = server.received().len();
    dies.store(false, std::sync::atomic::Ordering::SeqCst);
    let ran = topalign(&["run", "tiny.toml"], here);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    assert_eq!(server.received().len() - asked, 2 * 11, "the trace that was answered is not asked again");
    let run = here.join("runs/tiny");
    let summary: serde_json::Value =
        serde_json::from_slice(&std::fs::read(run.join("evaluation/summary.json")).unwrap()).unwrap();
    assert_eq!(summary["systems"]["lab"]["scored"], 12, "{summary}");
    let page = std::fs::read_to_string(run.join("report.html")).unwrap();
    assert!(page.contains("Calls of lab") && page.contains("resumed: "), "what the calls took is on the page");
}

/// Leaves training out of the tiny recipe and puts a system behind an endpoint into it.
fn untrained_with_agent(recipe: &Path, url: &str, limit: usize) {
    let agent =
        format!("[[evaluate.agent]]\nname = \"lab\"\nurl = \"{url}\"\nmodel = \"m\"\nretries = 0\nconcurrency = 1\n");
    let text = std::fs::read_to_string(recipe).unwrap();
    let (start, rest) = text.split_at(text.find("[sft]").unwrap());
    let rest = &rest[rest.find("[generate]").unwrap()..];
    let changed = format!("{start}{rest}{agent}").replace("limit = 4", &format!("limit = {limit}"));
    std::fs::write(recipe, changed).unwrap();
}

#[test]
fn forced_answers_of_an_endpoint_are_all_asked_for_again() {
    use crate::server::{Answer, Server};
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let server = Server::start(|_, _| Answer::text("an answer"));
    untrained_with_agent(&tiny_recipe(here), &server.url, 4);
    run_tiny(&[], here);
    let first = server.received().len();
    assert!(first >= 4, "{first}");
    run_tiny(&[], here);
    assert_eq!(server.received().len(), first, "complete answers are kept");
    run_tiny(&["--force", "generate"], here);
    assert_eq!(server.received().len(), 2 * first);
}

#[test]
fn trainings_under_several_seeds_share_data_and_judgement() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    tiny_recipe(here);
    let ran =
        topalign(&["run", "tiny.toml", "--seeds", "2", "--set", "sft.max_steps=1", "--set", "dpo.max_steps=1"], here);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    let (stdout, run) = (text(&ran.stdout), |seed: &str| here.join("runs/tiny/seeds").join(seed));
    assert!(stdout.contains("deviation") && stdout.contains("ablation.html"), "{stdout}");
    let read = |seed: &str, file: &str| std::fs::read(run(seed).join(file)).unwrap();
    for file in ["split/split.json", "data/sft.jsonl", "base/model.safetensors", "completions/base.jsonl"] {
        assert!(read("seed-2027", file) == read("seed-2028", file), "{file} must not depend on the seed of training");
    }
    let file = "sft/final/adapter_model.safetensors";
    assert!(read("seed-2027", file) != read("seed-2028", file));
    assert_fails(&["run", "tiny.toml", "--seeds", "0"], here, 2, &["`--seeds` must be above 0"]);
    assert_fails(
        &["run", "tiny.toml", "--set", "data.train_share=0.0"],
        here,
        2,
        &["`data.train_share` must be above 0"],
    );
}

#[test]
fn a_trace_named_under_two_keys_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    tiny_recipe(folder.path());
    let scenarios = root().join("data/scenarios.jsonl");
    let twice = format!("data.train_traces=['{}']", scenarios.display());
    assert_fails(
        &["run", "tiny.toml", "--set", &twice],
        folder.path(),
        2,
        &["two sources have a trace of the same id"],
    );
}

#[test]
fn bad_input_ends_with_2_and_one_clear_message() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    tiny_recipe(here);
    assert_fails(&["run", "missing.toml"], here, 2, &["missing.toml: cannot read"]);
    assert_fails(
        &["run", "tiny.toml", "--set", "sft.epoch=1"],
        here,
        2,
        &["unknown key `sft.epoch`", "did you mean `epochs`?"],
    );
    assert_fails(&["run", "tiny.toml", "--set", "data.held_out=0.0"], here, 2, &["held"]);
    assert_fails(&["run", "tiny.toml", "--set", "data.traces=['no.jsonl']"], here, 2, &["no.jsonl"]);
    assert_fails(&["run", "tiny.toml", "--force", "nothing"], here, 2, &["no such stage", "got `nothing`"]);
    std::fs::write(here.join("broken.jsonl"), "{\"trace_id\": 3\n{}\n").unwrap();
    assert_fails(&["contract", "broken.jsonl", "--out", "c.jsonl"], here, 2, &["broken.jsonl"]);
    assert!(!here.join("c.jsonl").exists(), "nothing may be half-written");
    assert_fails(&["nonsense"], here, 2, &["unrecognized subcommand"]);
}

#[test]
fn a_model_without_a_tokenizer_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("model");
    crate::model::tiny(&model);
    std::fs::remove_file(model.join("tokenizer.json")).unwrap();
    let scenarios = root().join("data/scenarios.jsonl");
    let arguments = ["generate", "--model", "model", "--traces", scenarios.to_str().unwrap(), "--out", "o.jsonl"];
    assert_fails(&arguments, folder.path(), 2, &["tokenizer.json"]);
    assert!(!folder.path().join("o.jsonl").exists());
}

#[test]
fn every_command_has_help() {
    let folder = tempfile::tempdir().unwrap();
    let help = text(&topalign(&["--help"], folder.path()).stdout);
    for command in [
        "run", "import", "contract", "split", "build", "audit", "sft", "dpo", "generate", "evaluate", "compare",
        "merge", "validate", "report",
    ] {
        assert!(help.contains(command), "{command}");
        assert!(topalign(&[command, "--help"], folder.path()).status.success(), "{command}");
    }
}

#[test]
fn a_recipe_is_handed_over_to_trl_with_its_settings_and_rows() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let recipe = tiny_recipe(here);
    let fixed = std::fs::read_to_string(&recipe).unwrap().replace("[model.lora]", "[model.lora]\ndropout = 0.0");
    std::fs::write(&recipe, fixed).unwrap();
    let data = here.join("data");
    std::fs::create_dir(&data).unwrap();
    let turn = |role: &str, content: &str| serde_json::json!({"role": role, "content": content});
    let row = serde_json::json!({"messages": [turn("user", "how much?"), turn("assistant", "$5")], "trace_id": "t"});
    let pair = |kind: &str| {
        serde_json::json!({"prompt": [turn("user", "how much?")], "chosen": [turn("assistant", "$5")],
            "rejected": [turn("assistant", "no")], "kind": kind, "trace_id": "t"})
    };
    std::fs::write(data.join("sft.jsonl"), format!("{row}\n")).unwrap();
    std::fs::write(data.join("dpo.jsonl"), format!("{}\n{}\n", pair("over-refusal"), pair("explicit-leak"))).unwrap();
    let export = ["export", "trl", "tiny.toml", "--data", "data", "--out", "trl"];
    assert_fails(&export, here, 2, &["TRL cannot train from this model", "scratch", "--model"]);
    assert!(!here.join("trl").exists());
    let with_model = [&export[..], &["--model", "org/model"]].concat();
    let ran = topalign(&with_model, here);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    let read = |file: &str| std::fs::read_to_string(here.join("trl").join(file)).unwrap();
    let keys = |file: &str| -> std::collections::BTreeMap<String, serde_json::Value> {
        read(file)
            .lines()
            .map(|line| line.split_once(": ").unwrap())
            .map(|(key, value)| (key.to_owned(), serde_json::from_str(value).unwrap()))
            .collect()
    };
    let (sft, dpo) = (keys("sft.yaml"), keys("dpo.yaml"));
    assert_eq!(sft["learning_rate"], 1e-3);
    assert_eq!((&sft["lora_r"], &sft["max_steps"]), (&4.into(), &3.into()));
    // Two rows a step are two traces of two pairs each.
    assert_eq!((&sft["gradient_accumulation_steps"], &dpo["gradient_accumulation_steps"]), (&2.into(), &4.into()));
    assert_eq!((&sft["model_name_or_path"], &dpo["model_name_or_path"]), (&"org/model".into(), &"sft-merged".into()));
    let first: serde_json::Value = serde_json::from_str(read("sft.jsonl").lines().next().unwrap()).unwrap();
    assert_eq!(
        first,
        serde_json::json!({"prompt": [turn("user", "how much?")], "completion": [turn("assistant", "$5")]})
    );
    assert_eq!(read("dpo.jsonl").lines().count(), 2);
    assert!(read("README.md").contains("topalign merge --model org/model --adapter sft --out sft-merged"));
    let simpo = [&with_model[..], &["--set", "dpo.loss=simpo"]].concat();
    assert_fails(&simpo, here, 2, &["`trl dpo` has no such loss", "simpo"]);
}

#[test]
fn every_shipped_recipe_is_validated_by_the_command() {
    let folder = root().join("recipes");
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            let checked = topalign(&["validate", path.to_str().unwrap()], &folder);
            assert!(checked.status.success(), "{}: {}", path.display(), text(&checked.stderr));
            assert!(!checked.stdout.is_empty());
        }
    }
}
