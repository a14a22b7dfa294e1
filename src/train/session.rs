//! A run in progress: the opened model, the encoded rows, and the run folder's files around the loop.

use std::cell::Cell;
use std::collections::{BTreeMap, HashSet};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Instant;

use candle_core::{Device, Tensor};
use serde::Serialize;

use super::evaluation::Evaluation;
use super::job::{Job, MODEL_INPUT, Start};
use super::log::{StepRow, milliseconds, seconds_of};
use super::manifest::{DataCounts, MANIFEST, ParameterCounts, RunManifest, RunOutcome, RunStatus, peak_memory_bytes};
use super::objective::Objective;
use super::optimizer::DecayGroup;
use super::order::Order;
use super::out_of_memory;
use super::policy::{DecoderPolicy, Policy as _};
use super::progress::{Progress, message};
use super::record::write_trainer_state;
use super::reference::{read_cached, reference, write_cached};
use super::rows::Encoded;
use super::run_loop::{Loop, LoopOutcome, of_another_run};
use crate::checkpoint::{self, AdapterExport, CardContent, Checkpoint, ModelCard, ModelExport, SourceModel};
use crate::device::NumberFormat;
use crate::error::{Error, Fault, Result};
use crate::model::{Decoder, ModelConfig, Trainable};
use crate::recipe::settings::{Export, TrainSettings};
use crate::run::digest;
use crate::token::{ChatTokenizer, Tree};

/// What a session is opened with.
#[derive(Clone, Copy)]
pub(super) struct Inputs<'a> {
    pub(super) job: &'a Job<'a>,
    pub(super) stage: &'static str,
    pub(super) settings: &'a TrainSettings,
    /// What else the reference is computed for.
    pub(super) extra: Option<&'static str>,
}

/// See the module.
pub(super) struct Session<'a> {
    job: &'a Job<'a>,
    stage: &'static str,
    pub(super) settings: &'a TrainSettings,
    config: ModelConfig,
    pub(super) tokenizer: ChatTokenizer,
    generation_config: Option<serde_json::Value>,
    pub(super) policy: DecoderPolicy,
    pub(super) encoded: Encoded,
    held_out: Option<Encoded>,
    pub(super) order: Order,
    /// Tokens of the longest row that is accepted.
    pub(super) limit: usize,
    /// Digest of model and data: what the reference's log-probabilities depend on.
    reference_digest: String,
    run_digest: String,
    begun: Instant,
    started_at: String,
}

impl<'a> Session<'a> {
    /// Opens the model and encodes the rows. Nothing is written.
    pub(super) fn open(
        inputs: Inputs<'a>,
        all_settings: &impl Serialize,
        encode: impl FnOnce(&ChatTokenizer, usize) -> Result<(Encoded, Option<Encoded>)>,
    ) -> Result<Self> {
        let begun = Instant::now();
        let started_at = jiff::Timestamp::now().to_string();
        let Inputs { job, stage, settings, extra } = inputs;
        let source = SourceModel::open_as(job.model, &Device::Cpu, job.base_storage)?;
        let limit = settings.max_tokens.get().min(source.config.context);
        let (encoded, held_out) = encode(&source.tokenizer, limit)?;
        check_held_out(stage, settings, &encoded, held_out.as_ref())?;
        let mut reference_digest = digest::of_value(&(&source.digest()?, data_digest(&encoded)?))?;
        if held_out.is_some() || extra.is_some() {
            let held_out = held_out.as_ref().map(data_digest).transpose()?;
            reference_digest = digest::of_value(&(reference_digest, held_out, extra))?;
        }
        if job.compute.format != NumberFormat::default() {
            reference_digest = digest::of_value(&(reference_digest, job.compute.format))?;
        }
        let run_digest = digest::of_value(&(stage, all_settings, job.lora, job.seed, &reference_digest))?;
        job.group.agree("settings, rows and model", &run_digest)?;
        let trainable = job.lora.map_or(Trainable::Full, |lora| Trainable::Lora(lora.clone()));
        let SourceModel { config, weights, compact, tokenizer, generation_config } = source;
        let decoder = Decoder::on_base(config.clone(), weights, compact, &trainable, job.seed, &job.compute)
            .map_err(|error| out_of_memory::loading(error, &config, &job.compute))?
            .with_arithmetic(settings.arithmetic);
        if decoder.parameters().is_empty() {
            return Err(Fault::new("no parameter is trained").hint("name at least one of `target_modules`").into());
        }
        let order = Order::new(&encoded.trees, settings, job.seed);
        let memory_limit = settings.memory_limit_mib.map(|mebibytes| (mebibytes.get() as u64) << 20);
        let policy = DecoderPolicy::new(decoder).with_memory_limit(memory_limit);
        Ok(Self {
            job,
            stage,
            settings,
            config,
            tokenizer,
            generation_config,
            policy,
            encoded,
            held_out,
            order,
            limit,
            reference_digest,
            run_digest,
            begun,
            started_at,
        })
    }

