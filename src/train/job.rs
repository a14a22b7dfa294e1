//! One training run from rows to `final/`: what `topalign sft`, `topalign dpo` and `topalign run` call.
//!
//! Everything that can be wrong with the inputs is found before the run folder is touched.

use std::collections::BTreeMap;
use std::path::Path;

use candle_core::Device;

use super::batch::TOKENS_PER_PASS;
use super::manifest::RunManifest;
use super::objective::{Preference, Supervised};
use super::rows::{encode_dpo, encode_sft};
use super::session::Session;
use crate::dataset::{PreferencePair, SftRow};
use crate::error::Result;
use crate::loss::PreferenceObjective;
use crate::model::with_big_stack;
use crate::recipe::settings::{BaseStorage, DpoSettings, LoraSettings, SftSettings};
use crate::run::interrupt;
use crate::run::seed::Seed;

/// What SFT and DPO runs have in common.
#[derive(Clone)]
pub struct Job<'a> {
    /// Model folder, `.gguf` file or adapter folder (which is merged into its base first).
    pub model: &'a Path,
    /// How the model is named in cards and in the adapter's configuration: a hub id, or the path as the user gave it.
    pub model_name: &'a str,
    /// Adapters; `None` trains every weight.
    pub lora: Option<&'a LoraSettings>,
    /// How the base under adapters is held.
    pub base_storage: BaseStorage,
    /// Seed of the run.
    pub seed: Seed,
    /// Where to compute.
    pub device: &'a Device,
    /// The run folder.
    pub out: &'a Path,
    /// Whether to continue from the newest checkpoint.
    pub start: Start,
    /// Digests of the inputs by name, for the manifest.
    pub inputs: BTreeMap<String, String>,
    /// Digest of the resolved recipe, where there is one.
    pub recipe_digest: Option<String>,
    /// Tokens of one forward and backward pass; bounds memory.
    pub tokens_per_pass: usize,
    /// Asked before every step; `true` saves a checkpoint and ends the run as interrupted.
    pub stop: &'a (dyn Fn() -> bool + Sync),
}

/// How a run begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// From the model; checkpoints of an earlier run in the folder are removed.
    Fresh,
    /// From the newest whole checkpoint, or from the model if there is none.
    Resume,
}

impl<'a> Job<'a> {
    /// A job with the defaults: every weight trained, on the CPU, from the start, stopped by Ctrl-C.
    pub fn new(model: &'a Path, model_name: &'a str, out: &'a Path, seed: Seed) -> Self {
        Self {
            model,
            model_name,
            lora: None,
            base_storage: BaseStorage::F32,
            seed,
            device: &Device::Cpu,
            out,
            start: Start::Fresh,
            inputs: BTreeMap::new(),
            recipe_digest: None,
            tokens_per_pass: TOKENS_PER_PASS,
            stop: &interrupt::requested,
        }
    }
}

/// Supervised fine-tuning: trains on the last message of each row and returns the finished run's manifest.
///
/// # Errors
/// A [`crate::error::Fault`] for rows, model or checkpoint that cannot be used; [`crate::error::Error::Interrupted`] with a
/// checkpoint saved; [`crate::error::Error::Failed`] naming the rows of a loss or gradient that is not finite.
pub fn sft(job: &Job<'_>, rows: &[SftRow], settings: &SftSettings) -> Result<RunManifest> {
    with_big_stack(|| {
        let session = Session::begin(job, "sft", &settings.train, settings, |tokenizer, limit| {
            encode_sft(rows, tokenizer, limit)
        })?;
        let objective = Supervised { trees: session.trees() };
        session.train(&objective, None)
    })
}

/// Direct preference optimisation against the model as it was at the start.
///
/// The reference is `job.model` as given: its log-probabilities are computed before the first step. To continue from SFT with
/// adapters, give the SFT run's `final/` as the model: it is merged into its base, a fresh adapter starts on the result, and
/// so the reference is the SFT policy and not the base. The merged weights are kept in the run's `base/`, which the new
/// adapter names as its base.
///
/// # Errors
/// As [`sft`].
pub fn dpo(job: &Job<'_>, pairs: &[PreferencePair], settings: &DpoSettings) -> Result<RunManifest> {
    with_big_stack(|| {
        let session = Session::begin(job, "dpo", &settings.train, settings, |tokenizer, limit| {
            encode_dpo(pairs, tokenizer, limit)
        })?;
        let (reference, seconds) = session.reference()?;
        let objective = Preference {
            trees: session.trees(),
            kinds: session.kinds(),
            reference: &reference,
            objective: PreferenceObjective::from(settings),
        };
        session.train(&objective, Some(seconds))
    })
}
