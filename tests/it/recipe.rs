//! Claims about `recipe`.

use std::path::Path;

use topalign::error::Error;
use topalign::recipe::Recipe;

fn faults(text: &str) -> Vec<String> {
    match Recipe::parse(text, Path::new(""), &[]) {
        Err(Error::Invalid(faults)) => faults
            .iter()
            .map(|fault| match &fault.hint {
                Some(hint) => format!("{fault} | {hint}"),
                None => fault.to_string(),
            })
            .collect(),
        other => panic!("expected faults, got {other:?}"),
    }
}

#[test]
fn every_shipped_recipe_is_valid() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("recipes");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            Recipe::load(&path, &[]).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            count += 1;
        }
    }
    assert!(count >= 3);
}

#[test]
fn all_faults_are_reported_at_once_with_suggestions() {
    let text = r#"
        name = "x"
        sed = 3
        [data]
        traces = []
        [model]
        source = "scratch"
        [sft]
        learning_rate = -1.0
        epoch = 2
        [dpo]
        learning_rate = 1e-5
        beta = 0
        schedule = "cosin"
    "#;
    insta::assert_snapshot!(faults(text).join("\n"), @r#"
    unknown key `sed` | did you mean `seed`?
    `data.traces` must name at least one file
    `sft.learning_rate` must be above 0, got `-1.0`
    unknown key `sft.epoch` | did you mean `epochs`?
    `dpo.schedule` cannot be read: unknown variant `cosin`, expected one of `cosine`, `linear`, `constant`, got `"cosin"`
    `dpo.beta` must be above 0, got `0`
    "#);
}

#[test]
fn an_override_replaces_a_value_and_obeys_the_same_rules() {
    let text = "name = 'x'\n[data]\ntraces = ['a']\n[model]\nsource = 'scratch'\n[sft]\nlearning_rate = 1e-3";
    let set = |item: &str| Recipe::parse(text, Path::new(""), &[item.to_owned()]);
    assert_eq!(set("sft.epochs=3").unwrap().sft.unwrap().train.epochs.get(), 3);
    assert_eq!(set("name=other").unwrap().name, "other");
    assert!(set("sft.epochs=0").is_err());
    assert!(set("sft.nonsense=1").is_err());
    assert!(set("no equals sign").is_err());
}

#[test]
fn a_syntax_error_names_its_line() {
    let error = Recipe::parse("name = 'x'\nseed = = 3", Path::new(""), &[]).unwrap_err();
    assert_eq!(error.exit_status(), 2);
    assert!(error.to_string().starts_with("2: not valid TOML"), "{error}");
}

#[test]
fn the_resolved_recipe_reads_back_as_toml() {
    let text = "name = 'x'\n[data]\ntraces = ['a']\n[model]\nsource = 'scratch'\n[dpo]\nlearning_rate = 1e-5";
    let recipe = Recipe::parse(text, Path::new(""), &[]).unwrap();
    let again = Recipe::parse(&recipe.to_toml().unwrap(), Path::new(""), &[]).unwrap();
    assert_eq!(recipe, again);
}
