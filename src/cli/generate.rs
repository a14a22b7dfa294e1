//! `topalign generate`: a model of this machine or behind an endpoint answers traces.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use candle_core::Device;
use serde::{Deserialize, Serialize};

use super::Console;
use super::endpoint::Tuning;
use crate::completion::{Completion, Finish};
use crate::device::{Compute, DeviceChoice, NumberFormat};
use crate::endpoint::{Chat as _, Client, Counts};
use crate::error::{Error, Fault, Result};
use crate::generate::{
    AgentProtocol, EndpointAgent, Existing, Identity, Output, Protocol, append_calls, read_calls, write_calls,
};
use crate::model::{Decoder, LocalModel, ModelSource, Trainable, read_adapter};
use crate::prompt::Mitigation;
use crate::rank::Group;
use crate::recipe::settings::{GenerateSettings, SelectionSource};
use crate::run::seed::Seed;
use crate::run::shard::{Shard, ShardFile, Shards, Task};
use crate::run::{digest, jsonl};
use crate::token::ChatTokenizer;
use crate::trace::{self, Format, Trace};

/// The command's name in shards.
pub(super) const NAME: &str = "generate";

/// Arguments.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Model folder, .gguf file or hub id.
    #[arg(long, required_unless_present = "endpoint", conflicts_with = "endpoint")]
    model: Option<String>,
    /// PEFT adapter folder to add to the model.
    #[arg(long, requires = "model")]
    adapter: Option<PathBuf>,
    /// Where to compute: auto, cpu, cuda:0 (or another number), cuda:all, metal [default: cpu].
    #[arg(long, value_name = "DEVICE", conflicts_with = "endpoint")]
    device: Option<DeviceChoice>,
    /// Number format of activations and matrix products.
    #[arg(long, value_enum, conflicts_with = "endpoint")]
    dtype: Option<NumberFormat>,
    /// Traces to answer, in any supported format.
    #[arg(long)]
    traces: PathBuf,
    /// Where the completions go.
    #[arg(long)]
    out: PathBuf,
    /// Keep the completions that the file already holds and answer only the missing traces.
    #[arg(long)]
    resume: bool,
    /// Prompt-only safeguard.
    #[arg(long, value_enum, default_value_t)]
    mitigation: Mitigation,
    /// The system's name in the completions; by default the adapter's or the model's, with the mitigation.
    #[arg(long)]
    system: Option<String>,
    /// Seed of all draws.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Answer only the first so many traces.
    #[arg(long)]
    limit: Option<usize>,
    #[command(flatten)]
    decoding: Decoding,
    #[command(flatten)]
    agent: Agent,
    #[command(flatten)]
    tuning: Tuning,
    /// Answer only part I of N of the traces, from 1, into a shard file; `merge-shards` joins all of them. Until it is done answers are
    /// kept in OUT.completions, from which --resume goes on.
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,
}

/// What completions depend on, beside the traces.
#[derive(Debug, Serialize, Deserialize)]
struct Settings {
    system: String,
    mitigation: Mitigation,
    seed: u64,
    limit: Option<usize>,
    model: Option<String>,
    adapter: Option<PathBuf>,
    protocol: String,
    selection: SelectionSource,
    tokens: [usize; 2],
    temperature: f64,
    top_p: Option<f64>,
    samples: usize,
    device: String,
    dtype: NumberFormat,
}

/// A model behind an endpoint instead. Goals and tool results are sent to it.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Endpoint")]
struct Agent {
    /// OpenAI-compatible endpoint, with or without its `/v1`.
    #[arg(long, value_name = "URL", requires = "endpoint_model")]
    endpoint: Option<String>,
    /// The model's name there.
    #[arg(long, value_name = "NAME", requires = "endpoint")]
    endpoint_model: Option<String>,
    /// Environment variable that holds the key.
    #[arg(long, value_name = "VARIABLE", requires = "endpoint")]
    endpoint_key_env: Option<String>,
    /// How the model comes to its answer.
    #[arg(long, value_enum, default_value_t, requires = "endpoint")]
    protocol: AgentProtocol,
}

