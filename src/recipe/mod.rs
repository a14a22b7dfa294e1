//! Recipes: what was typed (TOML) becomes what is meant (settings that cannot be wrong), with every error at once.
//!
//! In: a TOML file and `--set key=value` overrides. Out: [`Recipe`]. Relative paths are read from the recipe's folder;
//! `${NAME}` and `${NAME:-default}` stand for environment variables (a relative value is read from the working folder).

mod ablation;
mod build;
mod data;
mod endpoint;
pub(crate) mod path;
mod preference;
mod section;
pub mod settings;
mod training;

use std::path::Path;

use serde::Serialize;
use toml::{Table, Value};

use crate::device::NumberFormat;
use crate::endpoint::EndpointSettings;
use crate::error::{Error, Fault, Result};
use crate::prompt::Mitigation;
use crate::run::seed::Seed;
use crate::scratch::Shape;
pub use ablation::{Ablation, Variation};
pub use data::{DataSettings, SyntheticSettings};
pub(crate) use endpoint::read_endpoint;
pub use endpoint::{AgentProtocol, AgentSettings, VerifierSettings};
pub(crate) use section::Section;
pub use section::nearest;
use settings::{BaseStorage, BuildSettings, DpoSettings, GenerateSettings, LoraSettings, SftSettings};

/// A whole recipe, resolved: no default left implicit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Recipe {
    /// Names the run folder.
    pub name: String,
    /// Seed of everything.
    pub seed: Seed,
    /// Seed of training alone (order of rows, adapters, dropout), so that trainings can be repeated on the same data and
    /// judged on the same traces; absent takes `seed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub training_seed: Option<Seed>,
    /// Traces and their split.
    pub data: DataSettings,
    /// What the builder makes of them.
    pub build: BuildSettings,
    /// The base model.
    pub model: ModelSettings,
    /// Supervised fine-tuning; absent leaves it out.
    pub sft: Option<SftSettings>,
    /// Preference optimisation; absent leaves it out.
    pub dpo: Option<DpoSettings>,
    /// Decoding in evaluation.
    pub generate: GenerateSettings,
    /// Which systems are evaluated, and how.
    pub evaluate: EvaluateSettings,
}

/// The base model and what is trained of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModelSettings {
    /// Folder, `.gguf` file or hub id; `scratch` is a randomly initialised model of shape `scratch`.
    pub source: String,
    /// Shape of the model made from nothing; only with `source = "scratch"`.
    pub scratch: Option<Shape>,
    /// How the base is held while adapters are trained on it.
    #[serde(skip_serializing_if = "is_default")]
    pub base_storage: BaseStorage,
    /// Number format of activations and matrix products; trained weights are f32 whatever it is.
    #[serde(skip_serializing_if = "is_default")]
    pub dtype: NumberFormat,
    /// Adapters; absent trains every weight.
    pub lora: Option<LoraSettings>,
}

/// Left out of resolved recipes, whose digests stay those of before the key.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// What is evaluated.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EvaluateSettings {
    /// Mitigations under which the base model is evaluated as a prompt-only system.
    pub mitigations: Vec<Mitigation>,
    /// Bootstrap resamples.
    pub resamples: usize,
    /// Evaluate at most so many held-out traces; absent takes all.
    pub limit: Option<usize>,
    /// A model that is asked about what matching left open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verifier: Option<VerifierSettings>,
    /// A model that judges beside the deterministic judge.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judge: Option<EndpointSettings>,
    /// Systems behind endpoints that stand in the same table.
    #[serde(rename = "agent", skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<AgentSettings>,
}

impl Recipe {
    /// The seed of training.
    pub fn training_seed(&self) -> Seed {
        self.training_seed.unwrap_or(self.seed)
    }

    /// The same recipe on another model; the shape of a model made from nothing goes with that one.
    #[must_use]
    pub fn on_model(mut self, source: &str) -> Self {
        source.clone_into(&mut self.model.source);
        self.model.scratch = None;
        self
    }

