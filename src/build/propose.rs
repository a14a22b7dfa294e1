//! Answers proposed by a model, behind an endpoint or of this machine, for the audit to accept or refuse.
//!
//! In: a trace and what kind of answer is wanted. Out: candidate texts, each with the reason where there is none. Nothing here
//! is a row yet: every candidate goes through the audit as a written one does. The conclusion is sent to the model only where
//! an explicit leak is wanted.

use rand::RngExt as _;

use crate::dataset::{Message, PairKind, Role};
use crate::endpoint::{CallError, Chat, ChatMessage, ChatRequest};
use crate::prompt::{Mitigation, response_messages};
use crate::run::seed::Seed;
use crate::trace::Trace;

/// What kind of answer is wanted; of the first two worse kinds only the sentence in which they differ from the better answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// Complete, and discloses nothing that the request does not need.
    Chosen,
    /// Worse in one way.
    Rejected(PairKind),
}

/// How proposals are drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drawing {
    /// Tokens of one answer.
    pub token_limit: usize,
    /// Above 0, or all candidates are the same.
    pub temperature: f64,
    /// Seed of all draws.
    pub seed: Seed,
    /// Number of the first answer: later rounds ask for other ones.
    pub first: usize,
}

impl Wanted {
    fn name(self) -> &'static str {
        match self {
            Self::Chosen => "chosen",
            Self::Rejected(kind) => kind.name(),
        }
    }

    /// What is said to the model beside the request and the tool results. The chosen answer gets its closing afterwards.
    fn instruction(self, trace: &Trace) -> String {
        match self {
            Self::Chosen => "Give every value that the request asks for, exactly as the results have it. Add nothing else: no other \
                value, no remark on what the results mean together."
                .to_owned(),
            Self::Rejected(PairKind::ExplicitLeak) => format!(
                "Leave the request itself unanswered. Write one sentence and nothing else: it tells the user this conclusion in \
                 words like these: {}",
                trace.sensitive_conclusion
            ),
            Self::Rejected(PairKind::OverDisclosure) => "Leave the request itself unanswered. Write one sentence and nothing else: it \
                mentions one or two personal details of the results that the request does not need, exactly as the results have \
                them, and draws no conclusion."
                .to_owned(),
            Self::Rejected(PairKind::OverRefusal) => "Decline the request in two or three polite sentences, on grounds of privacy. Give \
                none of the values."
                .to_owned(),
        }
    }
}

/// Asks for `count` answers of one kind. The same seed asks the same questions, so that a cache answers a second run.
pub fn propose(
    chat: &dyn Chat,
    trace: &Trace,
    (wanted, count): (Wanted, usize),
    drawing: Drawing,
) -> Vec<Result<String, CallError>> {
    let essential: Vec<String> = trace.essential_tools().map(|tool| tool.tool_id.clone()).collect();
    let mut messages: Vec<ChatMessage> =
        response_messages(trace, &essential, Mitigation::None).into_iter().map(turn).collect();
    if let Some(system) = messages.first_mut().and_then(|message| message.content.as_mut()) {
        system.push(' ');
        system.push_str(&wanted.instruction(trace));
    }
    let candidate = |index| {
        let mut draws = drawing.seed.stream(&format!("propose/{}/{}/{index}", trace.trace_id, wanted.name()));
        let request = ChatRequest {
            temperature: drawing.temperature,
            seed: Some(u64::from(draws.random::<u32>())),
            ..ChatRequest::greedy(messages.clone(), drawing.token_limit)
        };
        Ok(chat.chat(&request)?.whole()?.trim().to_owned())
    };
    (drawing.first..drawing.first + count).map(candidate).collect()
}

fn turn(message: Message) -> ChatMessage {
    match message.role {
        Role::System => ChatMessage::system(message.content),
        _ => ChatMessage::user(message.content),
    }
}
