//! `topalign run`: the whole path from traces to a page, stage by stage, each skipped when complete for the same digests.
//!
//! In: a resolved recipe and a run folder. Out: in that folder `traces.jsonl`, `contracts.jsonl`, `split/`, `data/`, `sft/`,
//! `dpo/`, `completions/`, `evaluation/`, `report.html`, and `stages.json`, the record of what was made from what.

mod ablation;
mod answering;
mod asking;
mod data;
mod model;
mod stage;
mod systems;
mod writing;

use std::path::{Path, PathBuf};

use candle_core::Device;
use serde::{Serialize, Serializer};

use crate::device::{Compute, NumberFormat};
use crate::error::{Error, Result};
use crate::rank::Group;
use crate::recipe::Recipe;
use crate::train::ResolvedRecipe;
pub use ablation::ablate;
pub use asking::{Asked, Asking, Judged};
pub use stage::{Record, Stages};
pub use writing::WritingModel;

/// What the caller of a pipeline decides.
pub struct Options<'a> {
    /// The run folder.
    pub folder: &'a Path,
    /// Stages to redo even if complete.
    pub force: &'a [String],
    /// Where models compute; the recipe says in which number format.
    pub device: &'a Device,
    /// Told when a stage starts, ends or is skipped.
    pub announce: fn(&str),
    /// The processes that train and answer together; the first one does all else and writes.
    pub group: &'a dyn Group,
}

/// The names of all stages, in order.
pub const STAGES: [&str; 10] =
    ["traces", "contracts", "split", "build", "base", "sft", "dpo", "generate", "evaluate", "report"];

/// One run under way.
struct Pipeline<'a> {
    recipe: &'a Recipe,
    folder: PathBuf,
    stages: Stages,
    announce: fn(&str),
    group: &'a dyn Group,
    compute: Compute,
}

/// What a run leaves, for the command to print.
#[derive(Debug, Serialize)]
pub struct Outcome {
    /// The run folder.
    pub folder: PathBuf,
    /// Wall time of every stage, in seconds, as recorded when it last ran.
    pub stage_seconds: std::collections::BTreeMap<String, f64>,
    /// Peak memory of this process in bytes, where the system tells.
    pub peak_memory_bytes: Option<u64>,
    /// The evaluation.
    pub summary: crate::evaluate::Summary,
}

/// Runs every stage that is not complete.
///
/// # Errors
/// Whatever a stage returns; what earlier stages left stays, and the next run goes on from there.
pub fn run(recipe: &Recipe, options: &Options<'_>) -> Result<Outcome> {
    let folder = options.folder.to_path_buf();
    if options.group.is_first() {
        ResolvedRecipe::new(recipe, &[])?.write(&folder)?;
    }
    let stages = Stages::open(&folder, options.force, options.announce);
    let compute = Compute { device: options.device.clone(), format: recipe.model.dtype };
    let mut pipeline = Pipeline { recipe, folder, stages, announce: options.announce, group: options.group, compute };
    pipeline.share_records()?;
    pipeline.data()?;
    pipeline.models()?;
    pipeline.completions()?;
    pipeline.evaluation()?;
    let summary = pipeline.summary()?;
    let stage_seconds = pipeline.stages.records().iter().map(|(name, record)| (name.clone(), record.seconds)).collect();
    let peak_memory_bytes = crate::train::peak_memory_bytes();
    Ok(Outcome { folder: pipeline.folder, stage_seconds, peak_memory_bytes, summary })
}

/// Inputs of a stage that computes with a model. The usual number format leaves no trace, so that stages which were complete
/// before there was a choice stay complete.
struct Computed<T>(NumberFormat, T);

impl<T: Serialize> Serialize for Computed<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        match self.0 {
            NumberFormat::F32 => self.1.serialize(serializer),
            format @ NumberFormat::Bf16 => (format, &self.1).serialize(serializer),
        }
    }
}

impl Pipeline<'_> {
    fn computed<T>(&self, inputs: T) -> Computed<T> {
        Computed(self.compute.format, inputs)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// A stage that the first rank does while the others wait.
    fn stage(
        &mut self,
        name: &str,
        inputs: &impl Serialize,
        outputs: &[&str],
        work: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        if self.group.is_first() {
            self.stages.run(name, inputs, outputs, work)?;
        }
        self.share_records()
    }

    /// A stage that all ranks do together: the first one says whether it is due, and records it.
    fn stage_of_all(
        &mut self,
        forced: bool,
        name: &str,
        inputs: &impl Serialize,
        outputs: &[&str],
        work: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        if self.group.is_alone() {
            return self.stages.run_forced(forced, name, inputs, outputs, work);
        }
        let is_due = self.group.from_first(|| self.stages.is_due(forced, name, inputs, outputs))?;
        if self.group.is_first() {
            self.stages.run_forced(forced, name, inputs, outputs, work)?;
        } else if is_due {
            work()?;
        }
        self.share_records()
    }

    /// Tells all ranks what the first one has on record.
    fn share_records(&mut self) -> Result<()> {
        if !self.group.is_alone() {
            let records = self.group.from_first(|| Ok(self.stages.records().clone()))?;
            self.stages.replace_records(records);
        }
        Ok(())
    }

    /// Digests of what an earlier stage left.
    fn made_by(&self, stage: &str) -> Result<std::collections::BTreeMap<String, String>> {
        let outputs = self.stages.output(stage).cloned();
        outputs.ok_or_else(|| Error::Failed(format!("stage `{stage}` left no record")))
    }
}
