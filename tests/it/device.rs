//! Claims about devices: what `--device` means, and what is said where it cannot be had.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

use std::cell::RefCell;
use std::path::Path;
use std::process::Command;

use candle_core::Device;
use topalign::device::{Compute, DeviceChoice, Machine, Missing, NumberFormat, ordinal_of_rank};

use crate::train::tiny;

/// A machine with so many GPUs, which notes what is opened. What opens is the CPU: there is no other device to hand out.
struct Fake {
    cuda: Result<usize, Missing>,
    opens: bool,
    metal: bool,
    opened: RefCell<Vec<String>>,
}

impl Fake {
    fn with(cuda: Result<usize, Missing>) -> Self {
        Self { cuda, opens: true, metal: false, opened: RefCell::default() }
    }
}

impl Machine for Fake {
    fn count_cuda(&self) -> Result<usize, Missing> {
        self.cuda.clone()
    }

    fn open_cuda(&self, ordinal: usize) -> Result<Device, Missing> {
        if !self.opens {
            return Err(Missing::Open("CUDA_ERROR_DEVICE_UNAVAILABLE".to_owned()));
        }
        self.opened.borrow_mut().push(format!("cuda:{ordinal}"));
        Ok(Device::Cpu)
    }

    fn open_metal(&self) -> Result<Device, Missing> {
        if !self.metal {
            return Err(Missing::Feature("metal"));
        }
        self.opened.borrow_mut().push("metal".to_owned());
        Ok(Device::Cpu)
    }
}

fn no_driver() -> Missing {
    Missing::Driver("CUDA_ERROR_STUB_LIBRARY".to_owned())
}

#[test]
fn what_is_typed_is_what_is_meant_or_is_refused_with_what_could_be() {
    for text in ["auto", "cpu", "cuda:0", "cuda:7", "cuda:all", "metal"] {
        assert_eq!(text.parse::<DeviceChoice>().unwrap().to_string(), text);
    }
    assert_eq!("cuda".parse::<DeviceChoice>().unwrap(), DeviceChoice::Cuda(0));
    for text in ["", "gpu", "cuda:", "cuda:-1", "cuda:0,1", "CUDA:0", "cuda:one", "metal:0"] {
        let error = text.parse::<DeviceChoice>().unwrap_err();
        assert!(error.contains("cuda:all"), "{text}: {error}");
    }
}

#[test]
fn ranks_take_the_gpus_in_turn_and_a_process_alone_takes_the_first() {
    let taken: Vec<_> = (0..5).map(|rank| ordinal_of_rank(rank, 2)).collect();
    assert_eq!(taken, [Some(0), Some(1), Some(0), Some(1), Some(0)]);
    assert_eq!(ordinal_of_rank(3, 0), None);
    let machine = Fake::with(Ok(4));
    for rank in [0, 1, 6] {
        DeviceChoice::CudaAll.open_on(&machine, rank).unwrap();
    }
    assert_eq!(*machine.opened.borrow(), ["cuda:0", "cuda:1", "cuda:2"]);
}

#[test]
fn a_device_that_is_missing_is_a_fault_that_says_what_and_where_and_what_to_do() {
    let cases: [(DeviceChoice, Fake, &[&str]); 7] = [
        (
            DeviceChoice::Cuda(0),
            Fake::with(Err(Missing::Feature("cuda"))),
            &["--device cuda:0", "feature `cuda`", "cargo build"],
        ),
        (
            DeviceChoice::CudaAll,
            Fake::with(Err(no_driver())),
            &["--device cuda:all", "driver", "CUDA_ERROR_STUB_LIBRARY"],
        ),
        (DeviceChoice::Cuda(0), Fake::with(Ok(0)), &["no such NVIDIA GPU", "0 GPUs", "with an NVIDIA GPU"]),
        (DeviceChoice::CudaAll, Fake::with(Ok(0)), &["no such NVIDIA GPU", "0 GPUs"]),
        (DeviceChoice::Cuda(2), Fake::with(Ok(2)), &["--device cuda:2", "2 GPUs", "cuda:0 to cuda:1"]),
        (
            DeviceChoice::Cuda(1),
            Fake { opens: false, ..Fake::with(Ok(2)) },
            &["does not open", "CUDA_ERROR_DEVICE_UNAVAILABLE"],
        ),
        (DeviceChoice::Metal, Fake::with(Ok(1)), &["--device metal", "feature `metal`"]),
    ];
    for (choice, machine, expected) in cases {
        let error = choice.open_on(&machine, 0).unwrap_err();
        assert_eq!(error.exit_status(), 2, "{choice}");
        for part in expected {
            assert!(error.to_string().contains(part), "{choice}: `{part}` is not in: {error}");
        }
        assert!(error.hints().iter().any(|hint| hint.contains("--device cpu")), "{choice}: {:?}", error.hints());
        assert!(machine.opened.borrow().is_empty());
    }
}

