//! Every system answers the held-out traces; one evaluation judges them all; the page shows it.

use std::path::PathBuf;

use candle_core::Device;

use super::Pipeline;
use super::asking::{Asked, Asking};
use super::data::{CONTRACTS, HELD_OUT};
use super::model::Made;
use crate::completion::Completion;
use crate::contract::Contract;
use crate::device::Compute;
use crate::endpoint::Client;
use crate::error::{Error, Fault, Result};
use crate::evaluate::{self, Summary};
use crate::generate::{Existing, Output, Protocol};
use crate::model::{Decoder, LocalModel, Trainable};
use crate::prompt::Mitigation;
use crate::report;
use crate::run::{atomic, interrupt, jsonl};
use crate::token::ChatTokenizer;
use crate::trace::{Trace, Variant};

const EVALUATION: &str = "evaluation";
const REPORT: &str = "report.html";

/// A system under test.
struct System {
    name: String,
    model: Made,
    mitigation: Mitigation,
}

impl System {
    fn file(&self) -> String {
        format!("completions/{}.jsonl", self.name)
    }
}

impl Pipeline<'_> {
    fn systems(&self) -> Result<Vec<System>> {
        let plain = |name: &str, model: Made| System { name: name.to_owned(), model, mitigation: Mitigation::None };
        let mut systems = vec![plain("base", self.base()?)];
        for &mitigation in &self.recipe.evaluate.mitigations {
            systems.push(System { name: format!("base+{}", mitigation.name()), model: self.base()?, mitigation });
        }
        if self.recipe.sft.is_some() {
            systems.push(plain("sft", self.trained("sft")?));
        }
        if self.recipe.dpo.is_some() {
            systems.push(plain("dpo", self.trained("dpo")?));
        }
        Ok(systems)
    }

    /// The held-out traces that are answered.
    fn held_out(&self) -> Result<Vec<Trace>> {
        let mut traces: Vec<Trace> = jsonl::read(&self.path(HELD_OUT))?;
        traces.retain(|trace| trace.variant == Variant::Base);
        traces.truncate(self.recipe.evaluate.limit.unwrap_or(usize::MAX));
        if traces.is_empty() {
            return Err(Fault::new("no held-out trace to evaluate").at("data.held_out").into());
        }
        Ok(traces)
    }

    pub(super) fn completions(&mut self) -> Result<()> {
        let traces = self.held_out()?;
        for system in self.systems()? {
            let generate = &self.recipe.generate;
            let inputs =
                (&system.model.digest, system.mitigation.name(), generate, self.made_by("split")?, traces.len());
            let (stage, file) = (format!("generate/{}", system.name), system.file());
            let out = self.path(&file);
            let inputs = self.computed(inputs);
            let (recipe, announce, compute) = (self.recipe, self.announce, self.compute.clone());
            let force = self.stages.is_forced("generate");
            self.stages.run_forced(force, &stage, &inputs, &[file.as_str()], || {
                answer(&system, &traces, (recipe, &compute), &out, announce)
            })?;
        }
        Ok(())
    }

    pub(super) fn evaluation(&mut self) -> Result<()> {
        let files: Vec<PathBuf> = self.systems()?.iter().map(|system| self.path(&system.file())).collect();
        let digests = files.iter().map(|file| crate::run::digest::of_file(file)).collect::<Result<Vec<_>>>()?;
        let models = (&self.recipe.evaluate.verifier, &self.recipe.evaluate.judge);
        let inputs = (digests, self.made_by("contracts")?, self.recipe.evaluate.resamples, self.recipe.seed, models);
        let (contracts, out, traces) = (self.path(CONTRACTS), self.path(EVALUATION), self.held_out()?);
        let settings = evaluate::Settings { resamples: self.recipe.evaluate.resamples, seed: self.recipe.seed };
        let (recipe, seed) = (self.recipe, self.recipe.seed);
        let outputs = ["evaluation/summary.json", "evaluation/verdicts.jsonl"];
        self.stages.run("evaluate", &inputs, &outputs, || {
            let mut completions: Vec<Completion> = Vec::new();
            for file in &files {
                completions.extend(jsonl::read::<Completion>(file)?);
            }
            let contracts: Vec<Contract> = jsonl::read(&contracts)?;
            let verifier = recipe.evaluate.verifier.as_ref();
            let verifier = verifier
                .map(|settings| {
                    Ok::<_, Error>((Client::new(settings.endpoint.clone(), seed)?, settings.semantic_use()))
                })
                .transpose()?;
            let judge = recipe.evaluate.judge.clone().map(|settings| Client::new(settings, seed)).transpose()?;
            let ask = Asking {
                verifier: verifier.as_ref().map(|(client, semantic)| (Asked::from(client), *semantic)),
                judge: judge.as_ref().map(Asked::from),
                parts: None,
            };
            ask.evaluate((&completions, &traces, &contracts), &settings, |_, _| {})?.write(&out)
        })?;
        // The page is cheap and shows wall times: it is always made anew.
        let page = report::collect(&self.folder)?;
        atomic::write(&self.path(REPORT), report::render(&page).as_bytes())
    }

    pub(super) fn summary(&self) -> Result<Summary> {
        let file = self.path(EVALUATION).join("summary.json");
        let bytes = std::fs::read(&file).map_err(|source| Error::read(&file, source))?;
        serde_json::from_slice(&bytes)
            .map_err(|error| Fault::new(format!("not a summary: {error}")).at(file.display()).into())
    }
}

fn answer(
    system: &System,
    traces: &[Trace],
    (recipe, compute): (&crate::recipe::Recipe, &Compute),
    out: &std::path::Path,
    announce: fn(&str),
) -> Result<()> {
    let identity = (system.name.as_str(), system.mitigation, recipe.seed);
    let mut output = Output::open(out, Existing::Replace, traces, identity)?;
    let local = LocalModel { path: system.model.path.clone() };
    let tokenizer = ChatTokenizer::load(&local.path)?;
    let (config, weights) = local.read(&Device::Cpu)?;
    let decoder = Decoder::new(config, weights, &Trainable::Nothing, recipe.seed, compute)?;
    let protocol = Protocol {
        model: &decoder,
        tokenizer: &tokenizer,
        settings: &recipe.generate,
        mitigation: system.mitigation,
        system: &system.name,
        seed: recipe.seed,
    };
    let total = traces.len();
    let mut done = 0;
    protocol.answer_traces(traces, |completion| {
        interrupt::check()?;
        done += 1;
        if done % 16 == 0 || done == total {
            announce(&format!("  {}: {done} of {total} traces answered", system.name));
        }
        output.add(completion)
    })?;
    output.write()
}