    /// Makes the run folder ready; the first rank does it.
    pub(super) fn prepare(&self) -> Result<()> {
        if self.job.group.is_first() {
            self.check_checkpoints()?;
            prepare_folder(self.job)?;
            self.keep_merged_base()?;
            self.manifest(None).write(self.job.out)?;
            // Later than `started`: an earlier run's `complete` must not stand beside another recipe.
            self.job.recipe.as_ref().map_or(Ok(()), |recipe| recipe.write(self.job.out))?;
        }
        self.job.group.wait()
    }

    /// Refuses to resume another run while its folder is still as that run left it: manifest and recipe are replaced next.
    fn check_checkpoints(&self) -> Result<()> {
        if self.job.start == Start::Fresh {
            return Ok(());
        }
        let states = checkpoint::states(self.job.out)?;
        match states.last() {
            Some(newest) if states.iter().all(|state| state.run_digest != self.run_digest) => {
                Err(of_another_run(self.job.out, newest.step).into())
            }
            _ => Ok(()),
        }
    }

    /// What is trained on.
    pub(super) fn trees(&self) -> &[Tree] {
        &self.encoded.trees
    }

    /// What is evaluated on.
    pub(super) fn held_out(&self) -> Option<&Encoded> {
        self.held_out.as_ref()
    }

    /// Tokens of one pass.
    pub(super) fn tokens_per_pass(&self) -> usize {
        self.settings.tokens_per_pass.map_or(self.job.tokens_per_pass, NonZeroUsize::get)
    }

    /// The reference's log-probabilities of these trees, from the cache where it is of the same model and data, and the
    /// seconds it took.
    pub(super) fn reference(&self, trees: &[Tree]) -> Result<(Vec<Vec<f32>>, f64)> {
        let begun = Instant::now();
        let seconds = || begun.elapsed().as_secs_f64();
        let group = self.job.group;
        if let Some(values) = group.from_first(|| Ok(read_cached(self.job.out, &self.reference_digest, trees)))? {
            return Ok((values, seconds()));
        }
        let progress = Progress::new("reference", trees.len().div_ceil(group.size()), group);
        let values = reference(&self.policy, trees, group, |done| {
            progress.at(done, String::new());
            if (self.job.stop)() { Err(Error::Interrupted) } else { Ok(()) }
        })?;
        if group.is_first() {
            write_cached(self.job.out, &self.reference_digest, &values)?;
        }
        Ok((values, seconds()))
    }

    /// Runs the loop, exports the result and completes the manifest.
    pub(super) fn train(
        &self,
        objective: &dyn Objective,
        held_out: Option<&dyn Objective>,
        reference_seconds: Option<f64>,
    ) -> Result<RunManifest> {
        let checkpoint = self.checkpoint()?;
        let resumed_from = checkpoint.as_ref().map(|checkpoint| checkpoint.state.step);
        let outcome = self.run_loop(objective, held_out, checkpoint.as_ref())?;
        drop(checkpoint);
        let manifest = RunManifest {
            status: RunStatus::Complete,
            resumed_from,
            ..self.manifest(Some(self.outcome(&outcome, resumed_from, reference_seconds)))
        };
        if self.job.group.is_first() {
            if self.settings.export == Export::Best {
                self.restore_best(&outcome)?;
            }
            self.export(&outcome.log)?;
            write_trainer_state(self.job.out, &self.order, self.settings, &outcome.log)?;
            manifest.write(self.job.out)?;
        }
        self.job.group.wait()?;
        Ok(manifest)
    }

    fn run_loop(
        &self,
        objective: &dyn Objective,
        held_out: Option<&dyn Objective>,
        checkpoint: Option<&Checkpoint>,
    ) -> Result<LoopOutcome> {
        let progress = Progress::new(self.stage, self.order.steps(), self.job.group);
        let before = Cell::new(checkpoint.map_or(0, |checkpoint| checkpoint.state.tokens));
        let evaluation = held_out.zip(self.held_out.as_ref()).map(|(objective, encoded)| Evaluation {
            objective,
            trees: &encoded.trees,
            every: self.settings.evaluate_every,
            patience: self.settings.patience,
        });
        Loop {
            policy: &self.policy,
            objective,
            trees: self.trees(),
            order: self.order.clone(),
            settings: self.settings,
            evaluation,
            tokens_per_pass: self.tokens_per_pass(),
            folder: self.job.out,
            group: self.job.group,
            run_digest: &self.run_digest,
            stop: self.job.stop,
            on_step: &|row| {
                let tokens = row.num_tokens - before.replace(row.num_tokens);
                if self.job.group.is_first() {
                    show(&progress, row, tokens);
                }
            },
        }
        .run(checkpoint)
        .map_err(|error| out_of_memory::updating(error, self.policy.decoder()))
    }

