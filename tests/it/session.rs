//! Claims about sessions: what is known comes out, whoever runs it and however often it is killed.

mod canary;
mod faults;
mod files;
mod known;
mod outside;
mod parts;

use std::path::Path;

use topalign::session::{Outcome, SessionRecipe, Settings, run};

/// A recipe of two runtimes over one policy, a guard, and a hostile record.
const SMALL: &str = r#"
name = "small"
items = 3
repeats = 2
expected_outlet = "email"
resamples = 200
[workspace]
records = { customer = 2, email = 2 }
hostile = 1
[probe]
exits = ["email", "console"]
[models.scripted]
provider = "scripted"
leak = { email = 0.6, console = 0.7, response = 0.2 }
[[conditions]]
name = "R"
runtime = "R"
model = "scripted"
[[conditions]]
name = "F"
runtime = "F"
model = "scripted"
[[conditions]]
name = "oracle"
runtime = "F"
model = "scripted"
guard = { exits = "all" }
"#;

fn settings(text: &str, overrides: &[&str]) -> Settings {
    let overrides: Vec<String> = overrides.iter().map(|one| (*one).to_owned()).collect();
    SessionRecipe::parse(text, Path::new(""), &overrides).unwrap().settings
}

fn recipe(name: &str, overrides: &[&str]) -> Settings {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("recipes").join(name);
    let overrides: Vec<String> = overrides.iter().map(|one| (*one).to_owned()).collect();
    SessionRecipe::load(&path, &overrides).unwrap().settings
}

fn played(settings: &Settings) -> (tempfile::TempDir, Outcome) {
    let folder = tempfile::tempdir().unwrap();
    let outcome = run(settings, folder.path(), false, &topalign::device::Compute::cpu()).unwrap();
    (folder, outcome)
}
