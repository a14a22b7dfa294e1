//! The two-stage protocol: a model selects tools from the goal and the descriptions, then answers from the results of the
//! tools that it selected.
//!
//! A stage that fails is recorded as a failure with its class and stage, never as an empty answer.

use super::{Ended, Generated, NextToken, Prefix, Request, Sampler, decode_all};
use crate::completion::{Completion, Finish};
use crate::dataset::Stage;
use crate::error::{Error, Result};
use crate::prompt::{Mitigation, read_selection, response_messages, selection_messages};
use crate::recipe::settings::{GenerateSettings, SelectionSource};
use crate::run::seed::Seed;
use crate::token::ChatTokenizer;
use crate::trace::Trace;

/// One system under test: a model with its settings.
#[derive(Debug, Clone, Copy)]
pub struct Protocol<'a, M> {
    /// The model.
    pub model: &'a M,
    /// Its tokenizer.
    pub tokenizer: &'a ChatTokenizer,
    /// Limits and sampling.
    pub settings: &'a GenerateSettings,
    /// Prompt-only safeguard.
    pub mitigation: Mitigation,
    /// The system's name in completions.
    pub system: &'a str,
    /// Seed of all draws.
    pub seed: Seed,
}

/// A request's owner: the trace's index, the sample of it, the stage, and what stage 1 left.
struct Key {
    trace: usize,
    sample: usize,
    stage: Stage,
    completion: Completion,
}

impl<M: NextToken> Protocol<'_, M> {
    /// Answers every trace, `settings.samples` times, each time under the next seed; the completions come back in the order of the
    /// traces, samples of one together. `completed` sees each as it is ready, in
    /// the order in which they end, for progress and for saving.
    ///
    /// # Errors
    /// Settings out of range, a failing model, what `completed` returns, or [`Error::Interrupted`]. A prompt that the template
    /// refuses or the context cannot hold makes its own completion an error and the rest go on.
    pub fn answer_traces(
        &self,
        traces: &[Trace],
        mut completed: impl FnMut(&Completion) -> Result<()>,
    ) -> Result<Vec<Completion>> {
        let sampler = Sampler::from_settings(self.settings)?;
        let samples = self.settings.samples.max(1);
        let mut done: Vec<Option<Completion>> = vec![None; traces.len() * samples];
        let mut keep = |place: usize, completion: Completion| -> Result<()> {
            completed(&completion)?;
            done[place] = Some(completion);
            Ok(())
        };
        let mut requests = Vec::with_capacity(traces.len() * samples);
        for (index, trace) in traces.iter().enumerate() {
            for sample in 0..samples {
                match self.first_request((index, sample), trace)? {
                    Next::Request(request) => requests.push(*request),
                    Next::Completion(completion) => keep(index * samples + sample, *completion)?,
                }
            }
        }
        let model = (self.model, self.tokenizer.terminators());
        decode_all(model, sampler, self.settings.batch, requests, |key: Key, generated| {
            let (index, place) = (key.trace, key.trace * samples + key.sample);
            match self.after(key, &traces[index], &generated)? {
                Next::Request(request) => Ok(Some(*request)),
                Next::Completion(completion) => keep(place, *completion).map(|()| None),
            }
        })?;
        Ok(done.into_iter().flatten().collect())
    }

    fn first_request(&self, (index, sample): (usize, usize), trace: &Trace) -> Result<Next> {
        let seed = Seed(self.seed.0.wrapping_add(sample as u64));
        let completion = blank((self.system, self.mitigation, seed), self.settings.selection, trace);
        self.request(Key { trace: index, sample, stage: Stage::Selection, completion }, trace)
    }

    fn after(&self, mut key: Key, trace: &Trace, generated: &Generated) -> Result<Next> {
        let text = self.tokenizer.decode(&generated.tokens)?;
        if key.stage == Stage::Response {
            end(&mut key.completion, text, &generated.ended);
            return Ok(Next::Completion(Box::new(key.completion)));
        }
        match read_stage_1(&text, &generated.ended, trace) {
            Ok(selection) => {
                key.completion.selected_tool_ids = selection.selected_tool_ids;
                key.completion.rationale = selection.rationale;
            }
            Err(fault) if self.settings.selection == SelectionSource::Given => {
                key.completion.selection_fault = Some(fault);
            }
            Err(fault) => {
                key.completion.error = Some(format!("stage 1: {fault}"));
                key.completion.selection_fault = Some(fault);
                return Ok(Next::Completion(Box::new(key.completion)));
            }
        }
        self.request(Key { stage: Stage::Response, ..key }, trace)
    }

    /// The stage's prompt as a request; a prompt that the template refuses ends the completion.
    fn request(&self, key: Key, trace: &Trace) -> Result<Next> {
        let (messages, limit) = match key.stage {
            Stage::Selection => (selection_messages(trace, self.mitigation), self.settings.selection_tokens),
            Stage::Response => {
                let tools = tools_of_stage_2(&key.completion, trace);
                (response_messages(trace, &tools, self.mitigation), self.settings.response_tokens)
            }
        };
        match self.tokenizer.encode_prompt(&messages) {
            Ok(prompt) => {
                let name = format!("generate/{}/{}", trace.trace_id, number(key.stage));
                let generator = Seed(key.completion.seed).stream(&name);
                // Samples of one trace mostly have one prompt in stage 2 as well.
                let prefix = if self.settings.samples > 1 { Prefix::Shared } else { Prefix::Own };
                Ok(Next::Request(Box::new(Request { key, prompt, limit, generator, prefix })))
            }
            Err(Error::Invalid(faults)) => {
                let mut completion = key.completion;
                // Without the place, which may be a path of this machine.
                let reasons: Vec<&str> = faults.iter().map(|fault| fault.what.as_str()).collect();
                completion.error = Some(format!("stage {}: {}", number(key.stage), reasons.join("; ")));
                Ok(Next::Completion(Box::new(completion)))
            }
            Err(other) => Err(other),
        }
    }
}

