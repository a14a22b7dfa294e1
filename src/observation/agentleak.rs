//! `AgentLeak` traces: each file is two sessions on one vault, a single agent and a coordinator with a worker.
//!
//! In: a file's JSON. Out: a [`SessionLog`]: one frozen contract (the vault's values outside the allowed fields are its
//! targets), the observations of both sessions, the release's own labels. Channel C1 reaches the user; C2 (between
//! agents), C5 (shared memory) and any other that does not end at the user are internal. A call that failed is an
//! observation of status `error`, never a safe one. Call times have no zone in the release, so they are kept as
//! `recorded_at` and the order is given by `index`.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{Observation, Payload, Refusal, ReleaseLabel, SessionLog, Status, vault};
use crate::contract::{Channel, Contract, Visibility};
use crate::error::Fault;
use crate::run::json::describe;

/// The channel that reaches the user.
const OUTLET: &str = "C1";
/// Who gets it.
const USER: &str = "user";

#[derive(Deserialize)]
struct File {
    trace_id: String,
    scenario_id: String,
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    vertical: Option<String>,
    #[serde(default)]
    attack_family: Option<String>,
    input: Input,
    #[serde(default)]
    llm_calls: Vec<Call>,
    channel_messages: Vec<Message>,
}

#[derive(Deserialize)]
struct Input {
    vault: Box<RawValue>,
    allowed_set: AllowedSet,
}

#[derive(Deserialize)]
struct AllowedSet {
    #[serde(default)]
    fields: BTreeSet<String>,
}

#[derive(Deserialize)]
struct Call {
    #[serde(rename = "call_id")]
    id: String,
    #[serde(default)]
    timestamp: Option<String>,
    #[serde(default)]
    error: Value,
}

#[derive(Deserialize)]
struct Message {
    channel: String,
    #[serde(default)]
    source: String,
    #[serde(default)]
    target: String,
    #[serde(default)]
    content: Payload,
    #[serde(default)]
    has_leak: Option<bool>,
    #[serde(default)]
    leaked_fields: Vec<String>,
    #[serde(default)]
    llm_call_id: Option<String>,
}

/// Reads one file.
///
/// # Errors
/// A [`Fault`] that says what the file lacks; a vault without targets is no fault but a refusal in the log.
pub fn parse(text: &str) -> Result<SessionLog, Fault> {
    let file: File = serde_json::from_str(text).map_err(|error| {
        Fault::new(format!("the row does not have the form of an AgentLeak trace: {}", describe(&error)))
    })?;
    let contract_id = format!("agentleak/{}", file.trace_id);
    let private =
        vault::targets(file.input.vault.get(), &file.input.allowed_set.fields, &file.scenario_id, &contract_id);
    let mut log = SessionLog { refusals: private.omitted, ..SessionLog::default() };
    if private.targets.is_empty() {
        let sessions = file.channel_messages.iter().map(|message| file.session_id(message)).collect::<BTreeSet<_>>();
        log.refusals.extend(sessions.into_iter().map(|session_id| Refusal {
            contract_id: contract_id.clone(),
            session_id: Some(session_id),
            field: None,
            reason: "no targets: the exposure of an empty set is undefined".to_owned(),
        }));
        return Ok(log);
    }
    let contract = Contract {
        contract_id: contract_id.clone(),
        trace_id: None,
        budget: 20,
        expected_outlet: Some(OUTLET.to_owned()),
        channels: channels(&file.channel_messages),
        targets: private.targets,
        authorized: Vec::new(),
        required: Vec::new(),
        // American vaults and models: 06/17/1937 is a day in June.
        locale: Some("en_US".to_owned()),
        digest: String::new(),
    };
    let frozen = contract.freeze().map_err(|error| Fault::new(error.to_string()))?;
    log.contracts.push(frozen);
    file.observe(&contract_id, &mut log);
    Ok(log)
}

/// C1, C2 and C5 always, so that all contracts declare alike; others as the file shows them.
fn channels(messages: &[Message]) -> Vec<Channel> {
    let mut visible: BTreeMap<&str, bool> = BTreeMap::from([(OUTLET, true), ("C2", false), ("C5", false)]);
    for message in messages {
        let reaches_user = visible.entry(message.channel.as_str()).or_insert(false);
        *reaches_user |= message.target == USER;
    }
    let channel = |(name, reaches_user): (&str, bool)| Channel {
        name: name.to_owned(),
        visibility: if reaches_user { Visibility::External } else { Visibility::Internal },
        recipient: reaches_user.then(|| USER.to_owned()),
    };
    visible.into_iter().map(channel).collect()
}

