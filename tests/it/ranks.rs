//! Claims about the program under a launcher. Those that need several processes start them with `mpirun`, where the program is built with
//! `--features mpi` and Open MPI is installed; elsewhere they say that they are skipped.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use topalign::checkpoint;
use topalign::train::{RunManifest, RunStatus, StepRow, read_log};

use crate::train::tiny;

const PROGRAM: &str = env!("CARGO_BIN_EXE_topalign");
const TOLERANCE: f64 = 1e-5;

/// Whether several processes can be started here; says why not.
fn can_start_ranks() -> bool {
    let reason = if !cfg!(feature = "mpi") {
        "built without `--features mpi`"
    } else if Command::new("mpirun").arg("--version").output().is_err() {
        "mpirun is not installed"
    } else {
        return true;
    };
    println!("skipped: {reason}");
    false
}

/// `topalign` as so many ranks of one thread each, or as one process.
fn program(ranks: usize) -> Command {
    let mut command = if ranks == 1 {
        Command::new(PROGRAM)
    } else {
        let mut command = Command::new("mpirun");
        command.args(["--allow-run-as-root", "--oversubscribe", "-n", &ranks.to_string(), PROGRAM]);
        // Containers may forbid reading another process's memory, which Open MPI would complain about.
        command.env("OMPI_MCA_btl_vader_single_copy_mechanism", "none");
        // Seconds that mpirun gives its ranks to stop in: on a machine with other work one may not do.
        command.env("OMPI_MCA_odls_base_sigkill_timeout", "5");
        command
    };
    command.env("RAYON_NUM_THREADS", "1").stdin(Stdio::null());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A folder with a tiny model, rows and a recipe that trains on them.
struct Place(tempfile::TempDir);

impl Place {
    fn new(steps: usize) -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        tiny::write(&place.path("model"), 1, true);
        let train = format!(
            "learning_rate = 0.001\nrows_per_step = 4\nmax_steps = {steps}\nepochs = 1000000\nsave_every = 5\n"
        );
        let recipe = format!(
            "name = 'ranks'\n[data]\ntraces = ['none.jsonl']\n[model]\nsource = 'model'\n\
             [model.lora]\nrank = 4\nalpha = 8\ndropout = 0.1\n[sft]\n{train}evaluate_every = 10\n[dpo]\n{train}evaluate_every = 10\n"
        );
        std::fs::write(place.path("recipe.toml"), recipe).unwrap();
        place.rows("sft", &tiny::sft_rows(13));
        place.rows("dpo", &tiny::pairs(7));
        place
    }

    fn rows<T: serde::Serialize>(&self, name: &str, rows: &[T]) {
        let lines: Vec<String> = rows.iter().map(|row| serde_json::to_string(row).unwrap()).collect();
        let (held_out, train) = lines.split_at(3);
        std::fs::write(self.path(&format!("{name}.jsonl")), train.join("\n")).unwrap();
        std::fs::write(self.path(&format!("{name}-held-out.jsonl")), held_out.join("\n")).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn training(&self, ranks: usize, stage: &str, out: &str, more: &[&str]) -> Command {
        let mut command = program(ranks);
        let (data, held_out) = (format!("{stage}.jsonl"), format!("{stage}-held-out.jsonl"));
        command.args([stage, "recipe.toml", "--data", &data, "--held-out", &held_out, "--out", out]).args(more);
        command.current_dir(self.0.path());
        command
    }

    fn train(&self, ranks: usize, stage: &str, out: &str, more: &[&str]) -> Output {
        let output = self.training(ranks, stage, out, more).output().unwrap();
        assert!(output.status.success(), "{ranks} ranks, {stage}: {}", text(&output.stderr));
        output
    }

    fn start(&self, ranks: usize, stage: &str, out: &str) -> Child {
        self.training(ranks, stage, out, &[]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    }

    fn log(&self, out: &str) -> Vec<StepRow> {
        read_log(&self.path(out).join("log.jsonl")).unwrap()
    }

    /// Waits until the run has logged so many steps.
    fn wait_for(&self, out: &str, steps: usize, child: &mut Child) {
        let log = self.path(out).join("log.jsonl");
        let count = || std::fs::read_to_string(&log).map_or(0, |text| text.lines().count());
        while count() < steps {
            assert!(child.try_wait().unwrap().is_none(), "the run ended before step {steps}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Waits for a process for so long; its exit status and what it said.
fn end_within(child: Child, limit: Duration) -> (Option<i32>, String) {
    let begun = Instant::now();
    let mut child = child;
    while child.try_wait().unwrap().is_none() {
        assert!(begun.elapsed() < limit, "the run did not end within {limit:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = child.wait_with_output().unwrap();
    (output.status.code(), text(&output.stderr))
}

/// Process ids of the ranks that a launcher started.
fn ranks_of(launcher: &Child) -> Vec<u32> {
    let stat = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let parent = |pid: u32| -> Option<u32> { stat(pid).rsplit(") ").next()?.split(' ').nth(1)?.parse().ok() };
    let pids = std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(|&pid| parent(pid) == Some(launcher.id())).collect()
}

fn signal(pid: u32, name: &str) {
    assert!(Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().unwrap().success());
}

fn assert_close(left: &[StepRow], right: &[StepRow], context: &str) {
    assert_eq!(left.len(), right.len(), "{context}");
    for (left, right) in left.iter().zip(right) {
        assert_eq!((left.step, left.num_tokens), (right.step, right.num_tokens), "{context}");
        let values = |row: &StepRow| [row.loss, row.metrics.get("eval_loss").copied().flatten()];
        for (one, other) in values(left).into_iter().zip(values(right)) {
            let distance = one.unwrap_or(0.0) - other.unwrap_or(0.0);
            assert!(one.is_some() == other.is_some() && distance.abs() < TOLERANCE, "{context}: {left:?} {right:?}");
        }
    }
}

#[test]
fn several_ranks_that_nothing_connects_are_an_error_and_never_train_alone() {
    let place = Place::new(2);
    let launched = |command: &mut Command, variables: &[(&str, &str)]| -> Output {
        command.envs(variables.iter().copied()).output().unwrap()
    };
    for stage in ["sft", "dpo"] {
        let torchrun = [("RANK", "0"), ("WORLD_SIZE", "2")];
        let output = launched(&mut place.training(1, stage, "run", &[]), &torchrun);
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains("cannot sum over them"), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains("--features"), "{}", text(&output.stderr));
        assert!(!place.path("run").exists());
    }
    let output = launched(&mut place.training(1, "sft", "run", &[]), &[("RANK", "3"), ("WORLD_SIZE", "2")]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("RANK"), "{}", text(&output.stderr));
    // Commands that ranks do not share do what they are told in every process.
    let output = launched(
        program(1).args(["validate", "recipe.toml"]).current_dir(place.0.path()),
        &[("RANK", "1"), ("WORLD_SIZE", "2")],
    );
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(!output.stdout.is_empty());
    // One rank is one process.
    let output = launched(&mut place.training(1, "sft", "one", &[]), &[("RANK", "0"), ("WORLD_SIZE", "1")]);
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn two_mpi_ranks_train_as_one_process_does() {
    if !can_start_ranks() {
        return;
    }
    let place = Place::new(20);
    for stage in ["sft", "dpo"] {
        let (one, two) = (format!("{stage}-1"), format!("{stage}-2"));
        place.train(1, stage, &one, &[]);
        let output = place.train(2, stage, &two, &[]);
        assert_close(&place.log(&two), &place.log(&one), stage);
        let largest = place
            .log(&two)
            .iter()
            .zip(place.log(&one))
            .map(|(two, one)| (two.loss.unwrap() - one.loss.unwrap()).abs())
            .fold(0.0, f64::max);
        println!("{stage}: the largest difference of 20 losses is {largest:.1e}");
        assert_eq!(text(&output.stdout).matches("\"run_digest\"").count(), 1, "one rank says what came out");
        let manifest = RunManifest::read(&place.path(&two)).unwrap();
        assert_eq!((manifest.status, manifest.ranks), (RunStatus::Complete, 2));
    }
}

#[test]
fn a_run_of_mpi_ranks_goes_on_as_one_process_and_the_other_way_round() {
    if !can_start_ranks() {
        return;
    }
    let place = Place::new(20);
    place.train(1, "sft", "through", &[]);
    for (before, after) in [(2, 1), (1, 2)] {
        let out = format!("from-{before}");
        let mut child = place.start(before, "sft", &out);
        place.wait_for(&out, 6, &mut child);
        match before {
            1 => child.kill().unwrap(),
            // mpirun passes it on to every rank, which stop together and save.
            _ => signal(child.id(), "USR1"),
        }
        let (_, said) = end_within(child, Duration::from_mins(1));
        assert!(before == 1 || said.contains("interrupted"), "{said}");
        place.train(after, "sft", &out, &["--resume"]);
        let resumed = RunManifest::read(&place.path(&out)).unwrap().resumed_from.unwrap();
        assert!((5..20).contains(&resumed), "{resumed}");
        assert_close(&place.log(&out), &place.log("through"), &format!("{before} ranks, then {after}"));
    }
}

#[test]
fn a_killed_rank_ends_the_run_with_a_message_and_leaves_whole_checkpoints() {
    if !can_start_ranks() {
        return;
    }
    let place = Place::new(1_000_000);
    for (victim, out) in [(0, "first"), (1, "second")] {
        let mut child = place.start(2, "sft", out);
        place.wait_for(out, 7, &mut child);
        let mut ranks = ranks_of(&child);
        ranks.sort_unstable();
        assert_eq!(ranks.len(), 2);
        signal(ranks[victim], "KILL");
        let (status, said) = end_within(child, Duration::from_mins(1));
        assert_ne!(status, Some(0));
        assert!(said.contains(&format!("rank {victim}")) && said.contains("signal 9"), "{said}");
        assert!(ranks.iter().all(|pid| !Path::new(&format!("/proc/{pid}/exe")).exists()), "no rank is left");
        let found = checkpoint::latest(&place.path(out), &candle_core::Device::Cpu).unwrap();
        assert_eq!(found.skipped, []);
        assert!(found.checkpoint.unwrap().state.step >= 5);
    }
}

#[test]
fn an_interruption_stops_all_ranks_with_a_checkpoint() {
    if !can_start_ranks() {
        return;
    }
    let place = Place::new(1_000_000);
    // To one rank alone, as `kill` would; to the launcher, as Ctrl-C would.
    for out in ["rank", "launcher"] {
        let mut child = place.start(2, "dpo", out);
        place.wait_for(out, 7, &mut child);
        let target = if out == "rank" { *ranks_of(&child).iter().max().unwrap() } else { child.id() };
        signal(target, "INT");
        let (status, said) = end_within(child, Duration::from_mins(1));
        assert_ne!(status, Some(0), "{said}");
        let steps = place.log(out).len();
        let found = checkpoint::latest(&place.path(out), &candle_core::Device::Cpu).unwrap();
        assert_eq!(found.skipped, []);
        assert_eq!(found.checkpoint.unwrap().state.step, steps, "{out}: saved where it stopped");
    }
}

#[test]
fn what_is_wrong_on_every_rank_is_said_once() {
    if !can_start_ranks() {
        return;
    }
    let place = Place::new(2);
    let mut command = place.training(2, "sft", "run", &["--set", "sft.learning_rate=-1"]);
    // mpirun's own default: within it the end of the first rank reaches the others before they speak.
    let output = command.env("OMPI_MCA_odls_base_sigkill_timeout", "1").output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr).matches("error: ").count(), 1, "{}", text(&output.stderr));
}

const RECIPE: &str = r#"
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
[dpo]
learning_rate = 1e-4
max_steps = 2
rows_per_step = 2
[generate]
selection = "given"
selection_tokens = 8
response_tokens = 12
[evaluate]
resamples = 100
limit = 4
"#;

#[test]
fn mpi_ranks_run_the_whole_pipeline_and_generate_what_one_process_does() {
    if !can_start_ranks() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let scenarios = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/scenarios.jsonl");
    std::fs::write(folder.path().join("tiny.toml"), RECIPE.replace("SCENARIOS", scenarios.to_str().unwrap())).unwrap();
    let run = |ranks: usize, arguments: &[&str]| -> Output {
        let output = program(ranks).args(arguments).current_dir(folder.path()).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        output
    };
    run(1, &["run", "tiny.toml", "--out", "one"]);
    let two = run(2, &["run", "tiny.toml", "--out", "two"]);
    let said = text(&two.stderr);
    assert_eq!(said.lines().filter(|line| *line == "sft: running").count(), 1, "one rank talks: {said}");
    let bytes = |path: &str| std::fs::read(folder.path().join(path)).unwrap();
    for file in ["traces.jsonl", "data/sft.jsonl", "base/model.safetensors", "completions/base.jsonl"] {
        assert!(bytes(&format!("one/{file}")) == bytes(&format!("two/{file}")), "{file} differs");
    }
    let again = run(2, &["run", "tiny.toml", "--out", "two"]);
    assert!(!text(&again.stderr).contains("running"), "{}", text(&again.stderr));
    for (ranks, out) in [(1, "one.jsonl"), (2, "two.jsonl")] {
        let arguments =
            ["generate", "--model", "one/base", "--traces", "one/split/held-out.jsonl", "--limit", "5", "--out", out];
        run(ranks, &[&arguments[..], &["--selection", "given", "--response-tokens", "12"]].concat());
    }
    assert!(bytes("one.jsonl") == bytes("two.jsonl"));
}
