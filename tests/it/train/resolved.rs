//! What tells of a training run from its start to its end: the resolved recipe and the manifest.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use topalign::error::Error;
use topalign::model::LocalModel;
use topalign::recipe::Recipe;
use topalign::run::digest;
use topalign::train::{self, Job, MANIFEST, RESOLVED, ResolvedRecipe, RunManifest, RunStatus};

use super::decoder::{Folders, folders, job, sft_settings, topalign};
use super::tiny;

const RECIPE: &str = "name = \"x\"\n[data]\ntraces = [\"none.jsonl\"]\n[model]\nsource = \"scratch\"\n\
                      [sft]\nlearning_rate = 0.01\nrows_per_step = 2\nmax_steps = 2\n";

/// Writes the recipe and its rows beside the model.
fn write_inputs(folders: &Folders) {
    let root = folders.root.path();
    std::fs::write(root.join("recipe.toml"), RECIPE).unwrap();
    let rows: Vec<String> = tiny::sft_rows(5).iter().map(|row| serde_json::to_string(row).unwrap()).collect();
    std::fs::write(root.join("rows.jsonl"), rows.join("\n")).unwrap();
}

/// `topalign sft` into `run`, on a model of the folder; exit status and stderr.
fn train_on(folders: &Folders, model: &str, more: &[&str]) -> (Option<i32>, String) {
    let path = |name: &str| folders.root.path().join(name);
    let (recipe, data, model, out) = (path("recipe.toml"), path("rows.jsonl"), path(model), path("run"));
    let word = Path::new;
    let own = [word("sft"), &recipe, word("--data"), &data, word("--model"), &model, word("--out"), &out];
    let arguments: Vec<&Path> = own.into_iter().chain(more.iter().map(|more| word(more))).collect();
    let (status, _, stderr) = topalign(&arguments);
    (status, stderr)
}

/// When each file of a folder and of the folders in it was written.
fn written(folder: &Path) -> Vec<(PathBuf, SystemTime)> {
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let of = |path: PathBuf| {
        let time = std::fs::metadata(&path).unwrap().modified().unwrap();
        if path.is_dir() { written(&path) } else { vec![(path, time)] }
    };
    paths.flat_map(of).collect()
}

#[test]
fn a_run_that_has_only_started_shows_its_recipe() {
    let folders = folders();
    let out = folders.root.path().join("run");
    let recipe = Recipe::parse(RECIPE, Path::new(""), &[]).unwrap();
    let resolved = ResolvedRecipe::new(&recipe, &[]).unwrap();
    let stop = || true;
    let job = Job { recipe: Some(resolved), stop: &stop, ..job(&folders.model, &out) };
    let settings = sft_settings("learning_rate = 0.01\nrows_per_step = 2\nmax_steps = 2");
    let interrupted = train::sft(&job, &tiny::sft_rows(5), &settings);
    assert!(matches!(interrupted, Err(Error::Interrupted)), "{interrupted:?}");
    let manifest = RunManifest::read(&out).unwrap();
    assert_eq!(manifest.status, RunStatus::Started);
    assert_eq!(manifest.recipe_digest, Some(digest::of_value(&recipe).unwrap()));
    assert_eq!(std::fs::read_to_string(out.join(RESOLVED)).unwrap(), recipe.to_toml().unwrap());
}

#[test]
fn the_manifest_of_a_command_is_the_last_file_and_its_recipe_is_that_of_the_model_given() {
    let folders = folders();
    write_inputs(&folders);
    let (status, stderr) = train_on(&folders, "model", &[]);
    assert_eq!(status, Some(0), "{stderr}");
    let out = folders.root.path().join("run");
    let completed = std::fs::metadata(out.join(MANIFEST)).unwrap().modified().unwrap();
    for (path, time) in written(&out) {
        assert!(time <= completed, "{} is newer than the manifest", path.display());
    }
    let text = std::fs::read_to_string(out.join(RESOLVED)).unwrap();
    for given in ["rows.jsonl", "run"] {
        let path = folders.root.path().join(given).display().to_string();
        assert!(text.contains(&path), "{path}: {text}");
    }
    let recipe = Recipe::parse(&text, Path::new(""), &[]).unwrap();
    assert_eq!(recipe.model.source, folders.model.display().to_string());
    assert_eq!(recipe.model.scratch, None);
    let manifest = RunManifest::read(&out).unwrap();
    assert_eq!(manifest.status, RunStatus::Complete);
    assert_eq!(manifest.recipe_digest, Some(digest::of_value(&recipe).unwrap()));
    let names: Vec<&String> = manifest.inputs.keys().collect();
    assert_eq!(names, ["data", "model"]);
    let model = LocalModel { path: folders.model.clone() };
    assert_eq!(manifest.inputs["model"], model.digest().unwrap());
    let card = std::fs::read_to_string(out.join("final/README.md")).unwrap();
    assert!(card.contains("datasets:\n- \"data\"\n---"), "the model is no data set: {card}");
}

#[test]
fn a_run_that_is_refused_another_model_is_left_as_it_was() {
    let folders = folders();
    write_inputs(&folders);
    tiny::write(&folders.root.path().join("other"), 2, true);
    assert_eq!(train_on(&folders, "model", &[]).0, Some(0));
    let files = [MANIFEST, RESOLVED, "log.jsonl"].map(|name| folders.root.path().join("run").join(name));
    let content = || files.clone().map(|file| std::fs::read(file).unwrap());
    let before = content();
    let (status, stderr) = train_on(&folders, "other", &["--resume"]);
    assert_eq!(status, Some(2), "{stderr}");
    assert!(stderr.contains("other settings, data or model") && stderr.contains("checkpoint-2"), "{stderr}");
    assert!(content() == before, "the run that is there still says what it is");
}

#[test]
fn a_manifest_has_no_time_of_a_reference_where_there_was_none() {
    let folders = folders();
    write_inputs(&folders);
    assert_eq!(train_on(&folders, "model", &[]).0, Some(0));
    let bytes = std::fs::read(folders.root.path().join("run").join(MANIFEST)).unwrap();
    let manifest: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    let outcome = manifest["outcome"].as_object().unwrap();
    assert!(outcome.contains_key("step_seconds") && !outcome.contains_key("reference_seconds"), "{manifest}");
}
