//! Traces answered by a model behind an endpoint: the same two-stage protocol with the same prompts as for a local model, or
//! tool calling.
//!
//! In: a [`Chat`] and traces. Out: [`Completion`]s, as for a local model. A call that fails, a filtered or cut reply is recorded
//! as what it is.

use rand::RngExt as _;

use super::Ended;
use super::protocol::{blank, end, number, read_stage_1, tools_of_stage_2};
use crate::completion::Completion;
use crate::dataset::{Message, Role, Stage};
use crate::endpoint::{CallError, Chat, ChatMessage, ChatReply, ChatRequest, ReplyEnd, in_parallel};
use crate::error::{Error, Result};
use crate::prompt::{Mitigation, response_messages, selection_messages};
use crate::recipe::AgentProtocol;
use crate::recipe::settings::{GenerateSettings, SelectionSource};
use crate::run::seed::Seed;
use crate::trace::Trace;

/// One system under test behind an endpoint.
#[derive(Clone, Copy)]
pub struct EndpointAgent<'a> {
    /// The model.
    pub chat: &'a (dyn Chat + Sync),
    /// Traces under way together.
    pub workers: usize,
    /// How it comes to its answer.
    pub protocol: AgentProtocol,
    /// Limits and sampling.
    pub settings: &'a GenerateSettings,
    /// Prompt-only safeguard.
    pub mitigation: Mitigation,
    /// The system's name in completions.
    pub system: &'a str,
    /// Seed of all draws, for endpoints that take one.
    pub seed: Seed,
}

impl EndpointAgent<'_> {
    /// Answers every trace, `settings.samples` times, each time under the next seed; `completed` sees each as it is ready, in the
    /// order in which they end.
    ///
    /// # Errors
    /// What `completed` returns, an interruption, or [`Error::Failed`] once the endpoint fails whatever it is asked; the traces
    /// after that have no completion, so that a resumed run asks for them.
    pub fn answer_traces(
        &self,
        traces: &[Trace],
        mut completed: impl FnMut(&Completion) -> Result<()>,
    ) -> Result<Vec<Completion>> {
        let samples = 0..self.settings.samples.max(1) as u64;
        let asked: Vec<(&Trace, Seed)> = traces
            .iter()
            .flat_map(|trace| samples.clone().map(move |sample| (trace, Seed(self.seed.0.wrapping_add(sample)))))
            .collect();
        let mut done: Vec<Option<Completion>> = vec![None; asked.len()];
        let work = |(trace, seed): &(&Trace, Seed)| {
            let own = Self { seed: *seed, ..*self };
            match self.protocol {
                AgentProtocol::TwoStage => own.answer_in_two_stages(trace),
                AgentProtocol::ToolCalling => own.answer_by_calling_tools(trace),
            }
        };
        in_parallel(self.workers, &asked, work, |index, outcome| {
            let completion = outcome.map_err(|error| match error {
                CallError::Interrupted => Error::Interrupted,
                error => Error::Failed(format!(
                    "the endpoint fails: {error}; what was answered until then is kept, and --resume goes on from there"
                )),
            })?;
            completed(&completion)?;
            done[index] = Some(completion);
            Ok(())
        })?;
        Ok(done.into_iter().flatten().collect())
    }

    /// A completion that has not begun.
    pub(super) fn blank(&self, trace: &Trace) -> Completion {
        // Tools that the model calls are its own selection.
        let selection = match self.protocol {
            AgentProtocol::TwoStage => self.settings.selection,
            AgentProtocol::ToolCalling => SelectionSource::Protocol,
        };
        blank((self.system, self.mitigation, self.seed), selection, trace)
    }

    fn answer_in_two_stages(&self, trace: &Trace) -> Result<Completion, CallError> {
        let mut completion = self.blank(trace);
        let messages = selection_messages(trace, self.mitigation);
        let (text, ended) = match self.ask_stage(&messages, trace, Stage::Selection) {
            Ok(reply) => text_of(reply),
            Err(error) => return fail(completion, "stage 1", error),
        };
        match read_stage_1(&text, &ended, trace) {
            Ok(selection) => {
                completion.selected_tool_ids = selection.selected_tool_ids;
                completion.rationale = selection.rationale;
            }
            Err(fault) => {
                completion.selection_fault = Some(fault.clone());
                if completion.selection_source == SelectionSource::Protocol {
                    completion.error = Some(format!("stage 1: {fault}"));
                    return Ok(completion);
                }
            }
        }
        let messages = response_messages(trace, &tools_of_stage_2(&completion, trace), self.mitigation);
        match self.ask_stage(&messages, trace, Stage::Response) {
            Ok(reply) => {
                let (text, ended) = text_of(reply);
                end(&mut completion, text, &ended);
                Ok(completion)
            }
            Err(error) => fail(completion, "stage 2", error),
        }
    }

    fn ask_stage(&self, messages: &[Message], trace: &Trace, stage: Stage) -> Result<ChatReply, CallError> {
        let limit = match stage {
            Stage::Selection => self.settings.selection_tokens,
            Stage::Response => self.settings.response_tokens,
        };
        let name = format!("generate/{}/{}", trace.trace_id, number(stage));
        self.chat.chat(&self.request(messages.iter().map(turn).collect(), limit, &name))
    }

    /// A request with this agent's sampling; `name` is that of its draws.
    pub(super) fn request(&self, messages: Vec<ChatMessage>, token_limit: usize, name: &str) -> ChatRequest {
        let GenerateSettings { temperature, top_p, .. } = *self.settings;
        let seed = (temperature > 0.0).then(|| u64::from(self.seed.stream(name).random::<u32>()));
        ChatRequest { messages, token_limit, temperature, top_p, seed, tools: Vec::new(), schema: None }
    }
}

/// Records a failed call; one that ends the whole work goes on up.
pub(super) fn fail(mut completion: Completion, place: &str, error: CallError) -> Result<Completion, CallError> {
    if matches!(error, CallError::Interrupted | CallError::GivenUp { .. }) {
        return Err(error);
    }
    completion.error = Some(format!("{place}: {error}"));
    Ok(completion)
}

/// The reply's text and how it ended; without a text it failed.
pub(super) fn text_of(reply: ChatReply) -> (String, Ended) {
    let ended = match (reply.end, &reply.content) {
        (ReplyEnd::Length, Some(_)) => Ended::Length,
        (ReplyEnd::Stop, Some(_)) => Ended::Stop,
        (ReplyEnd::Filtered, _) => Ended::Failed("the endpoint filtered the reply".to_owned()),
        (ReplyEnd::ToolCalls, _) => Ended::Failed("the reply calls tools that were not offered".to_owned()),
        (ReplyEnd::Unknown, _) => Ended::Failed("the reply does not say how it ended".to_owned()),
        (_, None) => Ended::Failed("the reply has no text".to_owned()),
    };
    (reply.content.unwrap_or_default(), ended)
}

fn turn(message: &Message) -> ChatMessage {
    let role = match message.role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    };
    ChatMessage::new(role, message.content.as_str())
}
