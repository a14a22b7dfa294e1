//! The base model, SFT, DPO.
//!
//! With adapters, the SFT adapter is merged into its base (`sft/merged`) before DPO starts a fresh one: so the reference of
//! DPO is the SFT policy, and `dpo/final` names a base that exists.

use std::path::{Path, PathBuf};

use candle_core::DType;

use super::Pipeline;
use super::data::{DATA, HELD_OUT_DATA};
use crate::checkpoint;
use crate::dataset::{read_preferences, read_sft};
use crate::error::Result;
use crate::model::ModelSource;
use crate::rank::Group;
use crate::recipe::Recipe;
use crate::run::{atomic, digest};
use crate::scratch;
use crate::train::{self, Job, MODEL_INPUT, ResolvedRecipe, Rows, Start};

const BASE: &str = "base";
/// Holds the digest of the inputs that a training stage was started with.
const MARK: &str = "inputs.sha256";

/// A trained or given model: the folder or file that loads, and what its content is told by.
pub(super) struct Made {
    pub(super) path: PathBuf,
    /// How the user knows it.
    pub(super) name: String,
    /// The stage that made it, or a digest for a model that was given.
    pub(super) digest: String,
}

impl Pipeline<'_> {
    pub(super) fn models(&mut self) -> Result<()> {
        self.make_base()?;
        self.train_sft()?;
        self.train_dpo()
    }

    /// A randomly initialised model, where the recipe asks for one.
    fn make_base(&mut self) -> Result<()> {
        let Some(shape) = self.recipe.model.scratch.clone() else { return Ok(()) };
        let inputs = (self.made_by("build")?, &shape, self.recipe.seed);
        let (out, rows, seed) = (self.path(BASE), self.path(DATA).join("sft.jsonl"), self.recipe.seed);
        self.stage("base", &inputs, &[BASE], || {
            let rows = read_sft(&rows)?;
            let texts: Vec<String> = rows.into_iter().flat_map(|row| row.messages).map(|turn| turn.content).collect();
            scratch::write(&out, &texts, &shape, seed)
        })
    }

    pub(super) fn base(&self) -> Result<Made> {
        if self.recipe.model.scratch.is_some() {
            let digest = digest::of_value(&self.made_by("base")?)?;
            return Ok(Made { path: self.path(BASE), name: "scratch".to_owned(), digest });
        }
        let source = &self.recipe.model.source;
        let model = ModelSource::parse(source)?.resolve()?;
        let digest = model.digest()?;
        Ok(Made { path: model.path, name: source.clone(), digest })
    }

    /// The SFT policy; the base where the recipe has no SFT.
    pub(super) fn sft(&self) -> Result<Made> {
        if self.recipe.sft.is_none() { self.base() } else { self.trained("sft") }
    }

    pub(super) fn trained(&self, stage: &str) -> Result<Made> {
        let folder = if self.recipe.model.lora.is_some() { "merged" } else { "final" };
        let path = self.path(stage).join(folder);
        let name = path.display().to_string();
        Ok(Made { path, name, digest: digest::of_value(&self.made_by(stage)?)? })
    }

    /// The held-out rows of this name, where training is evaluated on them.
    fn evaluation_rows(&self, name: &str, is_evaluated: bool) -> Option<PathBuf> {
        is_evaluated.then(|| self.path(HELD_OUT_DATA).join(name))
    }

    fn train_sft(&mut self) -> Result<()> {
        let Some(settings) = self.recipe.sft.clone() else { return Ok(()) };
        let base = self.base()?;
        let rows = self.path(DATA).join("sft.jsonl");
        let held_out = self.evaluation_rows("sft.jsonl", settings.train.evaluate_every.is_some());
        let inputs = (
            &base.digest,
            digest_rows(&rows, held_out.as_deref())?,
            &settings,
            &self.recipe.model.lora,
            self.recipe.training_seed(),
        );
        let inputs = self.computed(inputs);
        let lora = self.recipe.model.lora.as_ref();
        let (out, outputs) = (self.path("sft"), outputs("sft", lora.is_some()));
        let (mark, recipe, compute) = (digest::of_value(&inputs)?, self.recipe, self.compute.clone());
        let (force, group) = (self.stages.is_forced("sft"), self.group);
        self.stage_of_all(force, "sft", &inputs, &outputs, || {
            start_over_if(force, group, &out)?;
            let job = job(recipe, &base, (&out, group), &rows, &mark)?.on(compute);
            mark_if_first(group, &out, &mark)?;
            let held_out = held_out.as_deref().map(read_sft).transpose()?.unwrap_or_default();
            train::sft(&job, Rows { train: &read_sft(&rows)?, held_out: &held_out }, &settings)?;
            merge_if(lora.is_some() && group.is_first(), &base, &out)
        })
    }

    fn train_dpo(&mut self) -> Result<()> {
        let Some(settings) = self.recipe.dpo.clone() else { return Ok(()) };
        let base = self.sft()?;
        let pairs = self.path(DATA).join("dpo.jsonl");
        let held_out = self.evaluation_rows("dpo.jsonl", settings.train.evaluate_every.is_some());
        let inputs = (
            &base.digest,
            digest_rows(&pairs, held_out.as_deref())?,
            &settings,
            &self.recipe.model.lora,
            self.recipe.training_seed(),
        );
        let inputs = self.computed(inputs);
        let lora = self.recipe.model.lora.as_ref();
        let (out, outputs) = (self.path("dpo"), outputs("dpo", lora.is_some()));
        let (mark, recipe, compute) = (digest::of_value(&inputs)?, self.recipe, self.compute.clone());
        let (force, group) = (self.stages.is_forced("dpo"), self.group);
        self.stage_of_all(force, "dpo", &inputs, &outputs, || {
            start_over_if(force, group, &out)?;
            let job = job(recipe, &base, (&out, group), &pairs, &mark)?.on(compute);
            mark_if_first(group, &out, &mark)?;
            let held_out = held_out.as_deref().map(read_preferences).transpose()?.unwrap_or_default();
            train::dpo(&job, Rows { train: &read_preferences(&pairs)?, held_out: &held_out }, &settings)?;
            merge_if(lora.is_some() && group.is_first(), &base, &out)
        })
    }
}

