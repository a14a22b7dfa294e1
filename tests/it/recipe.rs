//! Claims about `recipe`.

use std::path::Path;

use topalign::error::Error;
use topalign::recipe::Recipe;
use topalign::session::SessionRecipe;
use topalign::trace::Part;

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
            let is_of_sessions = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("session-"));
            let faults =
                if is_of_sessions { SessionRecipe::load(&path, &[]).err() } else { Recipe::load(&path, &[]).err() };
            assert!(faults.is_none(), "{}: {}", path.display(), faults.unwrap());
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

#[test]
fn traces_for_one_part_alone_need_no_dealt_ones_and_read_back() {
    let text = "name = 'x'\n[data]\ntrain_traces = ['a']\nheld_out_traces = ['b']\n[data.synthetic]\ntrain = 5\ndisclosing = 0.1\n\
                [model]\nsource = 'scratch'";
    let recipe = Recipe::parse(text, Path::new(""), &[]).unwrap();
    let again = Recipe::parse(&recipe.to_toml().unwrap(), Path::new(""), &[]).unwrap();
    assert_eq!(recipe, again);
    let synthetic = recipe.data.synthetic.unwrap();
    assert_eq!(synthetic.request(Part::Train).map(|request| (request.count, request.disclosing)), Some((5, 10)));
    assert_eq!(synthetic.request(Part::HeldOut), None);
}

#[test]
fn data_without_a_source_is_a_fault() {
    insta::assert_snapshot!(faults("name = 'x'\n[data]\n[model]\nsource = 'scratch'").join("\n"), @"`data.traces` is missing, expected a list of trace files");
    let text = "name = 'x'\n[data.synthetic]\ntwin = true\n[model]\nsource = 'scratch'";
    insta::assert_snapshot!(faults(text).join("\n"), @r"
    `data.synthetic` composes nothing | set `train` or `held_out` to a number of scenarios
    unknown key `data.synthetic.twin` | did you mean `twins`?
    ");
}

const MINIMAL: &str = "name = \"x\"\n[data]\ntraces = [\"a\"]\n[model]\nsource = \"scratch\"\n";

#[test]
fn endpoints_of_an_evaluation_are_read_with_their_defaults_and_survive_the_resolved_recipe() {
    let text = format!(
        "{MINIMAL}[evaluate.verifier]\nurl = \"http://127.0.0.1:8765\"\nmodel = \"m\"\nin_headline = true\nkey_env = \"A_KEY\"\n\
         cache = \"cache\"\njson_mode = \"object\"\n[evaluate.judge]\nurl = \"https://host/v1\"\nmodel = \"j\"\nretries = 1\n"
    );
    let recipe = Recipe::parse(&text, Path::new("/there"), &[]).unwrap();
    let verifier = recipe.evaluate.verifier.as_ref().unwrap();
    assert!(verifier.in_headline);
    assert_eq!(verifier.endpoint.cache.as_deref(), Some(Path::new("/there/cache")));
    assert_eq!((verifier.endpoint.retries, verifier.endpoint.concurrency), (4, 4));
    let judge = recipe.evaluate.judge.as_ref().unwrap();
    assert_eq!((judge.retries, judge.url.base()), (1, "https://host/v1"));
    let again = Recipe::parse(&recipe.to_toml().unwrap(), Path::new("/there"), &[]).unwrap();
    assert_eq!(again, recipe);
    assert_eq!(Recipe::parse(MINIMAL, Path::new(""), &[]).unwrap().evaluate.verifier, None);
}

#[test]
fn faults_of_an_endpoint_name_their_keys_and_repeat_no_key_that_was_typed() {
    let text = format!(
        "{MINIMAL}[evaluate.verifier]\nurl = \"http://me:sk-secret@host\"\nmodle = \"m\"\nkey_env = \"sk-secret\"\n\
         [evaluate.judge]\nurl = \"https://host/v1\"\nmodel = \"j\"\nconcurrency = 0\n"
    );
    insta::assert_snapshot!(faults(&text).join("\n"), @r"
    evaluate.verifier.url: the endpoint's URL must not hold a user or password, expected e.g. `http://127.0.0.1:8000` or `https://host/v1` | name the environment variable that holds the key instead
    `evaluate.verifier.model` is missing, expected the model's name there
    evaluate.verifier.key_env: this is not the name of an environment variable for a key, expected capitals, digits and underscores, e.g. `OPENAI_API_KEY` | give the variable's name, never the key itself
    unknown key `evaluate.verifier.modle` | did you mean `model`?
    `evaluate.judge.concurrency` must be at least 1 and at most 256
    ");
}

#[test]
fn a_path_of_very_many_variables_is_read() {
    let path = "${:-a}".repeat(100_000);
    let text = format!("name = 'x'\n[data]\ntraces = ['{path}']\n[model]\nsource = 'scratch'");
    let recipe = Recipe::parse(&text, Path::new("/there"), &[]).unwrap();
    assert_eq!(recipe.data.traces, [Path::new("/there").join("a".repeat(100_000))]);
}

#[test]
fn the_value_of_a_variable_is_not_expanded_again() {
    let folder = tempfile::tempdir().unwrap();
    let recipe = folder.path().join("recipe.toml");
    std::fs::write(&recipe, MINIMAL.replace("\"a\"", "\"/${OWN}\"")).unwrap();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_topalign"))
        .args(["validate".as_ref(), recipe.as_os_str()])
        .env("OWN", "${OWN}")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("/${OWN}"), "{output:?}");
}
