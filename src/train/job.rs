//! One training run from rows to `final/`: what `topalign sft`, `topalign dpo` and `topalign run` call.
//!
//! Everything that can be wrong with the inputs is found before the run folder is touched.

use std::collections::BTreeMap;
use std::path::Path;

use super::batch::{TOKENS_PER_PASS, tokens_per_pass};
use super::manifest::RunManifest;
use super::objective::{Objective, Supervised};
use super::plan::{ForwardPasses, Plan};
use super::preferences;
use super::resolved::ResolvedRecipe;
use super::rows::{encode_dpo, encode_sft, encode_unpaired};
use super::session::{Inputs, Session};
use crate::dataset::{PreferencePair, SftRow};
use crate::device::Compute;
use crate::error::Result;
use crate::model::with_big_stack;
use crate::rank::{Alone, Group};
use crate::recipe::settings::{BaseStorage, DpoSettings, LoraSettings, SftSettings};
use crate::run::interrupt;
use crate::run::seed::Seed;

/// The name of the model among a job's inputs; all others are data.
pub const MODEL_INPUT: &str = "model";

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
    /// Where to compute, and in which number format.
    pub compute: Compute,
    /// The run folder.
    pub out: &'a Path,
    /// Whether to continue from the newest checkpoint.
    pub start: Start,
    /// Digests of the inputs by name, for the manifest.
    pub inputs: BTreeMap<String, String>,
    /// The recipe that started the run, where there is one.
    pub recipe: Option<ResolvedRecipe>,
    /// Tokens of one forward and backward pass; bounds memory.
    pub tokens_per_pass: usize,
    /// The processes that train together. All see the same model, rows and run folder; the first one writes.
    pub group: &'a dyn Group,
    /// Asked before every step, of every rank; `true` saves a checkpoint and ends the run as interrupted.
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
    /// A job with the defaults: every weight trained, on the CPU, alone, from the start, stopped by Ctrl-C.
    pub fn new(model: &'a Path, model_name: &'a str, out: &'a Path, seed: Seed) -> Self {
        Self {
            model,
            model_name,
            lora: None,
            base_storage: BaseStorage::F32,
            seed,
            compute: Compute::cpu(),
            out,
            start: Start::Fresh,
            inputs: BTreeMap::new(),
            recipe: None,
            tokens_per_pass: TOKENS_PER_PASS,
            group: &Alone,
            stop: &interrupt::requested,
        }
    }

    /// The same job elsewhere, with passes of the size that is usual there.
    #[must_use]
    pub fn on(self, compute: Compute) -> Self {
        Self { tokens_per_pass: tokens_per_pass(&compute.device), compute, ..self }
    }
}

/// Rows to train on, and rows that are only evaluated on.
#[derive(Debug)]
pub struct Rows<'a, T> {
    /// To train on.
    pub train: &'a [T],
    /// To evaluate on while training; may be empty.
    pub held_out: &'a [T],
}

impl<T> Clone for Rows<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Rows<'_, T> {}

impl<'a, T> From<&'a Vec<T>> for Rows<'a, T> {
    fn from(train: &'a Vec<T>) -> Self {
        Self { train, held_out: &[] }
    }
}

impl<'a, T> From<&'a [T]> for Rows<'a, T> {
    fn from(train: &'a [T]) -> Self {
        Self { train, held_out: &[] }
    }
}

/// Supervised fine-tuning: trains on the last message of each row and returns the finished run's manifest.
///
/// # Errors
/// A [`crate::error::Fault`] for rows, model or checkpoint that cannot be used; [`crate::error::Error::Interrupted`] with a
/// checkpoint saved; [`crate::error::Error::Failed`] naming the rows of a loss or gradient that is not finite.
pub fn sft<'a>(job: &Job<'_>, rows: impl Into<Rows<'a, SftRow>>, settings: &SftSettings) -> Result<RunManifest> {
    let rows = rows.into();
    with_big_stack(|| {
        let session = open_sft(job, rows, settings)?;
        session.prepare()?;
        let objective = Supervised { trees: session.trees() };
        let held_out = session.held_out().map(|encoded| Supervised { trees: &encoded.trees });
        session.train(&objective, held_out.as_ref().map(|held_out| held_out as &dyn Objective), None)
    })
}

