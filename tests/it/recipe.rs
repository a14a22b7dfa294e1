//! Claims about `recipe`.

use std::path::Path;

use topalign::error::Error;
use topalign::recipe::Ablation;
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
            let name = path.file_stem().and_then(|name| name.to_str()).unwrap();
            let varies = std::fs::read_to_string(&path).unwrap().contains("[[variation]]");
            let loaded = match name {
                _ if varies => Ablation::load(&path, &[]).map(|_| ()),
                _ if name.starts_with("session-") => SessionRecipe::load(&path, &[]).map(|_| ()),
                _ => Recipe::load(&path, &[]).map(|_| ()),
            };
            loaded.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
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
    `dpo.schedule` cannot be read: unknown variant `cosin`, expected one of `cosine`, `linear`, `constant`, got `"cosin"` | did you mean `cosine`?
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
fn systems_behind_endpoints_are_read_with_names_of_their_own() {
    let text = format!(
        "{MINIMAL}[[evaluate.agent]]\nurl = \"https://host/v1\"\nmodel = \"lab/model\"\nmitigation = \"tnm\"\n\
         [[evaluate.agent]]\nname = \"caller\"\nurl = \"https://host/v1\"\nmodel = \"m\"\nprotocol = \"tool-calling\"\n"
    );
    let recipe = Recipe::parse(&text, Path::new(""), &[]).unwrap();
    let names: Vec<&str> = recipe.evaluate.agents.iter().map(|agent| agent.name.as_str()).collect();
    assert_eq!(names, ["lab_model+tnm", "caller"]);
    assert_eq!(Recipe::parse(&recipe.to_toml().unwrap(), Path::new(""), &[]).unwrap(), recipe);
    let twice = text.replace("caller", "sft").replace("lab/model", "a b");
    insta::assert_snapshot!(faults(&twice).join("\n"), @r"
    `evaluate.agent.name` must be a plain file name, got `a b+tnm`, expected letters, digits, `-`, `_`, `+`, `:` and `.`
    evaluate.agent.name: two systems have one name, got `sft`
    ");
    let samples = format!("{MINIMAL}[generate]\nsamples = 3\n");
    insta::assert_snapshot!(faults(&samples).join("\n"), @"every one of `generate.samples` would be the same, got `3` | set `generate.temperature` above 0");
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

/// Faults of a recipe with these lines after `[dpo]`.
fn dpo_faults(lines: &str) -> Vec<String> {
    faults(&format!("{MINIMAL}[dpo]\nlearning_rate = 1e-5\n{lines}"))
}

#[test]
fn a_setting_that_the_loss_does_not_honour_is_a_fault() {
    let lines = [
        "loss = \"hinge\"\nlabel_smoothing = 0.1",
        "loss = \"ipo\"\nlabel_smoothing = 0.0",
        "loss = \"orpo\"\nchosen_weight = 1.0",
        "loss = \"kto\"\nchosen_weight = 1.0",
        "target_margin = 0.5",
        "loss = \"simpo\"\ndesirable_weight = 1.0",
        "loss = \"robust\"",
        "loss = \"robust\"\nlabel_smoothing = 0.5",
        "loss = \"sigmod\"",
        "loss = \"simpo\"\ntarget_margin = -1.0",
        "rows_per_step = 4\ntokens_per_step = 900",
        "patience = 2",
        "export = \"best\"",
        "export = \"bets\"\nevaluate_every = 4",
        "[dpo.kind_weights]\nexplicit_leak = 2.0\nover-refusal = 0",
        "kinds = []",
        "kinds = [\"over-refusals\"]",
    ];
    let found: Vec<String> = lines.iter().map(|lines| dpo_faults(lines).join("; ")).collect();
    insta::assert_snapshot!(found.join("\n"), @r#"
    the loss `hinge` does not honour `dpo.label_smoothing` | leave it out; it is for `sigmoid`, `robust`, `simpo`
    the loss `ipo` does not honour `dpo.label_smoothing` | leave it out; it is for `sigmoid`, `robust`, `simpo`
    the loss `orpo` does not honour `dpo.chosen_weight` | leave it out; it is for `sigmoid`, `robust`, `ipo`, `hinge`, `simpo`
    the loss `kto` does not honour `dpo.chosen_weight` | leave it out; it is for `sigmoid`, `robust`, `ipo`, `hinge`, `simpo`
    the loss `sigmoid` does not honour `dpo.target_margin` | leave it out; it is for `simpo`
    the loss `simpo` does not honour `dpo.desirable_weight` | leave it out; it is for `kto`
    the loss `robust` needs `dpo.label_smoothing` above 0 | it is the share of labels taken to be wrong; without it, use `sigmoid`
    `dpo.label_smoothing` must be below 0.5, got `0.5`; the loss `robust` needs `dpo.label_smoothing` above 0 | it is the share of labels taken to be wrong; without it, use `sigmoid`
    `dpo.loss` cannot be read: unknown variant `sigmod`, expected one of `sigmoid`, `robust`, `ipo`, `hinge`, `simpo`, `orpo`, `kto`, got `"sigmod"` | did you mean `sigmoid`?
    `dpo.target_margin` must be at least 0, got `-1.0`
    `dpo.rows_per_step` and `dpo.tokens_per_step` both say how large a step is | leave one of them out
    `dpo.patience` needs `dpo.evaluate_every` | the loss on the held-out rows decides, so it must be computed during training
    `dpo.export = "best"` needs `dpo.evaluate_every` | the loss on the held-out rows decides, so it must be computed during training
    `dpo.export` cannot be read: unknown variant `bets`, expected `last` or `best`, got `"bets"` | did you mean `best`?
    `dpo.kind_weights.over-refusal` must be above 0, got `0`; unknown key `dpo.kind_weights.explicit_leak` | did you mean `explicit-leak`?
    `dpo.kinds` names no kind of pair | leave it out to train on every pair
    `dpo.kinds` cannot be read: unknown variant `over-refusals`, expected one of `explicit-leak`, `over-disclosure`, `over-refusal`, got `["over-refusals"]` | did you mean `over-refusal`?
    "#);
}

#[test]
fn the_number_format_is_read_back_and_written_only_where_it_is_not_the_usual_one() {
    let parse = |format: &str| Recipe::parse(MINIMAL, Path::new(""), &[format!("model.dtype={format}")]);
    for (format, is_written) in [("f32", false), ("bf16", true)] {
        let recipe = parse(format).unwrap();
        assert_eq!(recipe.model.dtype.name(), format);
        let resolved = recipe.to_toml().unwrap();
        assert_eq!(resolved.contains("dtype"), is_written, "{resolved}");
        assert_eq!(Recipe::parse(&resolved, Path::new(""), &[]).unwrap(), recipe);
    }
    let error = parse("f16").unwrap_err();
    assert!(error.to_string().contains("`model.dtype`") && error.to_string().contains("`bf16`"), "{error}");
}

#[test]
fn every_loss_reads_back_from_the_resolved_recipe_with_only_its_own_keys() {
    let cases = [
        ("loss = \"robust\"\nlabel_smoothing = 0.1", "label_smoothing"),
        ("loss = \"ipo\"", "chosen_weight"),
        ("loss = \"hinge\"\nchosen_weight = 0.5", "chosen_weight"),
        ("loss = \"simpo\"\ntarget_margin = 1.0", "target_margin"),
        ("loss = \"orpo\"\ntokens_per_step = 4000", "tokens_per_step"),
        ("loss = \"kto\"\nundesirable_weight = 0.5", "desirable_weight"),
        (
            "evaluate_every = 5\npatience = 3\nexport = \"best\"\nkeep_checkpoints = 4\nmemory_limit_mib = 900",
            "patience",
        ),
        ("tokens_per_pass = 8192", "tokens_per_pass"),
        ("[dpo.kind_weights]\nover-refusal = 2.0", "over-disclosure"),
        ("kinds = [\"over-disclosure\"]", "kinds"),
    ];
    for (lines, key) in cases {
        let text = format!(
            "{MINIMAL}[model.lora]\nrank = 4\nalpha = 8\nscaling = \"rslora\"\n[dpo]\nlearning_rate = 1e-5\n{lines}"
        );
        let recipe = Recipe::parse(&text, Path::new(""), &[]).unwrap();
        let resolved = recipe.to_toml().unwrap();
        assert!(resolved.contains(key), "{resolved}");
        assert_eq!(Recipe::parse(&resolved, Path::new(""), &[]).unwrap(), recipe, "{resolved}");
    }
    let plain = Recipe::parse(&format!("{MINIMAL}[dpo]\nlearning_rate = 1e-5"), Path::new(""), &[]).unwrap();
    let json = serde_json::to_value(plain.dpo.unwrap()).unwrap();
    let keys: Vec<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
    let known = [
        "epochs",
        "max_steps",
        "rows_per_step",
        "learning_rate",
        "schedule",
        "warmup_share",
        "clip_norm",
        "weight_decay",
        "max_tokens",
        "save_every",
        "arithmetic",
        "order",
        "beta",
        "label_smoothing",
        "chosen_weight",
    ];
    assert_eq!(keys, known, "defaults are written as ever, so that digests of older runs stay");
}

/// The keys that a section knows, as the hint to an unknown one lists them.
fn keys_of(text: &str) -> Vec<String> {
    let all = faults(text);
    let list = all.iter().find_map(|fault| fault.split_once("known here: ")).unwrap_or_else(|| panic!("{all:?}")).1;
    list.split(", ").map(str::to_owned).collect()
}

#[test]
fn every_key_of_training_is_in_the_reference() {
    let reference = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("recipes/README.md")).unwrap();
    let odd = "zzzzzzzzzzzzzzzzzzzz = 1\n";
    let sections = [
        ("[sft]", format!("{MINIMAL}[sft]\nlearning_rate = 1e-5\n{odd}")),
        ("[dpo]", format!("{MINIMAL}[dpo]\nlearning_rate = 1e-5\n{odd}")),
        ("[dpo.kind_weights]", format!("{MINIMAL}[dpo]\nlearning_rate = 1e-5\n[dpo.kind_weights]\n{odd}")),
        ("[model.lora]", format!("{MINIMAL}[model.lora]\nrank = 4\nalpha = 8\n{odd}")),
    ];
    for (section, text) in sections {
        assert!(reference.contains(&format!("`{section}`")), "{section}");
        let keys = keys_of(&text);
        assert!(keys.len() >= 3, "{keys:?}");
        for key in keys {
            assert!(reference.contains(&format!("`{key}`")), "{section} {key} is not in recipes/README.md");
        }
    }
}

#[test]
fn the_builder_s_writer_and_severities_are_read_and_unknown_names_get_a_suggestion() {
    let text = |build: &str| {
        format!("name = \"x\"\n[data]\ntraces = [\"t\"]\n[model]\nsource = \"m\"\n[build]\nparquet = true\n{build}")
    };
    let found = faults(&text(
        "[build.severity]\nnoice = \"warn\"\nleak = \"fatal\"\n[build.writer]\nkind = \"endpoint\"\nbest_off = 2\n",
    ));
    for expected in [
        "unknown key `build.severity.noice` | did you mean `noise`?",
        "`build.severity.leak`",
        "`build.writer.url` is missing",
        "did you mean `best_of`?",
    ] {
        assert!(found.iter().any(|fault| fault.contains(expected)), "{expected}: {found:#?}");
    }
    let good =
        "[build.severity]\nnear-duplicate = \"fail\"\n[build.writer]\nkind = \"local\"\nmodel = \"m\"\nbest_of = 4\n";
    let recipe = Recipe::parse(&text(good), Path::new(""), &[]).unwrap();
    assert_eq!(recipe.build.writer.as_ref().unwrap().best_of.get(), 4);
    // What was resolved says the same when it is read again.
    assert_eq!(Recipe::parse(&recipe.to_toml().unwrap(), Path::new(""), &[]).unwrap().build, recipe.build);
}