#[test]
fn auto_takes_the_best_that_opens_and_never_fails() {
    let open = |machine: &Fake| {
        DeviceChoice::Auto.open_on(machine, 1).unwrap();
        machine.opened.borrow().clone()
    };
    assert_eq!(open(&Fake { metal: true, ..Fake::with(Ok(2)) }), ["cuda:1"]);
    assert_eq!(open(&Fake { metal: true, ..Fake::with(Err(no_driver())) }), ["metal"]);
    assert_eq!(open(&Fake { metal: true, opens: false, ..Fake::with(Ok(1)) }), ["metal"]);
    for none in
        [Fake::with(Err(Missing::Feature("cuda"))), Fake::with(Ok(0)), Fake { opens: false, ..Fake::with(Ok(1)) }]
    {
        assert!(open(&none).is_empty());
    }
}

#[test]
fn the_cpu_in_f32_is_the_default() {
    let compute = Compute::open(None, NumberFormat::default(), 0).unwrap();
    assert_eq!((compute.device_name().as_str(), compute.format.name()), ("cpu", "f32"));
}

fn topalign(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_topalign")).args(arguments).current_dir(folder).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

const RECIPE: &str = "name = \"x\"\n[data]\ntraces = [\"t.jsonl\"]\n[model]\nsource = \"model\"\n[sft]\nlearning_rate = 0.01\nmax_steps = 2\n[dpo]\nlearning_rate = 0.01\nmax_steps = 2\n";
const SESSIONS: &str = r#"
name = "s"
items = 1
expected_outlet = "email"
resamples = 200
[workspace]
records = { customer = 2, email = 2 }
[probe]
exits = ["email"]
[models.scripted]
provider = "scripted"
leak = { email = 0.6, console = 0.7, response = 0.2 }
[[conditions]]
name = "R"
runtime = "R"
model = "scripted"
"#;

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    tiny::write(&folder.path().join("model"), 1, true);
    write("recipe.toml", RECIPE);
    write("sessions.toml", SESSIONS);
    let rows: Vec<String> = tiny::sft_rows(6).iter().map(|row| serde_json::to_string(row).unwrap()).collect();
    write("sft.jsonl", &rows.join("\n"));
    let pairs: Vec<String> = tiny::pairs(2).iter().map(|row| serde_json::to_string(row).unwrap()).collect();
    write("dpo.jsonl", &pairs.join("\n"));
    folder
}

#[test]
#[cfg(not(any(feature = "cuda", feature = "metal")))]
fn every_command_that_computes_refuses_a_device_that_this_build_lacks_and_writes_nothing() {
    let folder = folder();
    let path = folder.path();
    let traces = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases/build-traces.jsonl");
    let commands: [&[&str]; 7] = [
        &["sft", "recipe.toml", "--data", "sft.jsonl", "--out", "out"],
        &["dpo", "recipe.toml", "--data", "dpo.jsonl", "--out", "out"],
        &["run", "recipe.toml", "--out", "out"],
        &["generate", "--model", "model", "--traces", traces, "--out", "out"],
        &["check-device", "model"],
        &[
            "build",
            "--traces",
            traces,
            "--contracts",
            traces,
            "--out",
            "out",
            "--writer",
            "local",
            "--writer-model",
            "model",
        ],
        &["sft", "recipe.toml", "--data", "sft.jsonl", "--out", "out", "--dry-run"],
    ];
    for command in commands {
        for (device, feature) in [("cuda:0", "cuda"), ("cuda:all", "cuda"), ("metal", "metal")] {
            let (status, _, stderr) = topalign(path, &[command, &["--device", device]].concat());
            assert_eq!(status, Some(2), "{command:?} {device}: {stderr}");
            let expected = format!("error: --device {device}: this program was built without the feature `{feature}`");
            assert!(stderr.contains(&expected), "{command:?}: {stderr}");
            assert!(stderr.contains("\nhint: ") && !stderr.contains("panicked"), "{stderr}");
            assert!(!path.join("out").exists(), "{command:?} wrote something");
        }
    }
}