/// Preference optimisation against the model as it was at the start, or without reference where the loss needs none.
///
/// The reference is `job.model` as given: its log-probabilities are computed before the first step. To continue from SFT with
/// adapters, give the SFT run's `final/` as the model: it is merged into its base, a fresh adapter starts on the result, and
/// so the reference is the SFT policy and not the base. The merged weights are kept in the run's `base/`, which the new
/// adapter names as its base.
///
/// # Errors
/// As [`sft`].
pub fn dpo<'a>(
    job: &Job<'_>,
    rows: impl Into<Rows<'a, PreferencePair>>,
    settings: &DpoSettings,
) -> Result<RunManifest> {
    let rows = rows.into();
    with_big_stack(|| {
        let session = open_dpo(job, rows, settings)?;
        session.prepare()?;
        preferences::train(&session, settings)
    })
}

/// What [`sft`] would do, computed without writing anything.
///
/// # Errors
/// As [`sft`].
pub fn plan_sft<'a>(job: &Job<'_>, rows: impl Into<Rows<'a, SftRow>>, settings: &SftSettings) -> Result<Plan> {
    let rows = rows.into();
    with_big_stack(|| open_sft(job, rows, settings)?.plan(ForwardPasses::none()))
}

/// What [`dpo`] would do, computed without writing anything.
///
/// # Errors
/// As [`dpo`].
pub fn plan_dpo<'a>(job: &Job<'_>, rows: impl Into<Rows<'a, PreferencePair>>, settings: &DpoSettings) -> Result<Plan> {
    let rows = rows.into();
    with_big_stack(|| open_dpo(job, rows, settings)?.plan(ForwardPasses::of(settings.loss)))
}

fn open_sft<'a>(job: &'a Job<'a>, rows: Rows<'_, SftRow>, settings: &'a SftSettings) -> Result<Session<'a>> {
    let inputs = Inputs { job, stage: "sft", settings: &settings.train, extra: None };
    Session::open(inputs, settings, |tokenizer, limit| {
        let encode = |rows: &[SftRow]| encode_sft(rows, tokenizer, limit);
        Ok((encode(rows.train)?, some_if(!rows.held_out.is_empty(), || encode(rows.held_out))?))
    })
}

fn open_dpo<'a>(job: &'a Job<'a>, rows: Rows<'_, PreferencePair>, settings: &'a DpoSettings) -> Result<Session<'a>> {
    let is_paired = settings.loss.is_paired();
    // What KTO's baseline reads is made of the rows; it is named so that a cached reference is told apart.
    let extra = (!is_paired).then_some("mismatched");
    let inputs = Inputs { job, stage: "dpo", settings: &settings.train, extra };
    Session::open(inputs, settings, |tokenizer, limit| {
        let encode = |rows: &[PreferencePair]| {
            let encode = if is_paired { encode_dpo } else { encode_unpaired };
            let rows: Vec<PreferencePair> = rows.iter().filter(|row| settings.takes(row.kind)).cloned().collect();
            let encoded = encode(&rows, tokenizer, limit)?;
            if settings.kind_weights.is_some() {
                encoded.check_kinds()?;
            }
            Ok(encoded)
        };
        Ok((encode(rows.train)?, some_if(!rows.held_out.is_empty(), || encode(rows.held_out))?))
    })
}

fn some_if<T>(is_wanted: bool, make: impl FnOnce() -> Result<T>) -> Result<Option<T>> {
    if is_wanted { make().map(Some) } else { Ok(None) }
}