    /// Puts the weights of the lowest held-out loss back, for the export.
    fn restore_best(&self, outcome: &LoopOutcome) -> Result<()> {
        let Some(best) = outcome.best else {
            return Err(Error::Failed("no evaluation says which step is the best".to_owned()));
        };
        let folder = checkpoint::folder_of(self.job.out, best.step);
        let best = checkpoint::load(&folder, &self.job.compute.device)?;
        self.policy.decoder().load_parameters(&best.trainable, &folder.display().to_string())
    }

    /// What to go on from. The first rank looks for it and the others read the same.
    fn checkpoint(&self) -> Result<Option<Checkpoint>> {
        let mut found = None;
        let step = self.job.group.from_first(|| {
            found = self.newest_checkpoint()?;
            Ok(found.as_ref().map(|checkpoint| checkpoint.state.step))
        })?;
        match step {
            Some(step) if !self.job.group.is_first() => {
                checkpoint::load(&checkpoint::folder_of(self.job.out, step), &self.job.compute.device).map(Some)
            }
            _ => Ok(found),
        }
    }

    fn newest_checkpoint(&self) -> Result<Option<Checkpoint>> {
        if self.job.start == Start::Fresh {
            return Ok(None);
        }
        let found = checkpoint::latest(self.job.out, &self.job.compute.device)?;
        for (folder, reason) in &found.skipped {
            tracing::warn!("{} is damaged and not used: {reason}", folder.display());
        }
        if let Some(checkpoint) = &found.checkpoint {
            tracing::info!("resuming after step {}", checkpoint.state.step);
        } else {
            tracing::warn!("{} holds no checkpoint; starting from the model", self.job.out.display());
        }
        Ok(found.checkpoint)
    }

    /// The weights under a new adapter, where they exist nowhere else: merged from the adapter that the job started from.
    fn merged_base(&self) -> Option<PathBuf> {
        let is_adapter = self.job.lora.is_some() && SourceModel::is_adapter(self.job.model);
        is_adapter.then(|| self.job.out.join("base"))
    }

    /// Writes [`Session::merged_base`] before the first step: PEFT loads no adapter on an adapter.
    fn keep_merged_base(&self) -> Result<()> {
        let Some(folder) = self.merged_base() else { return Ok(()) };
        let card = ModelCard {
            base_model: self.job.model_name.to_owned(),
            content: CardContent::Model,
            stage: "merged".to_owned(),
            datasets: Vec::new(),
            facts: Vec::new(),
        };
        // As they were read: the decoder may hold them in fewer bits.
        let source = SourceModel::open(self.job.model, &Device::Cpu)?;
        self.write_model(&folder, &source.weights.0, &card)
    }

    fn write_model(&self, folder: &Path, weights: &BTreeMap<String, Tensor>, card: &ModelCard) -> Result<()> {
        let export = ModelExport {
            config: &self.config.json,
            generation_config: self.generation_config.as_ref(),
            weights,
            tokenizer: &self.tokenizer,
            card,
        };
        export.write(folder)
    }

    /// `final/`: a PEFT adapter, or a whole model.
    fn export(&self, log: &[StepRow]) -> Result<()> {
        let folder = self.job.out.join("final");
        let card = self.card(log);
        if let Some(settings) = self.job.lora {
            let parameters = self.policy.parameters();
            let tensors = parameters.iter().map(|(name, var)| (name.clone(), var.as_detached_tensor())).collect();
            let base = self.merged_base();
            let export = AdapterExport {
                settings,
                base_model: &base.map_or_else(|| self.job.model_name.to_owned(), |base| base.display().to_string()),
                tensors: &tensors,
                tokenizer: &self.tokenizer,
                card: &card,
            };
            return export.write(&folder);
        }
        self.write_model(&folder, &self.policy.decoder().merged_weights()?, &card)
    }

    /// Only facts that a second run of the same seed repeats.
    fn card(&self, log: &[StepRow]) -> ModelCard {
        let loss = |row: Option<&StepRow>| {
            row.and_then(|row| row.loss).map_or_else(|| "none".to_owned(), |loss| format!("{loss:.4}"))
        };
        let facts = [
            ("rows", self.encoded.rows.to_string()),
            ("rows left out", self.encoded.dropped.len().to_string()),
            ("steps", self.order.steps().to_string()),
            ("learning rate", self.settings.learning_rate.get().to_string()),
            ("seed", self.job.seed.0.to_string()),
            ("first loss", loss(log.first())),
            ("last loss", loss(log.last())),
        ];
        ModelCard {
            base_model: self.job.model_name.to_owned(),
            content: if self.job.lora.is_some() { CardContent::Adapter } else { CardContent::Model },
            stage: self.stage.to_owned(),
            datasets: self.job.inputs.keys().filter(|name| *name != MODEL_INPUT).cloned().collect(),
            facts: facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        }
    }