    /// Reads a recipe file, applies overrides and resolves paths and defaults.
    ///
    /// # Errors
    /// [`Error::Read`], or [`Error::Invalid`] with every fault of the file, each naming its key.
    pub fn load(file: &Path, overrides: &[String]) -> Result<Self> {
        Self::load_without(file, overrides, &[])
    }

    /// As [`Recipe::load`], with some sections of the file left out, for instance `sft`.
    ///
    /// # Errors
    /// As [`Recipe::load`]; a section to leave out that the file does not have.
    pub fn load_without(file: &Path, overrides: &[String], without: &[String]) -> Result<Self> {
        let text = std::fs::read_to_string(file).map_err(|source| Error::read(file, source))?;
        let folder = file.parent().unwrap_or(Path::new(""));
        let mut table = read_table(&text, overrides).map_err(|error| place(error, file))?;
        for section in without {
            if table.remove(section).is_none() {
                return Err(Fault::new("no such section to leave out").at(file.display()).got(section).into());
            }
        }
        Self::from_table(table, folder).map_err(|error| place(error, file))
    }

    /// Reads a recipe's text; `folder` is what relative paths start from.
    ///
    /// # Errors
    /// [`Error::Invalid`] with every fault.
    pub fn parse(text: &str, folder: &Path, overrides: &[String]) -> Result<Self> {
        Self::from_table(read_table(text, overrides)?, folder)
    }

    fn from_table(table: Table, folder: &Path) -> Result<Self> {
        let mut faults = Vec::new();
        let recipe = read(table, folder, &mut faults);
        match recipe {
            Some(recipe) if faults.is_empty() => Ok(recipe),
            _ => Err(Error::Invalid(faults)),
        }
    }

    /// The resolved recipe as TOML, as saved with a run.
    ///
    /// # Errors
    /// [`Error::Failed`] if a value has no TOML form.
    pub fn to_toml(&self) -> Result<String> {
        toml::to_string_pretty(self).map_err(|error| Error::Failed(format!("recipe has no TOML form: {error}")))
    }
}

/// A recipe's text as a table, overrides applied.
pub(crate) fn read_table(text: &str, overrides: &[String]) -> Result<Table> {
    let mut table: Table = text.parse().map_err(|error: toml::de::Error| syntax(text, &error))?;
    for item in overrides {
        apply(&mut table, item)?;
    }
    Ok(table)
}

/// Puts the file's name before every fault.
pub(crate) fn place(error: Error, file: &Path) -> Error {
    match error {
        Error::Invalid(faults) => Error::Invalid(
            faults
                .into_iter()
                .map(|mut fault| {
                    let inner = fault.place.take();
                    fault.place = Some(match inner {
                        Some(inner) => format!("{}:{inner}", file.display()),
                        None => file.display().to_string(),
                    });
                    fault
                })
                .collect(),
        ),
        other => other,
    }
}

fn syntax(text: &str, error: &toml::de::Error) -> Error {
    let line = error.span().map_or(1, |span| 1 + text[..span.start.min(text.len())].matches('\n').count());
    Fault::new(format!("not valid TOML: {}", error.message())).at(line).into()
}

/// Applies one `--set key=value`; a value that is no TOML literal is taken as a string.
fn apply(table: &mut Table, item: &str) -> Result<()> {
    let malformed = || Fault::new("an override must be key=value").at("--set").got(item).expected("e.g. sft.epochs=2");
    let (key, text) = item.split_once('=').ok_or_else(malformed)?;
    let value = format!("value = {text}")
        .parse::<Table>()
        .ok()
        .and_then(|mut parsed| parsed.remove("value"))
        .unwrap_or_else(|| Value::String(text.to_owned()));
    let mut parts: Vec<&str> = key.trim().split('.').collect();
    let last = parts.pop().filter(|last| !last.is_empty()).ok_or_else(malformed)?;
    let mut here = table;
    for part in parts {
        let inner = here.entry(part).or_insert_with(|| Value::Table(Table::new()));
        here =
            inner.as_table_mut().ok_or_else(|| Fault::new(format!("`{part}` is not a table")).at("--set").got(item))?;
    }
    here.insert(last.to_owned(), value);
    Ok(())
}