impl File {
    fn condition(message: &Message) -> &'static str {
        if message.source.starts_with("single") { "single" } else { "coordinated" }
    }

    fn session_id(&self, message: &Message) -> String {
        format!("agentleak/{}/{}", self.trace_id, Self::condition(message))
    }

    fn observe(&self, contract_id: &str, log: &mut SessionLog) {
        let calls: BTreeMap<&str, &Call> = self.llm_calls.iter().map(|call| (call.id.as_str(), call)).collect();
        let mut next: BTreeMap<String, u64> = BTreeMap::new();
        for message in &self.channel_messages {
            let session_id = self.session_id(message);
            let index = next.entry(session_id.clone()).or_default();
            let call = message.llm_call_id.as_deref().and_then(|id| calls.get(id).copied());
            if let Some(has_leak) = message.has_leak {
                log.labels.push(ReleaseLabel {
                    session_id: session_id.clone(),
                    index: *index,
                    channel: message.channel.clone(),
                    has_leak,
                    leaked_fields: message.leaked_fields.clone(),
                });
            }
            log.observations.push(self.observation(message, call, (contract_id, session_id, *index)));
            *index += 1;
        }
        self.missing_answers(contract_id, log);
    }

    fn observation(&self, message: &Message, call: Option<&Call>, place: (&str, String, u64)) -> Observation {
        let (contract_id, session_id, index) = place;
        let mut extra = serde_json::Map::new();
        let mut note = |key: &str, value: Option<&str>| {
            if let Some(value) = value {
                extra.insert(key.to_owned(), value.into());
            }
        };
        note("model", self.model.as_deref());
        note("vertical", self.vertical.as_deref());
        note("attack_family", self.attack_family.as_deref());
        note("sender", Some(&message.source));
        note("recorded_at", call.and_then(|call| call.timestamp.as_deref()));
        Observation {
            session_id,
            contract_id: contract_id.to_owned(),
            // The user asks once; everything answers that request.
            request: 1,
            index: Some(index),
            timestamp: None,
            channel: message.channel.clone(),
            payload: message.content.clone(),
            recipients: Vec::new(),
            status: status(&message.content, call),
            event_id: message.llm_call_id.clone(),
            tool: None,
            schema_group: None,
            pair_key: Some(serde_json::json!({"item": self.scenario_id, "model": self.model})),
            condition: Some(Self::condition(message).to_owned()),
            extra,
        }
    }

    /// A session that never answered the user has a gap, not a safe answer.
    fn missing_answers(&self, contract_id: &str, log: &mut SessionLog) {
        let answered: BTreeSet<&str> = log
            .observations
            .iter()
            .filter(|observation| observation.channel == OUTLET)
            .map(|observation| observation.session_id.as_str())
            .collect();
        let mut gaps = Vec::new();
        for source in ["single_agent", "coordinator"] {
            let message = Message {
                channel: OUTLET.to_owned(),
                source: source.to_owned(),
                target: USER.to_owned(),
                content: Payload::Absent,
                has_leak: None,
                leaked_fields: Vec::new(),
                llm_call_id: None,
            };
            let session_id = self.session_id(&message);
            if !answered.contains(session_id.as_str()) {
                let index = log.observations.iter().filter(|other| other.session_id == session_id).count() as u64;
                gaps.push(self.observation(&message, None, (contract_id, session_id, index)));
            }
        }
        log.observations.extend(gaps);
    }
}

/// `error` where the call failed or the text is an error marker, also one copied to memory; `missing` where nothing was kept.
fn status(content: &Payload, call: Option<&Call>) -> Status {
    let has_failed = call.is_some_and(|call| match &call.error {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        _ => true,
    });
    let text = content.as_str().map(str::trim_start);
    let text = text.map(|text| text.strip_prefix("Cache:").unwrap_or(text).trim_start());
    let is_marker = text.is_some_and(|text| text.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("[error")));
    if has_failed || is_marker {
        Status::Error
    } else if content.is_absent() || text.is_some_and(str::is_empty) {
        Status::Missing
    } else {
        Status::Ok
    }
}