    fn manifest(&self, outcome: Option<RunOutcome>) -> RunManifest {
        let parameters = self.policy.parameters();
        RunManifest {
            status: RunStatus::Started,
            stage: self.stage.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: option_env!("TOPALIGN_COMMIT").map(str::to_owned),
            recipe_digest: self.job.recipe.as_ref().map(|recipe| recipe.digest().to_owned()),
            inputs: self.job.inputs.clone(),
            run_digest: self.run_digest.clone(),
            seed: self.job.seed,
            device: self.job.compute.device_name(),
            ranks: self.job.group.size(),
            dtype: self.job.compute.format.name().to_owned(),
            arithmetic: self.settings.arithmetic,
            data: DataCounts {
                rows: self.encoded.rows,
                units: self.encoded.trees.len(),
                answers: self.encoded.trees.iter().map(|tree| tree.answers.len()).sum(),
                dropped: self.encoded.dropped.clone(),
                held_out_units: self.held_out.as_ref().map_or(0, |encoded| encoded.trees.len()),
            },
            steps: self.order.steps(),
            resumed_from: None,
            parameters: ParameterCounts {
                trained: parameters.values().map(|parameter| parameter.elem_count()).sum(),
                tensors: parameters.len(),
                decayed_tensors: parameters
                    .iter()
                    .filter(|(name, parameter)| DecayGroup::of(name, parameter.rank()) == DecayGroup::Decayed)
                    .count(),
            },
            started_at: self.started_at.clone(),
            outcome,
        }
    }

    fn outcome(
        &self,
        outcome: &LoopOutcome,
        resumed_from: Option<usize>,
        reference_seconds: Option<f64>,
    ) -> RunOutcome {
        let earlier = seconds_of(&outcome.log, resumed_from.unwrap_or(0));
        RunOutcome {
            finished_at: jiff::Timestamp::now().to_string(),
            seconds: milliseconds(earlier + self.begun.elapsed().as_secs_f64()),
            step_seconds: milliseconds(outcome.step_seconds),
            reference_seconds: reference_seconds.map(milliseconds),
            tokens: outcome.tokens,
            first_loss: outcome.log.first().and_then(|row| row.loss),
            last_loss: outcome.log.last().and_then(|row| row.loss),
            steps_done: outcome.steps,
            best_step: outcome.best.map(|best| best.step),
            best_loss: outcome.best.map(|best| best.loss),
            peak_memory_bytes: peak_memory_bytes(),
        }
    }
}

/// A fresh run must not be resumed into an old one's checkpoints; those of another program are not ours to remove.
fn prepare_folder(job: &Job<'_>) -> Result<()> {
    checkpoint::sweep(job.out)?;
    if job.start == Start::Resume || !checkpoint::exist(job.out)? {
        return Ok(());
    }
    if RunManifest::read(job.out).is_none() {
        return Err(Fault::new("the output folder holds checkpoints of something else")
            .at(job.out.display())
            .expected(format!("an empty folder, or one with the `{MANIFEST}` of an earlier run"))
            .hint("choose another folder with --out")
            .into());
    }
    checkpoint::clear(job.out)
}

fn data_digest(encoded: &Encoded) -> Result<String> {
    let trees: Vec<_> = encoded.trees.iter().map(|tree| (&tree.row_ids, &tree.prompt, &tree.answers)).collect();
    digest::of_value(&(trees, &encoded.kinds))
}

fn show(progress: &Progress, row: &StepRow, tokens: u64) {
    let message = message(row, tokens);
    tracing::info!("step {}: {message}, learning rate {:.2e}", row.step, row.learning_rate);
    progress.at(row.step, message);
}

/// Held-out rows must be there where something asks for them, and must not be trained on.
fn check_held_out(stage: &str, settings: &TrainSettings, encoded: &Encoded, held_out: Option<&Encoded>) -> Result<()> {
    let Some(held_out) = held_out else {
        return match settings.evaluate_every {
            None => Ok(()),
            Some(_) => Err(Fault::new(format!("`{stage}.evaluate_every` asks for held-out rows and there are none"))
                .hint("give them with --held-out FILE")
                .into()),
        };
    };
    let trained: HashSet<&[u32]> = encoded.trees.iter().map(|tree| tree.prompt.as_slice()).collect();
    let faults: Vec<Fault> = held_out
        .trees
        .iter()
        .filter(|tree| trained.contains(tree.prompt.as_slice()))
        .take(10)
        .map(|tree| Fault::new("a held-out row has the prompt of a row that is trained on").at(tree.row_ids.join(", ")))
        .collect();
    if faults.is_empty() { Ok(()) } else { Err(Error::Invalid(faults)) }
}