/// A stage that is redone begins with nothing: what an earlier run of it left, whole or damaged, is removed by the first
/// rank. A folder without the mark is not the stage's, and the training says whether it may begin there.
fn start_over_if(is_forced: bool, group: &dyn Group, out: &Path) -> Result<()> {
    if !is_forced {
        return Ok(());
    }
    if group.is_first() && out.join(MARK).is_file() {
        atomic::remove_folder(out)?;
    }
    // No rank may look into a folder that is about to go.
    group.wait()
}

/// A job that resumes from the last checkpoint if an interrupted stage of the same inputs left one, and starts afresh
/// otherwise. The mark of the inputs stands beside the run folder while the stage is under way.
fn job<'job>(
    recipe: &'job Recipe,
    base: &'job Made,
    (out, group): (&'job Path, &'job dyn Group),
    rows: &Path,
    inputs: &str,
) -> Result<Job<'job>> {
    let mut job = Job::new(&base.path, &base.name, out, recipe.training_seed());
    job.group = group;
    job.lora = recipe.model.lora.as_ref();
    job.base_storage = recipe.model.base_storage;
    let mark = out.join(MARK);
    let is_same = std::fs::read_to_string(&mark).is_ok_and(|marked| marked == inputs);
    job.start = if is_same { Start::Resume } else { Start::Fresh };
    job.inputs.insert(MODEL_INPUT.to_owned(), base.digest.clone());
    job.inputs.insert("data".to_owned(), digest::of_file(rows)?);
    job.recipe = Some(ResolvedRecipe::new(recipe, &[])?);
    Ok(job)
}

fn mark_if_first(group: &dyn Group, out: &Path, mark: &str) -> Result<()> {
    if group.is_first() { atomic::write(&out.join(MARK), mark.as_bytes()) } else { Ok(()) }
}

/// Digest of the rows of a stage, the held-out ones included where there are some.
fn digest_rows(rows: &Path, held_out: Option<&Path>) -> Result<String> {
    let digest = digest::of_file(rows)?;
    match held_out {
        None => Ok(digest),
        Some(held_out) => digest::of_value(&(digest, digest::of_file(held_out)?)),
    }
}

fn outputs(stage: &'static str, has_adapter: bool) -> Vec<&'static str> {
    match (stage, has_adapter) {
        ("sft", true) => vec!["sft/final", "sft/merged", "sft/log.jsonl"],
        ("sft", false) => vec!["sft/final", "sft/log.jsonl"],
        (_, true) => vec!["dpo/final", "dpo/merged", "dpo/log.jsonl"],
        (_, false) => vec!["dpo/final", "dpo/log.jsonl"],
    }
}

fn merge_if(is_wanted: bool, base: &Made, out: &Path) -> Result<()> {
    if is_wanted {
        checkpoint::merge(&base.path, &base.name, Some(&out.join("final")), DType::F32, &out.join("merged"))?;
    }
    Ok(())
}
