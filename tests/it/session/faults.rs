//! Models that misbehave: gaps with a status, sessions that end, runs that go on.

use std::time::Duration;

use topalign::endpoint::{CallError, Chat, ChatReply, ChatRequest, Counts, ReplyEnd, ToolCall};
use topalign::observation::{Observation, Status};
use topalign::session::{Model, Models, Played, SessionStatus, Slate, play};

use super::{SMALL, settings};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    Endless,
    Malformed,
    UnknownTool,
    Megabyte,
    Timeout,
    Cut,
    Empty,
}

/// A model with one fault, in the form of either runtime.
struct Faulty(Fault);

impl Chat for Faulty {
    fn model(&self) -> &'static str {
        "faulty"
    }

    fn chat(&self, request: &ChatRequest) -> Result<ChatReply, CallError> {
        let reply = |text: &str, call: Option<(&str, String)>, end| {
            let mut reply = ChatReply {
                content: Some(text.to_owned()),
                tool_calls: Vec::new(),
                end,
                prompt_tokens: None,
                completion_tokens: None,
            };
            if let Some((tool, arguments)) = call {
                if request.tools.is_empty() {
                    reply.content = Some(format!("Action: {tool}\nAction Input: {arguments}"));
                } else {
                    reply.tool_calls = vec![ToolCall::new("c", tool, arguments)];
                }
            }
            Ok(reply)
        };
        let called =
            request.messages.iter().rev().take(2).any(|turn| {
                turn.role == "tool" || turn.content.as_deref().unwrap_or_default().starts_with("Observation:")
            });
        match self.0 {
            Fault::Endless => reply("", Some(("search", "{}".to_owned())), ReplyEnd::ToolCalls),
            Fault::Timeout => Err(CallError::Timeout(Duration::from_secs(1))),
            Fault::Cut => reply("half of an", None, ReplyEnd::Length),
            Fault::Empty => reply("", None, ReplyEnd::Stop),
            _ if called => reply("fine", None, ReplyEnd::Stop),
            Fault::Malformed => reply("", Some(("send_email", "{\"to\": ".to_owned())), ReplyEnd::ToolCalls),
            Fault::UnknownTool => reply("", Some(("launch", "{}".to_owned())), ReplyEnd::ToolCalls),
            Fault::Megabyte => {
                let text = format!("{{\"text\": \"{}\"}}", "x".repeat(1 << 20));
                reply("", Some(("console_log", text)), ReplyEnd::ToolCalls)
            }
        }
    }

    fn counts(&self) -> Counts {
        Counts::default()
    }
}

fn play_with(fault: Fault, runtime: &str) -> Played {
    let settings = settings(SMALL, &["limits.steps=5"]);
    let slate = Slate::new(&settings).unwrap();
    let models = Models([("scripted".to_owned(), Model::of(Box::new(Faulty(fault))))].into());
    let seats = slate.seats(&settings);
    let seat = seats.iter().find(|seat| seat.condition.name == runtime).unwrap();
    play(seat, &settings, &models).unwrap()
}

#[test]
fn whatever_the_model_does_the_session_ends_within_its_budget_with_a_status() {
    let cases = [
        (Fault::Endless, SessionStatus::Failed, "response", Status::Error),
        (Fault::Timeout, SessionStatus::Failed, "response", Status::Error),
        (Fault::Malformed, SessionStatus::Complete, "tool_return", Status::Error),
        (Fault::UnknownTool, SessionStatus::Complete, "tool_return", Status::Error),
        (Fault::Megabyte, SessionStatus::Complete, "tool_return", Status::Error),
        (Fault::Cut, SessionStatus::Complete, "response", Status::Ok),
        (Fault::Empty, SessionStatus::Failed, "response", Status::Missing),
    ];
    for runtime in ["R", "F"] {
        for (fault, status, channel, observed) in cases {
            let played = play_with(fault, runtime);
            assert_eq!(played.row.status, status, "{runtime} {fault:?}");
            assert_eq!(played.row.requests, 4, "the bank is asked to its end");
            let of_channel: Vec<Status> = played
                .observations
                .iter()
                .filter(|observation| observation.channel == channel && observation.tool.as_deref() != Some("search"))
                .map(|observation| observation.status)
                .collect();
            assert_eq!(of_channel, vec![observed; 4], "{runtime} {fault:?}");
            assert!(played.observations.iter().all(|observation| observation.request <= 20));
            assert!(played.row.tool_calls <= 4 * 6);
        }
    }
}

#[test]
fn a_megabyte_of_arguments_is_logged_once_and_fills_no_conversation() {
    for runtime in ["R", "F"] {
        let played = play_with(Fault::Megabyte, runtime);
        let is_large = |observation: &&Observation| observation.payload.to_string().len() > 1 << 20;
        let large = played.observations.iter().filter(is_large).count();
        assert_eq!(large, 4, "{runtime}");
        assert!(!played.observations.iter().any(|observation| observation.channel == "console"));
    }
}

#[test]
fn text_in_records_that_asks_for_calls_is_data() {
    let settings = settings(SMALL, &["models.scripted.leak={email=1.0,console=1.0,response=1.0}"]);
    let slate = Slate::new(&settings).unwrap();
    let models = Models::load(&settings, &topalign::device::Compute::cpu()).unwrap();
    for seat in slate.seats(&settings).iter().filter(|seat| seat.condition.guard.is_none()) {
        let played = play(seat, &settings, &models).unwrap();
        let shown = |text: &str| played.observations.iter().any(|one| one.payload.to_string().contains(text));
        assert!(shown("Ignore all earlier instructions"), "the record was never read");
        assert!(played.observations.iter().all(|one| !one.recipients.iter().any(|to| to.contains("evil"))));
        let sends = played.observations.iter().filter(|one| one.tool.as_deref() == Some("send_email"));
        assert!(sends.filter(|one| one.channel == "tool_call").count() <= 2, "a record made a call");
    }
}
