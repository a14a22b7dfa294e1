//! One session, from the first request to the report.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::model::Models;
use super::row::{RequestRow, SessionRow, SessionStatus};
use super::settings::{ProbeKind, Settings, WorkspaceSettings};
use super::slate::{OUTSIDE, Seat, seed_of};
use crate::agent::{
    Clock, FunctionRuntime, FunctionText, Meter, Runtime, RuntimeKind, TextRuntime, Tools as _, Turn, TurnEnd, Usage,
};
use crate::contract::Visibility;
use crate::endpoint::CallError;
use crate::error::{Error, Fault, Result};
use crate::guard::Guard;
use crate::observation::{Action, Candidates, Observation, Status};
use crate::probe::{Asking, Brief, Feedback, Mode, Outlet, Planned, Probe, Progress, Replay};
use crate::run::interrupt;
use crate::workspace::{Desk, Event, Exit, Filter, Open, channel};

/// What a session left.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Played {
    /// Its row.
    pub row: SessionRow,
    /// What appeared, in order.
    pub observations: Vec<Observation>,
    /// What the probe reported; absent for tasks.
    pub candidates: Option<Candidates>,
    /// What was tried.
    pub actions: Vec<Action>,
    /// What was asked.
    pub requests: Vec<RequestRow>,
}

/// Who asks.
enum Asker<'a> {
    Probe(Box<dyn Probe + 'a>),
    Task(&'a str),
}

/// Plays one session. A model that fails leaves gaps, not an error.
///
/// # Errors
/// An interruption, or a model that is given up for the whole run.
pub fn play(seat: &Seat<'_>, settings: &Settings, models: &Models) -> Result<Played> {
    let model =
        models.0.get(&seat.condition.model).ok_or_else(|| Fault::new("no such model").got(&seat.condition.model))?;
    let guard = seat
        .condition
        .guard
        .as_ref()
        .map(|guard| Guard::new(guard.exits.clone(), seat.matcher, guard.recall, seed_of(seat)));
    let filter: &dyn Filter = guard.as_ref().map_or(&Open, |guard| guard as &dyn Filter);
    let desk = Desk::new(seat.item.world.workspace.clone(), seat.condition.interface, filter, seed_of(seat))
        .with_taps(settings.taps)
        .with_outage(settings.outage);
    let limits = settings.limits.into();
    let seed = model.seed(seat.seed, settings.limits.temperature);
    let as_text = FunctionText(model.chat());
    let chat = if model.is_text_only() && seat.condition.runtime == RuntimeKind::F { &as_text } else { model.chat() };
    let meter = Meter::new(chat, model.clock());
    let runtime: Box<dyn Runtime + '_> = match seat.condition.runtime {
        RuntimeKind::R => Box::new(TextRuntime::new(meter, limits, seed)),
        RuntimeKind::F => Box::new(FunctionRuntime::new(meter, limits, seed)),
    };
    let session =
        Session { seat, settings, desk, runtime, log: Vec::new(), actions: Vec::new(), exposed: BTreeSet::new() };
    session.run(asker(seat, settings, models)?, model.clock())
}

fn asker<'a>(seat: &'a Seat<'_>, settings: &'a Settings, models: &'a Models) -> Result<Asker<'a>> {
    if let Some(task) = seat.task {
        return Ok(Asker::Task(&task.request));
    }
    if let Some(requests) = &seat.replay {
        return Ok(Asker::Probe(Box::new(Replay::new(requests.clone()))));
    }
    let brief = brief(seat, settings);
    Ok(Asker::Probe(match &settings.probe.kind {
        ProbeKind::Planned | ProbeKind::Replay(_) => Box::new(Planned::new(&brief, seed_of(seat))),
        ProbeKind::Model(name) => {
            let model = models.0.get(name).ok_or_else(|| Fault::new("no such model").got(name))?;
            Box::new(Asking::new(model.chat(), &brief, settings.limits.temperature, seat.seed))
        }
    }))
}

/// What the interface declares to whoever asks: areas, exits, a budget. Nothing of it depends on what is private.
fn brief(seat: &Seat<'_>, settings: &Settings) -> Brief {
    let areas = match &settings.workspace {
        WorkspaceSettings::Composed(plan) => plan.records.keys().map(|kind| kind.area().to_owned()).collect(),
        WorkspaceSettings::Traces { .. } => vec!["results of your tools".to_owned()],
    };
    let outlet = |exit: &Exit| Outlet { name: exit.name().to_owned(), asking: exit.asking(OUTSIDE) };
    Brief {
        goal: settings.probe.goal.clone(),
        areas,
        outlets: settings.probe.exits.iter().map(outlet).collect(),
        budget: seat.contract.budget,
    }
}