/// What a recipe's `[generate]` section holds.
#[derive(Debug, clap::Args)]
struct Decoding {
    /// Token limit of stage 1 [default: 160].
    #[arg(long, value_name = "TOKENS", alias = "max-tokens-selection")]
    selection_tokens: Option<usize>,
    /// Token limit of stage 2 [default: 320].
    #[arg(long, value_name = "TOKENS", alias = "max-tokens-response")]
    response_tokens: Option<usize>,
    /// 0 is greedy.
    #[arg(long, default_value_t = 0.0)]
    temperature: f64,
    /// Share of the probability to draw from.
    #[arg(long)]
    top_p: Option<f64>,
    /// Traces decoded together [default: 16].
    #[arg(long)]
    batch: Option<usize>,
    /// Whose tool selection stage 2 answers from.
    #[arg(long, value_enum, default_value_t)]
    selection: SelectionSource,
    /// Answers to each trace, under the seeds from `--seed` on; needs a temperature above 0.
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    samples: usize,
}

#[derive(Debug, Default, Serialize)]
struct Summary {
    system: String,
    traces: usize,
    answered_now: usize,
    stop: usize,
    length: usize,
    error: usize,
    unreadable_selections: usize,
    out: PathBuf,
    #[serde(skip_serializing_if = "Option::is_none")]
    calls: Option<Counts>,
}

/// Runs the command.
///
/// # Errors
/// An unusable model, unreadable traces, settings out of range, an unwritable output or an interruption; what was answered
/// until then is in the output.
pub fn run(arguments: &Arguments, console: Console, group: &dyn Group) -> Result<()> {
    if arguments.agent.protocol == AgentProtocol::ToolCalling && arguments.decoding.selection == SelectionSource::Given
    {
        return Err(Fault::new(
            "a model that calls tools selects them itself: `--selection given` has no meaning there",
        )
        .into());
    }
    let Decoding { samples, temperature, .. } = arguments.decoding;
    if samples == 0 || (samples > 1 && temperature == 0.0) {
        let fault = Fault::new("`--samples` must be above 0, and above 1 needs draws").got(samples);
        return Err(fault.hint("set --temperature above 0").into());
    }
    let mut traces = trace::read(&arguments.traces, Format::default())?;
    traces.truncate(arguments.limit.unwrap_or(usize::MAX));
    let system = arguments.system_name();
    let seed = Seed(arguments.seed);
    let mut out = arguments.out.clone();
    if let Some(shard) = arguments.shard {
        traces = traces.into_iter().enumerate().filter(|(at, _)| shard.takes(*at)).map(|(_, trace)| trace).collect();
        out = completions_of(&out);
    }
    let existing = if arguments.resume { Existing::Resume } else { Existing::Replace };
    if !group.is_first() {
        // An endpoint's limits are those of one process.
        return if arguments.agent.endpoint.is_some() {
            Ok(())
        } else {
            arguments.help((&system, seed), &traces, group)
        };
    }
    let identity = Identity { system: &system, mitigation: arguments.mitigation, seed, samples };
    let mut output = Output::open(&out, existing, &traces, identity)?;
    output.check_selection(arguments.decoding.selection)?;
    if arguments.agent.endpoint.is_some() {
        output.forget_failed_calls();
    }
    let missing = output.missing(&traces);
    if arguments.agent.endpoint.is_none() {
        group.from_first(|| Ok(missing.iter().map(|trace| trace.trace_id.clone()).collect::<Vec<_>>()))?;
    }
    let mut calls = None;
    if !missing.is_empty() {
        let bar = indicatif::ProgressBar::new((missing.len() * samples) as u64);
        let completed = |completion: &Completion| {
            bar.inc(1);
            output.add(completion)
        };
        let outcome = match arguments.client(seed)? {
            Some(client) => {
                let outcome = arguments.ask_endpoint(&client, (&system, seed), &missing, completed);
                calls = Some(client.counts());
                outcome
            }
            None => arguments.ask_model((&system, seed), &missing, group, completed),
        };
        // Finishing the bar moves it to its end.
        let answered = bar.position();
        bar.finish_and_clear();
        // What is answered is kept even if the work ended early; an older file is not given up for nothing.
        if outcome.is_ok() || answered > 0 {
            output.write()?;
            if let Some(counts) = &calls {
                append_calls(&out, existing, counts)?;
            }
        }
        outcome?;
    }
    if let Some(shard) = arguments.shard {
        return arguments.finish_shard(shard, &system, &output, &out, console);
    }
    let mut summary = summarise(&system, output.completions(), missing.len() * samples, &arguments.out);
    summary.calls = calls;
    console.print(&summary, &summary.text())
}

