//! Processes that are killed, and disks that are full: the run goes on as if nothing had happened.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rand::RngExt as _;
use topalign::run::seed::Seed;

use super::decoder::{log, without_time};
use super::tiny;

/// One training command on a tiny model, with its inputs in a folder.
struct Training {
    stage: &'static str,
    root: PathBuf,
    /// The file whose bytes the run is about.
    result: &'static str,
}

const TRAIN: &str = "learning_rate = 0.01\nrows_per_step = 2\nmax_steps = 24\nepochs = 9\nsave_every = 3\n";

impl Training {
    fn new(root: &Path, name: &str, stage: &'static str, lora: &str) -> Self {
        let root = root.join(name);
        tiny::write(&root.join("model"), 1, true);
        let recipe = format!(
            "name = \"killed\"\n[data]\ntraces = [\"none.jsonl\"]\n[model]\nsource = \"model\"\n{lora}[{stage}]\n{TRAIN}"
        );
        std::fs::write(root.join("recipe.toml"), recipe).unwrap();
        let rows = |text: Vec<String>| std::fs::write(root.join("rows.jsonl"), text.join("\n")).unwrap();
        if stage == "sft" {
            rows(tiny::sft_rows(7).iter().map(|row| serde_json::to_string(row).unwrap()).collect());
        } else {
            rows(tiny::pairs(5).iter().map(|pair| serde_json::to_string(pair).unwrap()).collect());
        }
        let result = if lora.is_empty() { "final/model.safetensors" } else { "final/adapter_model.safetensors" };
        Self { stage, root, result }
    }

    fn arguments(&self, out: &str) -> Vec<String> {
        let path = |name: &str| self.root.join(name).display().to_string();
        let arguments = [self.stage, &path("recipe.toml"), "--data", &path("rows.jsonl"), "--out", &path(out)];
        arguments.map(str::to_owned).to_vec()
    }

    fn start(&self, out: &str, resume: bool) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_topalign"));
        command.args(self.arguments(out)).env("RAYON_NUM_THREADS", "1");
        command.args(resume.then_some("--resume")).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().unwrap()
    }

    fn finish(&self, out: &str, resume: bool) -> Duration {
        let begun = Instant::now();
        assert!(self.start(out, resume).wait().unwrap().success());
        begun.elapsed()
    }

    fn out(&self, out: &str) -> PathBuf {
        self.root.join(out)
    }

    fn assert_same(&self, left: &str, right: &str) {
        let bytes = |out: &str| std::fs::read(self.out(out).join(self.result)).unwrap();
        assert!(bytes(left) == bytes(right), "{} differs between {left} and {right}", self.result);
        assert_eq!(without_time(&log(&self.out(left))), without_time(&log(&self.out(right))));
    }
}

const DROPPING: &str = "[model.lora]\nrank = 4\nalpha = 8\ndropout = 0.2\n";

/// Kills runs at random moments, resumes each and compares it with one that was left alone. How many steps had been logged at
/// each kill.
fn kill_and_resume(points: usize, seed: u64) -> Vec<usize> {
    let folder = tempfile::tempdir().unwrap();
    let commands = [
        Training::new(folder.path(), "full", "sft", ""),
        Training::new(folder.path(), "adapter", "sft", DROPPING),
        Training::new(folder.path(), "preference", "dpo", DROPPING),
    ];
    let durations: Vec<Duration> = commands.iter().map(|command| command.finish("through", false)).collect();
    let mut random = Seed(seed).stream("kills");
    let mut steps = Vec::new();
    for point in 0..points {
        let (command, duration) = (&commands[point % 3], durations[point % 3]);
        let out = format!("killed-{point}");
        let mut child = command.start(&out, false);
        std::thread::sleep(duration.mul_f64(random.random_range(0.0..1.1)));
        let _ = child.kill();
        child.wait().unwrap();
        let path = command.out(&out).join("log.jsonl");
        steps.push(std::fs::read_to_string(path).map_or(0, |text| text.lines().count()));
        command.finish(&out, true);
        command.assert_same(&out, "through");
        std::fs::remove_dir_all(command.out(&out)).unwrap();
    }
    steps
}

#[test]
fn runs_killed_at_random_moments_end_like_runs_left_alone() {
    assert_eq!(kill_and_resume(3, 1).len(), 3);
}

/// `cargo test --test it fifty_random -- --ignored --nocapture`
#[test]
#[ignore = "takes minutes"]
fn runs_killed_at_fifty_random_moments_end_like_runs_left_alone() {
    let mut steps = kill_and_resume(50, 2027);
    steps.sort_unstable();
    println!("50 of 50 killed runs resumed bit for bit; steps logged at the kill: {steps:?}");
}

#[cfg(unix)]
fn newest_checkpoint(out: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(out).ok()?.filter_map(|entry| {
        let name = entry.ok()?.file_name().into_string().ok()?;
        name.strip_prefix("checkpoint-")?.parse::<usize>().ok()
    });
    entries.max().map(|step| out.join(format!("checkpoint-{step}")))
}

#[cfg(unix)]
fn content(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

#[cfg(unix)]
#[test]
fn a_full_disk_at_checkpoint_time_is_an_error_that_leaves_the_last_good_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let command = Training::new(folder.path(), "full", "sft", "");
    command.finish("through", false);
    let out = command.out("run");
    let mut child = command.start("run", false);
    while newest_checkpoint(&out).is_none() && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(2));
    }
    let _ = child.kill();
    child.wait().unwrap();
    let good = newest_checkpoint(&out).unwrap();
    let before = content(&good);

    // Files may not grow past some 50 to 100 kB: the optimizer's state, of 160, does not fit.
    let words: Vec<String> = command.arguments("run").iter().map(|word| format!("'{word}'")).collect();
    let script =
        format!("trap '' XFSZ; ulimit -f 100; exec '{}' {} --resume", env!("CARGO_BIN_EXE_topalign"), words.join(" "));
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains(".safetensors"), "{message}");
    assert_eq!(newest_checkpoint(&out), Some(good.clone()));
    assert!(content(&good) == before);
    let leftovers = std::fs::read_dir(&out)
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with(".topalign-"));
    assert_eq!(leftovers.count(), 0);

    command.finish("run", true);
    command.assert_same("run", "through");
}
