//! Every system answers the held-out traces; one evaluation judges them all; the page shows it.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::Pipeline;
use super::answering::{Answering, Attempt};
use super::asking::{Asked, Asking};
use super::data::{CONTRACTS, HELD_OUT};
use super::model::Made;
use crate::completion::Completion;
use crate::contract::Contract;
use crate::endpoint::Client;
use crate::error::{Error, Fault, Result};
use crate::evaluate::{self, Summary};
use crate::prompt::Mitigation;
use crate::recipe::AgentSettings;
use crate::report;
use crate::run::{atomic, digest, jsonl};
use crate::trace::{Trace, Variant};

const EVALUATION: &str = "evaluation";
/// Raised where the same completions give other figures than before, so that evaluations of earlier programs are made anew.
const FIGURES: u32 = 2;
const REPORT: &str = "report.html";

/// What the systems are evaluated on.
struct HeldOut {
    /// Base traces and their social-context twins, each answered by every system.
    answered: Vec<Trace>,
    /// Negative controls: their prompts are those of the base traces, whose answers are judged against them.
    controls: Vec<Trace>,
}

/// A system under test.
struct System<'a> {
    name: String,
    answers: Answers<'a>,
    mitigation: Mitigation,
}

/// Who answers.
enum Answers<'a> {
    /// A model of this machine.
    Local(Made),
    /// A model behind an endpoint.
    Endpoint(&'a AgentSettings),
}

impl System<'_> {
    fn file(&self) -> String {
        format!("completions/{}.jsonl", self.name)
    }
}

impl<'recipe> Pipeline<'recipe> {
    fn systems(&self) -> Result<Vec<System<'recipe>>> {
        let local = |name: &str, model: Made, mitigation: Mitigation| System {
            name: mitigation.of_system(name),
            answers: Answers::Local(model),
            mitigation,
        };
        let plain = |name: &str, model: Made| local(name, model, Mitigation::None);
        let mut systems = vec![plain("base", self.base()?)];
        for &mitigation in &self.recipe.evaluate.mitigations {
            systems.push(local("base", self.base()?, mitigation));
        }
        if self.recipe.sft.is_some() {
            systems.push(plain("sft", self.trained("sft")?));
        }
        if self.recipe.dpo.is_some() {
            systems.push(plain("dpo", self.trained("dpo")?));
        }
        systems.extend(self.recipe.evaluate.agents.iter().map(|agent| System {
            name: agent.name.clone(),
            answers: Answers::Endpoint(agent),
            mitigation: agent.mitigation,
        }));
        Ok(systems)
    }

    /// The held-out traces that are evaluated, with their variants: those of the first `evaluate.limit` base traces.
    fn held_out(&self) -> Result<HeldOut> {
        let traces: Vec<Trace> = jsonl::read(&self.path(HELD_OUT))?;
        let bases = traces.iter().filter(|trace| trace.variant == Variant::Base);
        let bases = bases.take(self.recipe.evaluate.limit.unwrap_or(usize::MAX));
        let bases: BTreeSet<String> = bases.map(|trace| trace.trace_id.clone()).collect();
        if bases.is_empty() {
            return Err(Fault::new("no held-out trace to evaluate").at("data.held_out").into());
        }
        let chosen = traces.into_iter().filter(|trace| bases.contains(trace.base_id()));
        let (controls, answered) = chosen.partition(|trace| trace.variant == Variant::NegativeControl);
        Ok(HeldOut { answered, controls })
    }

    pub(super) fn completions(&mut self) -> Result<()> {
        let traces = self.held_out()?.answered;
        let split = self.made_by("split")?;
        for system in self.systems()? {
            let (stage, file) = (format!("generate/{}", system.name), system.file());
            let out = self.path(&file);
            let (recipe, announce, compute) = (self.recipe, self.announce, self.compute.clone());
            let force = self.stages.is_forced("generate");
            let group = self.group;
            let common = (system.mitigation.name(), &recipe.generate, &split, traces.len());
            let answering = Answering {
                name: &system.name,
                mitigation: system.mitigation,
                traces: &traces,
                recipe,
                out: &out,
                announce,
                compute: &compute,
            };
            match &system.answers {
                Answers::Local(model) => {
                    let inputs = self.computed((&model.digest, common.0, common.1, common.2, common.3));
                    let work = || answering.locally(&model.path, group);
                    self.stage_of_all(force, &stage, &inputs, &[file.as_str()], work)?;
                }
                Answers::Endpoint(agent) => {
                    let inputs = (agent, common, recipe.seed);
                    let mark = digest::of_value(&inputs)?;
                    let attempt = if force { Attempt::Anew } else { Attempt::Next };
                    // An endpoint's limits are those of one process.
                    let work =
                        || if group.is_first() { answering.over_endpoint(agent, &mark, attempt) } else { Ok(()) };
                    self.stage_of_all(force, &stage, &inputs, &[file.as_str()], work)?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn evaluation(&mut self) -> Result<()> {
        let files: Vec<PathBuf> = self.systems()?.iter().map(|system| self.path(&system.file())).collect();
        let digests = files.iter().map(|file| digest::of_file(file)).collect::<Result<Vec<_>>>()?;
        let models = (&self.recipe.evaluate.verifier, &self.recipe.evaluate.judge);
        let inputs =
            (digests, self.made_by("contracts")?, self.recipe.evaluate.resamples, self.recipe.seed, models, FIGURES);
        let HeldOut { answered, controls } = self.held_out()?;
        let traces: Vec<Trace> = answered.into_iter().chain(controls).collect();
        let (contracts, out) = (self.path(CONTRACTS), self.path(EVALUATION));
        let settings = evaluate::Settings { resamples: self.recipe.evaluate.resamples, seed: self.recipe.seed };
        let (recipe, seed) = (self.recipe, self.recipe.seed);
        let outputs = ["evaluation/summary.json", "evaluation/verdicts.jsonl"];
        self.stage("evaluate", &inputs, &outputs, || {
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
        if !self.group.is_first() {
            return Ok(());
        }
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
