//! Checkpoints on disk: whole or not at all, and what happens to damaged ones.

use std::collections::BTreeMap;
use std::path::Path;

use candle_core::{Device, Tensor};
use topalign::checkpoint::{self, TrainingState};
use topalign::run::seed::Seed;

fn state(step: usize) -> TrainingState {
    TrainingState { step, epoch: 1, position: 4, tokens: 77, seed: Seed(5), run_digest: "r".to_owned() }
}

fn tensors(value: f32) -> BTreeMap<String, Tensor> {
    BTreeMap::from([("w".to_owned(), Tensor::new(&[[value, 2.0], [3.0, 4.0]], &Device::Cpu).unwrap())])
}

fn save(folder: &Path, step: usize) {
    checkpoint::save(folder, &state(step), &tensors(step as f32), &tensors(-1.0)).unwrap();
}

fn damage(path: &Path, how: fn(Vec<u8>) -> Vec<u8>) {
    let bytes = std::fs::read(path).unwrap();
    std::fs::write(path, how(bytes)).unwrap();
}

#[test]
fn a_checkpoint_reads_back_as_it_was_written() {
    let folder = tempfile::tempdir().unwrap();
    save(folder.path(), 3);
    let found = checkpoint::latest(folder.path(), &Device::Cpu).unwrap();
    assert!(found.skipped.is_empty());
    let found = found.checkpoint.unwrap();
    assert_eq!(found.state, state(3));
    assert_eq!(found.trainable["w"].to_vec2::<f32>().unwrap(), [[3.0, 2.0], [3.0, 4.0]]);
    assert_eq!(found.optimizer["w"].to_vec2::<f32>().unwrap()[0][0], -1.0);
}

#[test]
fn the_newest_checkpoint_is_the_one_with_the_most_steps() {
    let folder = tempfile::tempdir().unwrap();
    for step in [9, 10, 100] {
        save(folder.path(), step);
    }
    std::fs::create_dir(folder.path().join("checkpoint-best")).unwrap();
    checkpoint::prune(folder.path(), 2).unwrap();
    assert!(!folder.path().join("checkpoint-9").exists() && folder.path().join("checkpoint-best").exists());
    let found = checkpoint::latest(folder.path(), &Device::Cpu).unwrap();
    assert_eq!(found.checkpoint.unwrap().state.step, 100);
}

#[test]
fn a_damaged_checkpoint_is_named_and_the_last_good_one_is_used() {
    let cut: fn(Vec<u8>) -> Vec<u8> = |bytes| bytes[..bytes.len() / 2].to_vec();
    let flip: fn(Vec<u8>) -> Vec<u8> = |mut bytes| {
        *bytes.last_mut().unwrap() ^= 1;
        bytes
    };
    for (file, how) in [
        ("trainable.safetensors", cut),
        ("trainable.safetensors", flip),
        ("optimizer.safetensors", cut),
        ("state.json", cut),
        ("state.json", |_| Vec::new()),
    ] {
        let folder = tempfile::tempdir().unwrap();
        save(folder.path(), 1);
        save(folder.path(), 2);
        damage(&folder.path().join("checkpoint-2").join(file), how);
        let found = checkpoint::latest(folder.path(), &Device::Cpu).unwrap();
        assert_eq!(found.checkpoint.unwrap().state.step, 1, "{file}");
        assert_eq!(found.skipped.len(), 1);
        assert!(found.skipped[0].1.contains(file), "{:?}", found.skipped);

        damage(&folder.path().join("checkpoint-1").join(file), how);
        let error = checkpoint::latest(folder.path(), &Device::Cpu).unwrap_err();
        assert_eq!((error.exit_status(), error.hints().len()), (2, 2), "{error}");
    }
}

#[test]
fn an_empty_or_absent_folder_has_nothing_to_resume_and_that_is_no_error() {
    let folder = tempfile::tempdir().unwrap();
    for path in [folder.path().to_path_buf(), folder.path().join("absent")] {
        assert!(checkpoint::latest(&path, &Device::Cpu).unwrap().checkpoint.is_none());
    }
}

#[test]
fn saving_the_same_step_twice_replaces_it_and_leaves_no_temporary_folder() {
    let folder = tempfile::tempdir().unwrap();
    save(folder.path(), 1);
    save(folder.path(), 1);
    let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["checkpoint-1"]);
}
