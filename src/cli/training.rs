//! What `topalign sft` and `topalign dpo` share: a recipe, overrides of its inputs, and the finished run in words.

use std::path::{Path, PathBuf};

use super::Console;
use crate::device::{Compute, DeviceChoice};
use crate::error::{Error, Fault, Result};
use crate::model::{LocalModel, ModelSource};
use crate::rank::Group;
use crate::recipe::{Recipe, SCRATCH};
use crate::run::digest;
use crate::train::{Job, MODEL_INPUT, ResolvedRecipe, RunManifest, Start};

/// Arguments of a training command.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The recipe (TOML); its `[model]` and `[sft]` or `[dpo]` sections apply.
    recipe: PathBuf,
    /// Rows to train on.
    #[arg(long)]
    data: Option<PathBuf>,
    /// Rows to evaluate on while training (`evaluate_every`); none of them may be trained on.
    #[arg(long, value_name = "FILE")]
    held_out: Option<PathBuf>,
    /// Model folder, .gguf file, adapter folder or hub id, in place of the recipe's.
    #[arg(long)]
    model: Option<String>,
    /// Run folder.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Continue from the newest checkpoint in the run folder.
    #[arg(long)]
    resume: bool,
    /// Where to compute: auto, cpu, cuda:0 (or another number), cuda:all, metal [default: cpu].
    #[arg(long, value_name = "DEVICE")]
    device: Option<DeviceChoice>,
    /// Print rows, tokens, examples and what memory and time the run would take; write nothing.
    #[arg(long, conflicts_with = "resume")]
    dry_run: bool,
    /// Override a key of the recipe, e.g. `sft.epochs=2`.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    overrides: Vec<String>,
}

/// One training command, resolved.
pub struct Training {
    /// The recipe.
    pub recipe: Recipe,
    /// Rows to train on.
    pub data: PathBuf,
    held_out: Option<PathBuf>,
    out: PathBuf,
    model: LocalModel,
    model_name: String,
    start: Start,
    compute: Compute,
}

impl Arguments {
    /// Whether only the plan is asked for.
    pub fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    /// Resolves recipe and inputs; what is not given comes from the run folder that `topalign run` makes.
    ///
    /// # Errors
    /// An invalid recipe, or inputs that are not there.
    pub fn resolve(&self, stage: &str, rank: usize) -> Result<Training> {
        let recipe = Recipe::load(&self.recipe, &self.overrides)?;
        let run = Path::new("runs").join(&recipe.name);
        let data = self.data.clone().unwrap_or_else(|| run.join("data").join(format!("{stage}.jsonl")));
        if !data.is_file() {
            return Err(Fault::new("no rows to train on")
                .at(data.display())
                .hint("give --data FILE, or build them first with `topalign run` or `topalign build`")
                .into());
        }
        if let Some(held_out) = self.held_out.as_ref().filter(|file| !file.is_file()) {
            return Err(Fault::new("no held-out rows").at(held_out.display()).into());
        }
        let model_name = match &self.model {
            Some(model) => model.clone(),
            None if recipe.model.source == SCRATCH => run.join("base").display().to_string(),
            None => recipe.model.source.clone(),
        };
        let model = ModelSource::parse(&model_name)?.resolve()?;
        // What is saved of the recipe, and its digest, are those of the run that was made.
        let recipe = match &self.model {
            Some(given) => recipe.on_model(given),
            None => recipe,
        };
        let out = self.out.clone().unwrap_or_else(|| run.join(stage));
        let start = if self.resume { Start::Resume } else { Start::Fresh };
        let held_out = self.held_out.clone();
        let compute = Compute::open(self.device, recipe.model.dtype, rank)?;
        Ok(Training { recipe, data, held_out, out, model, model_name, start, compute })
    }
}

impl Training {
    /// Rows to train on and held-out rows, which may be none.
    ///
    /// # Errors
    /// Unreadable rows.
    pub fn rows<T>(&self, read: impl Fn(&Path) -> Result<Vec<T>>) -> Result<(Vec<T>, Vec<T>)> {
        let held_out = self.held_out.as_deref().map(&read).transpose()?;
        Ok((read(&self.data)?, held_out.unwrap_or_default()))
    }

    /// The job.
    ///
    /// # Errors
    /// Unreadable rows or model files.
    pub fn job(&self) -> Result<Job<'_>> {
        let seed = self.recipe.training_seed();
        let mut job = Job::new(&self.model.path, &self.model_name, &self.out, seed).on(self.compute.clone());
        job.lora = self.recipe.model.lora.as_ref();
        job.base_storage = self.recipe.model.base_storage;
        job.start = self.start;
        job.inputs.insert(MODEL_INPUT.to_owned(), self.model.digest()?);
        job.inputs.insert("data".to_owned(), digest::of_file(&self.data)?);
        if let Some(held_out) = &self.held_out {
            job.inputs.insert("held_out".to_owned(), digest::of_file(held_out)?);
        }
        job.recipe = Some(ResolvedRecipe::new(&self.recipe, &self.given())?);
        Ok(job)
    }

    /// What the command was given beside the recipe, and what stood for it where it was not.
    fn given(&self) -> Vec<(&'static str, &Path)> {
        let mut given = vec![("rows", self.data.as_path()), ("run folder", self.out.as_path())];
        given.extend(self.held_out.as_deref().map(|held_out| ("held-out rows", held_out)));
        given
    }

    /// Prints the manifest; the first rank does.
    ///
    /// # Errors
    /// A manifest without a JSON form, or an output that cannot be written to.
    pub fn finish(&self, manifest: &RunManifest, console: Console, group: &dyn Group) -> Result<()> {
        if !group.is_first() {
            return Ok(());
        }
        let text = serde_json::to_string_pretty(manifest).map_err(|error| Error::Failed(error.to_string()))?;
        console.print(manifest, &format!("{text}\n-> {}", self.out.join("final").display()))
    }
}