fn read(table: Table, folder: &Path, faults: &mut Vec<Fault>) -> Option<Recipe> {
    let mut top = Section::new("", table, faults);
    let name: Option<String> = top.require("name", "a name for the run folder");
    let seed: u64 = top.take_or("seed", 2027);
    let training_seed: Option<u64> = top.take("training_seed");
    let data = top.table("data");
    let build = top.table("build").unwrap_or_default();
    let model = top.table("model");
    let sft = top.table("sft");
    let dpo = top.table("dpo");
    let generate = top.table("generate").unwrap_or_default();
    let evaluate = top.table("evaluate").unwrap_or_default();
    if name.as_deref().is_some_and(|name| name.is_empty() || name.contains(['/', '\\']) || name.starts_with('.')) {
        top.fault(Fault::new("`name` must be a plain folder name"));
    }
    for (key, table) in [("data", &data), ("model", &model)] {
        if table.is_none() {
            top.fault(Fault::new(format!("section `[{key}]` is missing")));
        }
    }
    top.finish();
    let data = data.map(|table| data::read(table, folder, Seed(seed), faults));
    let build = build::read(build, folder, dpo.is_some(), faults);
    let model = model.and_then(|table| read_model(table, folder, faults));
    let sft = sft.map(|table| training::read_sft(table, faults));
    let dpo = dpo.map(|table| training::read_dpo(table, faults));
    let generate = read_generate(generate, faults);
    let evaluate = read_evaluate(evaluate, folder, faults);
    Some(Recipe {
        name: name?,
        seed: Seed(seed),
        training_seed: training_seed.map(Seed),
        data: data?,
        build,
        model: model?,
        sft: optional(sft)?,
        dpo: optional(dpo)?,
        generate,
        evaluate,
    })
}

/// A section that is absent is fine; one that is there but unreadable is not.
#[expect(
    clippy::option_option,
    reason = "the outer one says whether the section is there, the inner whether it can be read"
)]
fn optional<T>(section: Option<Option<T>>) -> Option<Option<T>> {
    match section {
        None => Some(None),
        Some(read) => read.map(Some),
    }
}

fn read_model(table: Table, folder: &Path, faults: &mut Vec<Fault>) -> Option<ModelSettings> {
    let mut section = Section::new("model", table, faults);
    let source: Option<String> = section.require("source", "a folder, a .gguf file, a hub id, or `scratch`");
    let lora = section.table("lora");
    let scratch = section.table("scratch");
    let base_storage = section.take_or("base_storage", BaseStorage::default());
    let dtype = section.take_or("dtype", NumberFormat::default());
    if base_storage != BaseStorage::default() && lora.is_none() {
        section.fault(Fault::new(
            "`model.base_storage = \"as-stored\"` needs `[model.lora]`: every weight is trained in f32",
        ));
    }
    if scratch.is_some() && source.as_deref() != Some(SCRATCH) {
        section.fault(Fault::new("`model.scratch` needs `model.source = \"scratch\"`"));
    }
    let is_scratch = source.as_deref() == Some(SCRATCH);
    let source = source.and_then(|source| match path::resolve_model(&source, folder) {
        _ if is_scratch => Some(source),
        Ok(source) => Some(source),
        Err(fault) => {
            section.fault(fault);
            None
        }
    });
    section.finish();
    let scratch = is_scratch.then(|| read_scratch(scratch.unwrap_or_default(), faults));
    let lora = lora.map(|table| training::read_lora(table, faults));
    Some(ModelSettings { source: source?, scratch, base_storage, dtype, lora: optional(lora)? })
}