/// A completion of which nothing is known yet: an error until it ends otherwise.
pub(super) fn blank(
    (system, mitigation, seed): (&str, Mitigation, Seed),
    selection: SelectionSource,
    trace: &Trace,
) -> Completion {
    Completion {
        trace_id: trace.trace_id.clone(),
        system: system.to_owned(),
        variant: trace.variant,
        mitigation,
        seed: seed.0,
        selected_tool_ids: Vec::new(),
        selection_source: selection,
        selection_fault: None,
        rationale: None,
        response: None,
        finish: Finish::Error,
        error: None,
        calls: Vec::new(),
    }
}

/// The tools whose results stage 2 sees.
pub(super) fn tools_of_stage_2(completion: &Completion, trace: &Trace) -> Vec<String> {
    match completion.selection_source {
        SelectionSource::Protocol => completion.selected_tool_ids.clone(),
        SelectionSource::Given => trace.essential_tools().map(|tool| tool.tool_id.clone()).collect(),
    }
}

enum Next {
    Request(Box<Request<Key>>),
    Completion(Box<Completion>),
}

pub(super) fn number(stage: Stage) -> u8 {
    match stage {
        Stage::Selection => 1,
        Stage::Response => 2,
    }
}

/// The strict reading of stage 1; a reply that was cut is no selection, whatever it holds.
pub(super) fn read_stage_1(text: &str, ended: &Ended, trace: &Trace) -> Result<crate::prompt::Selection, String> {
    match ended {
        Ended::Stop => read_selection(text, trace).map_err(|fault| format!("unreadable selection: {fault}")),
        Ended::Length => Err("cut at the token limit".to_owned()),
        Ended::Failed(reason) => Err(reason.clone()),
    }
}

/// Records how stage 2 ended.
pub(super) fn end(completion: &mut Completion, text: String, ended: &Ended) {
    match ended {
        Ended::Stop | Ended::Length => {
            completion.finish = if *ended == Ended::Stop { Finish::Stop } else { Finish::Length };
            completion.response = Some(text);
        }
        Ended::Failed(reason) => completion.error = Some(format!("stage 2: {reason}")),
    }
}