#[test]
fn a_device_where_no_model_of_this_machine_computes_is_refused() {
    let folder = folder();
    let cases: [(&[&str], &str); 5] = [
        (&["session", "sessions.toml", "--device", "cpu"], "no model of this recipe runs on this machine"),
        (
            &["build", "--traces", "t", "--contracts", "c", "--out", "out", "--device", "cpu"],
            "no model of this machine writes",
        ),
        (
            &[
                "generate",
                "--endpoint",
                "http://127.0.0.1:9",
                "--endpoint-model",
                "m",
                "--traces",
                "t",
                "--out",
                "o",
                "--device",
                "cpu",
            ],
            "--device",
        ),
        (
            &["evaluate", "--completions", "c", "--traces", "t", "--contracts", "c", "--out", "o", "--device", "cpu"],
            "--verifier-local",
        ),
        (&["sft", "recipe.toml", "--device", "gpu"], "cuda:all"),
    ];
    for (command, expected) in cases {
        let (status, _, stderr) = topalign(folder.path(), command);
        assert_eq!(status, Some(2), "{command:?}: {stderr}");
        assert!(stderr.contains(expected), "{command:?}: {stderr}");
    }
}

#[test]
fn auto_trains_on_this_machine_and_the_manifest_says_where_and_in_which_format() {
    let folder = folder();
    for (format, set) in [("f32", "model.dtype=f32"), ("bf16", "model.dtype=bf16")] {
        let out = format!("out-{format}");
        let arguments =
            ["sft", "recipe.toml", "--data", "sft.jsonl", "--out", &out, "--device", "auto", "--set", set, "--json"];
        let (status, stdout, stderr) = topalign(folder.path(), &arguments);
        assert_eq!(status, Some(0), "{stderr}");
        let manifest: serde_json::Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!(manifest["dtype"], format);
        let device = manifest["device"].as_str().unwrap();
        assert!(["cpu", "cuda:0", "metal:0"].contains(&device), "{device}");
        assert_eq!(stderr.contains("bf16 on the CPU"), format == "bf16" && device == "cpu", "{stderr}");
    }
}

#[test]
fn the_operations_of_gpus_are_checked_against_those_of_the_cpu_by_a_command() {
    let folder = folder();
    for dtype in ["f32", "bf16"] {
        let arguments = ["check-device", "model", "--device", "cpu", "--tokens", "120", "--dtype", dtype, "--json"];
        let (status, stdout, stderr) = topalign(folder.path(), &arguments);
        assert_eq!(status, Some(0), "{stdout}{stderr}");
        let parity: serde_json::Value = serde_json::from_str(&stdout).unwrap();
        let rows = parity["differences"].as_array().unwrap();
        let quantities: Vec<&str> = rows.iter().map(|row| row["quantity"].as_str().unwrap()).collect();
        let expected = [
            "logits",
            "logits of decoding",
            "log-probabilities",
            "loss",
            "gradients of all weights",
            "gradients of adapters",
        ];
        assert_eq!(quantities, expected);
        // Two ways to the same values, and no comparison of a thing with itself.
        let apart: Vec<f64> = rows.iter().map(|row| row["relative"].as_f64().unwrap()).collect();
        let bound = if dtype == "f32" { 1e-5 } else { 1e-1 };
        assert!(apart.iter().all(|apart| *apart < bound) && apart[4] > 0.0 && apart[5] > 0.0, "{dtype}: {apart:?}");
    }
    let (status, _, stderr) =
        topalign(folder.path(), &["check-device", "model", "--device", "cpu", "--tokens", "4000"]);
    assert_eq!(status, Some(2), "{stderr}");
    assert!(stderr.contains("longer than the model's context") && stderr.contains("lower --tokens"), "{stderr}");
}