/// The source that asks for a randomly initialised model.
pub const SCRATCH: &str = "scratch";

fn read_scratch(table: Table, faults: &mut Vec<Fault>) -> Shape {
    let mut section = Section::new("model.scratch", table, faults);
    let default = Shape::default();
    let shape = Shape {
        hidden_size: section.take_or("hidden_size", default.hidden_size),
        intermediate_size: section.take_or("intermediate_size", default.intermediate_size),
        layers: section.take_or("layers", default.layers),
        heads: section.take_or("heads", default.heads),
        key_value_heads: section.take_or("key_value_heads", default.key_value_heads),
        vocabulary: section.take_or("vocabulary", default.vocabulary),
        context: section.take_or("context", default.context),
        start: section.take_or("start", default.start),
    };
    section.finish();
    shape
}

fn read_generate(table: Table, faults: &mut Vec<Fault>) -> GenerateSettings {
    let mut section = Section::new("generate", table, faults);
    let default = GenerateSettings::default();
    let settings = GenerateSettings {
        selection_tokens: section.take_or("selection_tokens", default.selection_tokens),
        response_tokens: section.take_or("response_tokens", default.response_tokens),
        temperature: section.take_or("temperature", default.temperature),
        top_p: section.take("top_p"),
        batch: section.take_or("batch", default.batch),
        selection: section.take_or("selection", default.selection),
        samples: section.take_or("samples", default.samples),
    };
    for (key, value) in [
        ("samples", settings.samples),
        ("selection_tokens", settings.selection_tokens),
        ("response_tokens", settings.response_tokens),
        ("batch", settings.batch),
    ] {
        if value == 0 {
            section.fault(Fault::new(format!("`generate.{key}` must be above 0")).got(value));
        }
    }
    if !settings.temperature.is_finite() || settings.temperature < 0.0 {
        section.fault(Fault::new("`generate.temperature` must be at least 0").got(settings.temperature));
    }
    if settings.samples > 1 && settings.temperature == 0.0 {
        let fault = Fault::new("every one of `generate.samples` would be the same").got(settings.samples);
        section.fault(fault.hint("set `generate.temperature` above 0"));
    }
    if let Some(top_p) = settings.top_p.filter(|top_p| !(*top_p > 0.0 && *top_p <= 1.0)) {
        section.fault(Fault::new("`generate.top_p` must be above 0 and at most 1").got(top_p));
    }
    section.finish();
    settings
}

fn read_evaluate(table: Table, folder: &Path, faults: &mut Vec<Fault>) -> EvaluateSettings {
    let mut section = Section::new("evaluate", table, faults);
    let (verifier, judge) = (section.table("verifier"), section.table("judge"));
    let agents: Vec<Table> = section.take_or("agent", Vec::new());
    let mitigations: Vec<Mitigation> = section.take_or("mitigations", vec![Mitigation::Tnm, Mitigation::Cbd]);
    let mut settings = EvaluateSettings {
        verifier: None,
        judge: None,
        agents: Vec::new(),
        mitigations: mitigations.into_iter().filter(|mitigation| *mitigation != Mitigation::None).collect(),
        resamples: section.take_or("resamples", 10_000),
        limit: section.take("limit"),
    };
    if settings.resamples < 100 {
        section.fault(Fault::new("`evaluate.resamples` must be at least 100").got(settings.resamples));
    }
    if settings.limit == Some(0) {
        section.fault(Fault::new("`evaluate.limit` must be above 0").got(0));
    }
    section.finish();
    settings.verifier = verifier.and_then(|table| endpoint::read_verifier(table, folder, faults));
    settings.judge = judge.and_then(|table| endpoint::read_judge(table, folder, faults));
    settings.agents = endpoint::read_agents(agents, folder, faults);
    settings
}