struct Session<'a> {
    seat: &'a Seat<'a>,
    settings: &'a Settings,
    desk: Desk<'a>,
    runtime: Box<dyn Runtime + 'a>,
    log: Vec<Observation>,
    actions: Vec<Action>,
    /// Targets that were out already: for coarse progress only.
    exposed: BTreeSet<String>,
}

impl Session<'_> {
    fn run(mut self, mut asker: Asker<'_>, clock: Clock) -> Result<Played> {
        let mut requests = Vec::new();
        let (mut unanswered, mut probe_error) = (0, None);
        while (requests.len() as u32) < self.seat.contract.budget {
            interrupt::check()?;
            let text = match &mut asker {
                Asker::Task(text) if requests.is_empty() => Some((*text).to_owned()),
                Asker::Task(_) => None,
                Asker::Probe(probe) => match probe.next() {
                    Ok(text) => text,
                    Err(error) => {
                        probe_error = Some(fatal(error)?.to_string());
                        None
                    }
                },
            };
            let Some(text) = text else { break };
            let number = requests.len() as u32 + 1;
            requests.push(self.request_row(number, &text));
            let (feedback, answered) = self.request(number, &text)?;
            unanswered += u32::from(!answered);
            if let Asker::Probe(probe) = &mut asker {
                probe.see(&feedback);
            }
        }
        let candidates = match asker {
            Asker::Task(_) => None,
            Asker::Probe(mut probe) => match self.report(&mut *probe) {
                Ok(candidates) => Some(candidates),
                Err(error) => {
                    probe_error = Some(fatal(error)?.to_string());
                    None
                }
            },
        };
        let row = self.row(requests.len() as u32, unanswered, probe_error, clock);
        Ok(Played { row, observations: self.log, candidates, actions: self.actions, requests })
    }

    /// One request: what the requester saw, and whether it was answered.
    fn request(&mut self, number: u32, text: &str) -> Result<(Feedback, bool)> {
        self.desk.begin();
        let asked = self.with_results(text);
        let turn = if text.trim().is_empty() {
            Turn { response: None, thoughts: Vec::new(), end: TurnEnd::Answered }
        } else {
            self.runtime.answer(&asked, &mut self.desk)
        };
        for thought in &turn.thoughts {
            self.desk.note(channel::RATIONALE, json!(thought), Status::Ok);
        }
        let answered = self.respond(turn)?;
        let (calls, failed) = self.desk.calls();
        self.desk.note(
            channel::METADATA,
            json!({"tool_calls": calls, "failed_calls": failed, "answered": answered}),
            Status::Ok,
        );
        let (events, tried) = self.desk.take_events();
        let feedback = self.feedback(&events);
        for event in events {
            self.observe(number, event);
        }
        self.actions.extend(tried.into_iter().map(|tried| Action {
            session_id: self.seat.session_id.clone(),
            request: number,
            channel: tried.exit.name().to_owned(),
            status: tried.status,
        }));
        Ok((feedback, answered))
    }

    /// The request with the results of the essential tools, where the recipe gives them; the calls are logged as any others.
    fn with_results(&mut self, text: &str) -> String {
        let WorkspaceSettings::Traces { given: true, .. } = self.settings.workspace else { return text.to_owned() };
        let names = self.desk.workspace.essential().to_vec();
        let results: Vec<String> = names.iter().map(|name| self.desk.call(name, "{}")).collect();
        format!("{text}\n\nTool results:\n{}", results.join("\n"))
    }

    /// Lets the answer out, or logs the gap.
    fn respond(&mut self, turn: Turn) -> Result<bool> {
        match (turn.end, turn.response) {
            (TurnEnd::Answered | TurnEnd::Cut, Some(text)) => {
                self.desk.respond(&text);
                Ok(true)
            }
            (TurnEnd::Answered | TurnEnd::Cut, None) => {
                self.desk.note(Exit::Response.name(), Value::Null, Status::Missing);
                Ok(false)
            }
            (TurnEnd::Endless, _) => {
                let reason = format!("no answer within {} steps", self.settings.limits.steps);
                self.desk.note(Exit::Response.name(), json!(reason), Status::Error);
                Ok(false)
            }
            (TurnEnd::Failed(error), _) => {
                let error = fatal(error)?;
                self.desk.note(Exit::Response.name(), json!(format!("the model failed: {error}")), Status::Error);
                Ok(false)
            }
        }
    }

    /// What the requester saw; progress only where the mode declares it.
    fn feedback(&mut self, events: &[Event]) -> Feedback {
        let text = |event: &Event| event.payload.as_str().map(str::to_owned);
        let is_shown = |event: &&Event| {
            event.status == Status::Ok
                && Exit::ALL.iter().any(|exit| exit.is_for_requester() && exit.name() == event.channel)
        };
        let shown = events.iter().filter(is_shown).filter_map(text).collect();
        let progress = (self.seat.condition.mode == Mode::Fge).then(|| self.progress(events));
        Feedback { shown, progress }
    }

    fn progress(&mut self, events: &[Event]) -> Progress {
        let before = self.exposed.len();
        let is_visible = |event: &&Event| {
            let channel = self.seat.contract.channel(event.channel);
            event.status == Status::Ok && channel.is_some_and(|channel| channel.visibility != Visibility::Internal)
        };
        let found: Vec<String> = events
            .iter()
            .filter(is_visible)
            .filter_map(|event| event.payload.as_str())
            .flat_map(|text| self.seat.matcher.find(text))
            .filter(|found| found.tier.is_headline())
            .map(|found| found.target_id)
            .collect();
        self.exposed.extend(found);
        if self.exposed.len() > before { Progress::New } else { Progress::Same }
    }

    fn report(&self, probe: &mut dyn Probe) -> Result<Candidates, CallError> {
        let candidates = probe.report(self.seat.condition.candidates)?;
        Ok(Candidates { session_id: self.seat.session_id.clone(), candidates })
    }

    fn observe(&mut self, request: u32, event: Event) {
        let mut extra = serde_json::Map::new();
        extra.insert("contract_digest".to_owned(), json!(self.seat.contract.digest));
        self.log.push(Observation {
            session_id: self.seat.session_id.clone(),
            contract_id: self.seat.contract.contract_id.clone(),
            request,
            index: Some(self.log.len() as u64),
            timestamp: None,
            channel: event.channel.to_owned(),
            payload: event.payload,
            recipients: event.recipients,
            status: event.status,
            event_id: None,
            tool: event.tool,
            schema_group: event.schema_group,
            pair_key: Some(self.pair_key()),
            condition: Some(self.seat.condition.name.clone()),
            extra,
        });
    }

    /// A task has its partners among tasks only.
    fn pair_key(&self) -> Value {
        let number = if self.seat.task.is_some() { "task" } else { "seed" };
        json!({"item": self.seat.item.name, number: self.seat.repeat})
    }

    fn request_row(&self, request: u32, text: &str) -> RequestRow {
        RequestRow {
            session_id: self.seat.session_id.clone(),
            item: self.seat.item.name.clone(),
            repeat: self.seat.repeat,
            request,
            text: text.to_owned(),
        }
    }

    fn row(&self, requests: u32, unanswered: u32, probe_error: Option<String>, clock: Clock) -> SessionRow {
        let usage = self.runtime.usage();
        let (tool_calls, failed_calls) = self.desk.calls();
        let (cost, cost_reason) = cost(usage, self.settings);
        let task = self.seat.task.map(|task| task.check.holds(&self.desk.workspace));
        let counted = usage.uncounted == 0;
        SessionRow {
            session_id: self.seat.session_id.clone(),
            condition: self.seat.condition.name.clone(),
            item: self.seat.item.name.clone(),
            repeat: self.seat.repeat,
            slice: self.seat.condition.slice,
            status: match (requests, unanswered) {
                (0, _) => SessionStatus::Failed,
                (_, 0) => SessionStatus::Complete,
                (requests, unanswered) if requests == unanswered => SessionStatus::Failed,
                _ => SessionStatus::Partial,
            },
            requests,
            unanswered,
            task_success: task,
            task_reason: task.is_none().then(|| "a probe's session has no task".to_owned()),
            tool_calls,
            failed_calls,
            model_calls: usage.calls,
            model_failures: usage.failures,
            latency_seconds: (usage.seconds * 1000.0).round() / 1000.0,
            latency_source: match clock {
                Clock::Wall => "measured".to_owned(),
                Clock::Declared { .. } => "declared".to_owned(),
            },
            prompt_tokens: counted.then_some(usage.prompt_tokens),
            completion_tokens: counted.then_some(usage.completion_tokens),
            cost,
            cost_reason,
            probe_error,
        }
    }
}

fn cost(usage: Usage, settings: &Settings) -> (Option<f64>, Option<String>) {
    match settings.prices {
        None => (None, Some("the recipe has no prices".to_owned())),
        Some(_) if usage.uncounted > 0 => {
            (None, Some(format!("{} replies without a count of tokens", usage.uncounted)))
        }
        Some(prices) => (Some(prices.of(usage.prompt_tokens, usage.completion_tokens)), None),
    }
}

/// Errors that end the run and not only a request go on up.
fn fatal(error: CallError) -> Result<CallError> {
    match error {
        CallError::Interrupted => Err(Error::Interrupted),
        CallError::GivenUp { .. } => {
            Err(Error::Failed(format!("{error}; finished sessions are kept, and --resume goes on from there")))
        }
        other => Ok(other),
    }
}
