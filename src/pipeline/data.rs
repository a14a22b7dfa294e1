//! Traces, contracts, split, audited rows.

use std::collections::{BTreeMap, BTreeSet};

use super::Pipeline;
use super::writing::WritingModel;
use crate::audit;
use crate::build::{self, Inputs, Made, Options, Sources, Writer};
use crate::contract::{self, Contract};
use crate::device::NumberFormat;
use crate::error::{Error, Fault, Result};
use crate::recipe::DataSettings;
use crate::recipe::settings::{Tables, defaults};
use crate::run::{atomic, digest, jsonl};
use crate::split::{self, Split};
use crate::synthesis;
use crate::trace::{self, Format, Part, Trace, Variant};

pub(super) const TRACES: &str = "traces.jsonl";
pub(super) const CONTRACTS: &str = "contracts.jsonl";
pub(super) const SPLIT: &str = "split/split.json";
pub(super) const HELD_OUT: &str = "split/held-out.jsonl";
const TRAIN: &str = "split/train.jsonl";
pub(super) const DATA: &str = "data";
/// Rows of held-out traces, for evaluation while training.
pub(super) const HELD_OUT_DATA: &str = "data-held-out";

impl Pipeline<'_> {
    pub(super) fn data(&mut self) -> Result<()> {
        self.read_traces()?;
        self.derive_contracts()?;
        self.deal()?;
        self.build()?;
        self.build_held_out()
    }

    /// Rows of the held-out traces where training is to be evaluated on them: in a folder of their own, never trained on.
    fn build_held_out(&mut self) -> Result<()> {
        let train = self.recipe.sft.iter().map(|sft| &sft.train).chain(self.recipe.dpo.iter().map(|dpo| &dpo.train));
        if train.into_iter().all(|settings| settings.evaluate_every.is_none()) {
            return Ok(());
        }
        if self.recipe.build.leaking.is_some() {
            return Err(Fault::new("`evaluate_every` needs held-out rows, and unguarded answers have none")
                .hint("leave it out of this recipe")
                .into());
        }
        let inputs = (self.made_by("contracts")?, self.made_by("split")?, self.recipe.seed);
        let (traces, contracts) = (self.path(HELD_OUT), self.path(CONTRACTS));
        let (out, seed, announce) = (self.path(HELD_OUT_DATA), self.recipe.seed, self.announce);
        let mut digests = Inputs::default();
        for file in [HELD_OUT, CONTRACTS] {
            digests.0.insert(file.to_owned(), digest::of_file(&self.path(file))?);
        }
        self.stage("evaluation-rows", &inputs, &[HELD_OUT_DATA], || {
            let options = Options::default();
            let sources = Sources {
                traces: &traces,
                format: Format::Canonical,
                contracts: &contracts,
                only: Some(Variant::Base),
            };
            let made =
                Made { inputs: &digests, writer: &Writer::Template, seed, options: &options, tables: Tables::Json };
            // Without parts every trace gives rows.
            let counts = build::write_each(&out, sources, &BTreeMap::new(), made)?;
            let [sft, pairs] = [counts.sft.values().sum::<usize>(), counts.pairs.values().sum()];
            announce(&format!("held-out rows: {sft} SFT rows, {pairs} pairs"));
            Ok(())
        })
    }

    fn read_traces(&mut self) -> Result<()> {
        let settings = self.recipe.data.clone();
        let mut digests = Vec::new();
        for (part, files) in settings.files() {
            digests.push((part, files.iter().map(|file| digest::of_file(file)).collect::<Result<Vec<_>>>()?));
        }
        let out = self.path(TRACES);
        self.stage("traces", &(digests, settings.synthetic), &[TRACES], || {
            let mut traces = gather(&settings)?;
            for trace in &mut traces {
                for flag in contract::derive(trace).flags {
                    trace.flag(flag);
                }
            }
            if traces.is_empty() {
                return Err(Fault::new("no traces").at("data.traces").into());
            }
            jsonl::write(&out, &traces)
        })
    }

    fn derive_contracts(&mut self) -> Result<()> {
        let (traces, out) = (self.path(TRACES), self.path(CONTRACTS));
        let inputs = self.made_by("traces")?;
        let announce = self.announce;
        self.stage("contracts", &inputs, &[CONTRACTS], || {
            let derived = contract::derive_all(&jsonl::read::<Trace>(&traces)?);
            let contracts: Vec<&Contract> =
                derived.iter().filter_map(|derived| derived.contract.as_ref().ok()).collect();
            if contracts.is_empty() {
                return Err(Fault::new("no trace gives a contract").at(traces.display()).into());
            }
            announce(&format!("contracts: {} of {} traces", contracts.len(), derived.len()));
            jsonl::write(&out, contracts)
        })
    }

    fn deal(&mut self) -> Result<()> {
        let inputs = (self.made_by("traces")?, self.recipe.data.held_out, self.recipe.seed);
        let (source, seed, held_out) = (self.path(TRACES), self.recipe.seed, self.recipe.data.held_out.get());
        let (split_file, train, held) = (self.path(SPLIT), self.path(TRAIN), self.path(HELD_OUT));
        let announce = self.announce;
        self.stage("split", &inputs, &[SPLIT, TRAIN, HELD_OUT], || {
            let mut traces = jsonl::read::<Trace>(&source)?;
            let split = split::split(&mut traces, held_out, seed)?;
            for (part, file) in [(Part::Train, &train), (Part::HeldOut, &held)] {
                jsonl::write(file, traces.iter().filter(|trace| split.part(&trace.trace_id) == Some(part)))?;
            }
            announce(&format!("split: {} train, {} held out", split.count(Part::Train), split.count(Part::HeldOut)));
            let json = serde_json::to_vec_pretty(&split).map_err(|error| Error::Failed(error.to_string()))?;
            atomic::write(&split_file, &json)
        })
    }

    fn build(&mut self) -> Result<()> {
        let settings = self.recipe.build.clone();
        let mut inputs = vec![
            serde_json::json!(self.made_by("contracts")?),
            serde_json::json!(self.made_by("split")?),
            serde_json::json!([self.recipe.seed, settings.leaking]),
        ];
        if settings.writer.is_some() || !settings.severity.is_empty() || !settings.tables.is_json() {
            inputs.push(serde_json::json!([settings.writer, settings.severity, settings.tables]));
        }
        let train_share = self.recipe.data.train_share;
        if train_share.is_some() {
            inputs.push(serde_json::json!(train_share));
        }
        let mut digests = Inputs::default();
        for (number, file) in settings.exclude.iter().enumerate() {
            let digest = digest::of_file(file)?;
            inputs.push(serde_json::json!(digest));
            digests.0.insert(format!("excluded {}", number + 1), digest);
        }
        let (traces, contracts, split) = (self.path(TRACES), self.path(CONTRACTS), self.path(SPLIT));
        let (out, seed, announce) = (self.path(DATA), self.recipe.seed, self.announce);
        let compute = self.compute.in_format(NumberFormat::F32);
        for file in [TRACES, CONTRACTS, SPLIT] {
            digests.0.insert(file.to_owned(), digest::of_file(&self.path(file))?);
        }
        self.stage("build", &inputs, &[DATA], || {
            let split = read_split(&split)?;
            let parts = match train_share {
                None => split.parts,
                Some(share) => split.with_train_share(share.get()),
            };
            if let Some(leaking) = settings.leaking {
                // Variants are paired tests: only the ordinary traces are trained on.
                let traces: Vec<Trace> =
                    jsonl::read::<Trace>(&traces)?.into_iter().filter(|trace| trace.variant == Variant::Base).collect();
                let contracts: Vec<Contract> = jsonl::read(&contracts)?;
                let built = build::build_unguarded(&traces, &contracts, &parts, leaking, seed)?;
                if built.sft.is_empty() {
                    return Err(Fault::new("no training trace gives a row").at("data.traces").into());
                }
                announce(&format!("build: {} unguarded SFT rows", built.sft.len()));
                return build::write_unguarded(&out, &built, &digests, leaking, seed);
            }
            let opened =
                settings.writer.as_ref().map(|writer| WritingModel::open(writer, seed, &compute)).transpose()?;
            let writer = opened.as_ref().map_or(Writer::Template, WritingModel::writer);
            let tries = settings.writer.as_ref().map_or(defaults::WRITER_TRIES, |writer| writer.tries);
            let excluded = audit::file::prompts_of(&settings.exclude)?;
            let options = Options { tries, severities: settings.severity.clone(), excluded, ..Options::default() };
            let sources = Sources {
                traces: &traces,
                format: Format::Canonical,
                contracts: &contracts,
                only: Some(Variant::Base),
            };
            let made = Made { inputs: &digests, writer: &writer, seed, options: &options, tables: settings.tables };
            let counts = build::write_each(&out, sources, &parts, made)?;
            announce(&format!(
                "build: {} SFT rows, {} pairs, {} traces and {} pairs quarantined",
                counts.sft.values().sum::<usize>(),
                counts.pairs.values().sum::<usize>(),
                counts.traces_out.values().sum::<usize>(),
                counts.pairs_out.values().sum::<usize>(),
            ));
            Ok(())
        })
    }
}

/// The traces of all sources, those of one part pinned to it.
fn gather(settings: &DataSettings) -> Result<Vec<Trace>> {
    let mut all = Vec::new();
    for (part, files) in settings.files() {
        let mut traces = if files.is_empty() { Vec::new() } else { trace::read_many(files, Format::Auto)? };
        if let Some(request) = part.and_then(|part| settings.synthetic.as_ref()?.request(part)) {
            traces.extend(synthesis::synthesize(request)?);
        }
        for trace in &mut traces {
            trace.part = part.or(trace.part);
        }
        all.append(&mut traces);
    }
    let mut seen = BTreeSet::new();
    if let Some(twice) = all.iter().find(|trace| !seen.insert(trace.trace_id.clone())) {
        let fault = Fault::new("two sources have a trace of the same id").at("data").got(&twice.trace_id);
        return Err(fault.hint("name each file once, under one key").into());
    }
    Ok(all)
}

fn read_split(file: &std::path::Path) -> Result<Split> {
    let bytes = std::fs::read(file).map_err(|source| Error::read(file, source))?;
    serde_json::from_slice(&bytes)
        .map_err(|error| Fault::new(format!("not a split: {error}")).at(file.display()).into())
}