/// Joins shards.
///
/// # Errors
/// An unwritable output.
pub(super) fn merge(shards: Shards, out: &Path, console: Console) -> Result<()> {
    let settings: Settings = shards.task().settings()?;
    let calls = shards.paths().map(|shard| read_calls(&completions_of(shard))).collect::<Result<Vec<_>>>()?.concat();
    let mut completions: Vec<Completion> = Vec::new();
    shards.each(|items: Vec<Vec<Completion>>| {
        completions.extend(items.into_iter().flatten());
        Ok(())
    })?;
    jsonl::write(out, &completions)?;
    if !calls.is_empty() {
        write_calls(out, &calls)?;
    }
    let summary = summarise(&settings.system, completions.iter(), completions.len(), out);
    console.print(&summary, &summary.text())
}

/// Where a shard's completions are until its file is whole; what their calls took stays beside it.
fn completions_of(shard: &Path) -> PathBuf {
    let mut file = shard.to_path_buf();
    file.as_mut_os_string().push(".completions");
    file
}

fn load_decoder(local: &LocalModel, adapter: Option<&Path>, compute: &Compute) -> Result<Decoder> {
    let (config, mut weights) = local.read(&Device::Cpu)?;
    if let Some(folder) = adapter {
        let (adapter, tensors) = read_adapter(folder, &Device::Cpu)?;
        weights = weights.merge_adapter(&adapter, &tensors, &folder.display().to_string())?;
    }
    Decoder::new(config, weights, &Trainable::Nothing, Seed(0), compute)
}

impl Arguments {
    /// Writes the shard file; the completions that it was made from go, unless some calls failed and may be asked again.
    fn finish_shard(&self, shard: Shard, system: &str, output: &Output, kept: &Path, console: Console) -> Result<()> {
        let GenerateSettings { selection_tokens, response_tokens, .. } = self.decoding.settings();
        let settings = Settings {
            system: system.to_owned(),
            mitigation: self.mitigation,
            seed: self.seed,
            limit: self.limit,
            model: self.model.clone().or_else(|| self.agent.endpoint_model.clone()),
            adapter: self.adapter.clone(),
            protocol: format!("{:?}", self.agent.protocol),
            selection: self.decoding.selection,
            tokens: [selection_tokens, response_tokens],
            temperature: self.decoding.temperature,
            top_p: self.decoding.top_p,
            samples: self.decoding.samples,
            device: self.device.unwrap_or_default().kind().to_owned(),
            dtype: self.dtype.unwrap_or_default(),
        };
        let inputs = BTreeMap::from([("traces".to_owned(), digest::of_file(&self.traces)?)]);
        let mut file = ShardFile::create(&self.out, shard, Task::new(NAME, &settings, inputs)?)?;
        // An item is a trace with all of its samples.
        let completions: Vec<&Completion> = output.completions().collect();
        file.items(&completions.chunk_by(|one, next| one.trace_id == next.trace_id).collect::<Vec<_>>())?;
        let dealt = file.commit(&())?;
        if kept.exists() && output.completions().all(|completion| completion.finish != Finish::Error) {
            std::fs::remove_file(kept).map_err(|source| Error::write(kept, source))?;
        }
        console.print(&dealt, &dealt.text())
    }

    fn client(&self, seed: Seed) -> Result<Option<Client>> {
        let Agent { endpoint, endpoint_model, endpoint_key_env, .. } = &self.agent;
        let Some((url, model)) = endpoint.as_deref().zip(endpoint_model.as_deref()) else { return Ok(None) };
        self.tuning.client(url, model, endpoint_key_env.as_deref(), seed).map(Some)
    }

