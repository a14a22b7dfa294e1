//! One system answers the held-out traces: a model of this machine, or one behind an endpoint.
//!
//! In: traces, a recipe and a system. Out: its file of completions, and beside it what asking an endpoint took.

use std::path::Path;

use candle_core::Device;

use crate::completion::Completion;
use crate::device::Compute;
use crate::endpoint::{Chat as _, Client};
use crate::error::Result;
use crate::generate::{EndpointAgent, Existing, Identity, Output, Protocol, append_calls};
use crate::model::{Decoder, LocalModel, Trainable};
use crate::prompt::Mitigation;
use crate::rank::Group;
use crate::recipe::{AgentSettings, Recipe};
use crate::run::{atomic, interrupt};
use crate::token::ChatTokenizer;
use crate::trace::Trace;

/// What is the same however a system answers.
pub(super) struct Answering<'a> {
    pub name: &'a str,
    pub mitigation: Mitigation,
    pub traces: &'a [Trace],
    pub recipe: &'a Recipe,
    pub out: &'a Path,
    pub announce: fn(&str),
    pub compute: &'a Compute,
}

/// What an earlier attempt's answers are to this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attempt {
    /// Those that are whole are kept, and the others are asked for.
    Next,
    /// Nothing: all are asked for again.
    Anew,
}

impl Answering<'_> {
    fn identity(&self) -> Identity<'_> {
        let Recipe { seed, generate, .. } = self.recipe;
        Identity { system: self.name, mitigation: self.mitigation, seed: *seed, samples: generate.samples }
    }

    /// Hears of each completion; says now and then how many there are.
    fn counted<'s>(
        &'s self,
        total: usize,
        mut keep: impl FnMut(&Completion) -> Result<()> + 's,
    ) -> impl FnMut(&Completion) -> Result<()> + 's {
        let mut done = 0;
        move |completion| {
            interrupt::check()?;
            done += 1;
            if done % 16 == 0 || done == total {
                (self.announce)(&format!("  {}: {done} of {total} answers", self.name));
            }
            keep(completion)
        }
    }

    /// A model of this machine answers; all ranks together, and the first one writes.
    pub fn locally(&self, model: &Path, group: &dyn Group) -> Result<()> {
        let recipe = self.recipe;
        let open = || Output::open(self.out, Existing::Replace, self.traces, self.identity());
        let mut output = if group.is_first() { Some(open()?) } else { None };
        let local = LocalModel { path: model.to_path_buf() };
        let tokenizer = ChatTokenizer::load(&local.path)?;
        let (config, weights) = local.read(&Device::Cpu)?;
        let decoder = Decoder::new(config, weights, &Trainable::Nothing, recipe.seed, self.compute)?;
        let protocol = Protocol {
            model: &decoder,
            tokenizer: &tokenizer,
            settings: &recipe.generate,
            mitigation: self.mitigation,
            system: self.name,
            seed: recipe.seed,
        };
        let total = self.traces.len() * recipe.generate.samples;
        let keep = |completion: &Completion| output.as_mut().map_or(Ok(()), |output| output.add(completion));
        protocol.answer_dealt(group, self.traces, self.counted(total, keep))?;
        output.map_or(Ok(()), |mut output| output.write())
    }

    /// A model behind an endpoint answers. `mark` tells what it is asked: an attempt that ended early goes on where the file
    /// that it left is of the same mark, unless it is redone.
    pub fn over_endpoint(&self, agent: &AgentSettings, mark: &str, attempt: Attempt) -> Result<()> {
        let recipe = self.recipe;
        let marked = self.out.with_extension("inputs.sha256");
        let is_same = std::fs::read_to_string(&marked).is_ok_and(|found| found == mark);
        let existing = if is_same && attempt == Attempt::Next { Existing::Resume } else { Existing::Replace };
        let mut output = Output::open(self.out, existing, self.traces, self.identity())?;
        output.forget_failed_calls();
        atomic::write(&marked, mark.as_bytes())?;
        let client = Client::new(agent.endpoint.clone(), recipe.seed)?;
        let asked = EndpointAgent {
            chat: &client,
            workers: client.settings().concurrency,
            protocol: agent.protocol,
            settings: &recipe.generate,
            mitigation: self.mitigation,
            system: self.name,
            seed: recipe.seed,
        };
        let missing = output.missing(self.traces);
        let total = missing.len() * recipe.generate.samples;
        let outcome = asked.answer_traces(&missing, self.counted(total, |completion| output.add(completion)));
        output.write()?;
        let counts = client.counts();
        append_calls(self.out, existing, &counts)?;
        (self.announce)(&format!("  {}: {counts}", self.name));
        outcome.map(drop)
    }
}