    fn ask_endpoint(
        &self,
        client: &Client,
        (system, seed): (&str, Seed),
        traces: &[Trace],
        completed: impl FnMut(&Completion) -> Result<()>,
    ) -> Result<()> {
        let agent = EndpointAgent {
            chat: client,
            workers: client.settings().concurrency,
            protocol: self.agent.protocol,
            settings: &self.decoding.settings(),
            mitigation: self.mitigation,
            system,
            seed,
        };
        agent.answer_traces(traces, completed).map(drop)
    }

    /// What a rank after the first does: it answers its part of what the first one finds missing.
    fn help(&self, identity: (&str, Seed), traces: &[Trace], group: &dyn Group) -> Result<()> {
        let missing: HashSet<String> = group.from_first(|| Ok(HashSet::new()))?;
        let missing: Vec<Trace> = traces.iter().filter(|trace| missing.contains(&trace.trace_id)).cloned().collect();
        if missing.is_empty() { Ok(()) } else { self.ask_model(identity, &missing, group, |_| Ok(())) }
    }

    fn ask_model(
        &self,
        (system, seed): (&str, Seed),
        traces: &[Trace],
        group: &dyn Group,
        completed: impl FnMut(&Completion) -> Result<()>,
    ) -> Result<()> {
        let compute = Compute::open(self.device, self.dtype.unwrap_or_default(), group.rank())?;
        let local = ModelSource::parse(self.model.as_deref().unwrap_or_default())?.resolve()?;
        let tokenizer = ChatTokenizer::load(&local.path)?;
        let decoder = load_decoder(&local, self.adapter.as_deref(), &compute)?;
        let protocol = Protocol {
            model: &decoder,
            tokenizer: &tokenizer,
            settings: &self.decoding.settings(),
            mitigation: self.mitigation,
            system,
            seed,
        };
        protocol.answer_dealt(group, traces, completed).map(drop)
    }

    /// `sft`, `SmolLM2-135M-Instruct`, `sft+tnm`, ...
    fn system_name(&self) -> String {
        if let Some(system) = &self.system {
            return system.clone();
        }
        let name = match &self.agent.endpoint_model {
            Some(model) => self.agent.protocol.system_name(model),
            None => self.model_name(),
        };
        self.mitigation.of_system(&name)
    }
}

impl Arguments {
    fn model_name(&self) -> String {
        let path = self.adapter.as_deref().unwrap_or(Path::new(self.model.as_deref().unwrap_or_default()));
        let is_gguf = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gguf"));
        let name = if is_gguf { path.file_stem() } else { path.file_name() };
        name.map_or_else(|| "model".to_owned(), |name| name.to_string_lossy().into_owned())
    }
}

impl Decoding {
    fn settings(&self) -> GenerateSettings {
        let default = GenerateSettings::default();
        GenerateSettings {
            selection_tokens: self.selection_tokens.unwrap_or(default.selection_tokens),
            response_tokens: self.response_tokens.unwrap_or(default.response_tokens),
            temperature: self.temperature,
            top_p: self.top_p,
            batch: self.batch.unwrap_or(default.batch),
            selection: self.selection,
            samples: self.samples,
        }
    }
}

fn summarise<'a>(
    system: &str,
    completions: impl Iterator<Item = &'a Completion>,
    answered_now: usize,
    out: &Path,
) -> Summary {
    let mut summary = Summary { system: system.to_owned(), answered_now, out: out.to_path_buf(), ..Summary::default() };
    for completion in completions {
        summary.traces += 1;
        match completion.finish {
            Finish::Stop => summary.stop += 1,
            Finish::Length => summary.length += 1,
            Finish::Error => summary.error += 1,
        }
        summary.unreadable_selections += usize::from(completion.selection_fault.is_some());
    }
    summary
}

impl Summary {
    fn text(&self) -> String {
        format!(
            "{}: {} traces, {} answered now; ended by the model {}, cut {}, failed {}; stage 1 unreadable {}\n{}",
            self.system,
            self.traces,
            self.answered_now,
            self.stop,
            self.length,
            self.error,
            self.unreadable_selections,
            self.out.display(),
        ) + &self.calls.as_ref().map_or_else(String::new, |calls| format!("\n{calls}"))
    }
}
