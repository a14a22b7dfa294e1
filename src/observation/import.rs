//! Session logs of other programs, written as `observations.jsonl` and `contracts.jsonl`, with two sidecars:
//! `labels.jsonl` (the source's own verdicts) and `refused.jsonl` (sessions and values left out, with reasons).
//!
//! In: files. Out: a folder with these four, written whole or not at all, and counts. Rows are written as they are read, so
//! memory does not grow with the input.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{Observation, SessionLog, Status, agentleak};
use crate::error::{Error, Fault, Result};
use crate::run::atomic::Pending;
use crate::trace::Format;

/// Counts of one import.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Imported {
    /// Sessions with at least one observation.
    pub sessions: usize,
    /// Frozen contracts.
    pub contracts: usize,
    /// Targets over all contracts.
    pub targets: usize,
    /// Observations written.
    pub observations: usize,
    /// Observations by channel and status.
    pub by_channel: BTreeMap<String, BTreeMap<Status, usize>>,
    /// Observations by condition and status, where sessions have one.
    pub by_condition: BTreeMap<String, BTreeMap<Status, usize>>,
    /// Observations whose call failed or that were not recorded, by model.
    pub gaps_by_model: BTreeMap<String, usize>,
    /// The source's own verdicts, kept for comparison.
    pub labels: usize,
    /// Sessions refused since nothing in them is private.
    pub refused_sessions: usize,
    /// Private values left out, by reason.
    pub omitted_values: BTreeMap<String, usize>,
}

/// Reads `inputs` (files of one format) and fills the folder `out`.
///
/// # Errors
/// Unreadable or invalid inputs, a session or contract that appears twice, an unwritable output.
pub fn import(inputs: &[PathBuf], format: Format, out: &Path) -> Result<Imported> {
    let mut sink = Sink::create(out)?;
    for path in inputs {
        let text = std::fs::read_to_string(path).map_err(|source| Error::read(path, source))?;
        let log = match format {
            Format::AgentLeak => agentleak::parse(&text),
            _ => Err(Fault::new("not a session log")),
        };
        let place = path.display().to_string();
        sink.write(&log.map_err(|fault| fault.at(&place))?, &place)?;
    }
    sink.commit()
}

struct Sink {
    contracts: Pending,
    observations: Pending,
    labels: Pending,
    refused: Pending,
    digests: BTreeMap<String, String>,
    sessions: BTreeMap<String, String>,
    counts: Imported,
}

impl Sink {
    fn create(folder: &Path) -> Result<Self> {
        let open = |name: &str| Pending::create(&folder.join(name));
        Ok(Self {
            contracts: open("contracts.jsonl")?,
            observations: open("observations.jsonl")?,
            labels: open("labels.jsonl")?,
            refused: open("refused.jsonl")?,
            digests: BTreeMap::new(),
            sessions: BTreeMap::new(),
            counts: Imported::default(),
        })
    }

    fn write(&mut self, log: &SessionLog, place: &str) -> Result<()> {
        for contract in &log.contracts {
            match self.digests.insert(contract.contract_id.clone(), contract.digest.clone()) {
                None => {
                    self.contracts.row(contract)?;
                    self.counts.contracts += 1;
                    self.counts.targets += contract.targets.len();
                }
                Some(digest) if digest == contract.digest => {}
                Some(_) => {
                    return Err(Fault::new("`contract_id` appears twice with different content")
                        .at(place)
                        .got(&contract.contract_id)
                        .into());
                }
            }
        }
        self.new_sessions(log, place)?;
        for observation in &log.observations {
            self.observations.row(observation)?;
            self.counts.add(observation);
        }
        for label in &log.labels {
            self.labels.row(label)?;
            self.counts.labels += 1;
        }
        for refusal in &log.refusals {
            self.refused.row(refusal)?;
            if refusal.session_id.is_some() {
                self.counts.refused_sessions += 1;
            } else {
                *self.counts.omitted_values.entry(refusal.reason.clone()).or_default() += 1;
            }
        }
        Ok(())
    }

    fn new_sessions(&mut self, log: &SessionLog, place: &str) -> Result<()> {
        let mut ids: Vec<&str> = log.observations.iter().map(|observation| observation.session_id.as_str()).collect();
        ids.sort_unstable();
        ids.dedup();
        for id in ids {
            if let Some(other) = self.sessions.insert(id.to_owned(), place.to_owned()) {
                return Err(Fault::new(format!("the session also stands in {other}")).at(place).got(id).into());
            }
            self.counts.sessions += 1;
        }
        Ok(())
    }

    fn commit(self) -> Result<Imported> {
        self.contracts.commit()?;
        self.labels.commit()?;
        self.refused.commit()?;
        self.observations.commit()?;
        Ok(self.counts)
    }
}

impl Imported {
    fn add(&mut self, observation: &Observation) {
        let status = observation.status;
        self.observations += 1;
        *self.by_channel.entry(observation.channel.clone()).or_default().entry(status).or_default() += 1;
        if let Some(condition) = &observation.condition {
            *self.by_condition.entry(condition.clone()).or_default().entry(status).or_default() += 1;
        }
        if status != Status::Ok {
            let model = observation.extra.get("model").and_then(serde_json::Value::as_str).unwrap_or("unknown");
            *self.gaps_by_model.entry(model.to_owned()).or_default() += 1;
        }
    }

    /// The counts for people.
    pub fn text(&self) -> String {
        let mut lines = vec![format!(
            "{} sessions, {} contracts with {} targets, {} observations",
            self.sessions, self.contracts, self.targets, self.observations
        )];
        for (title, table) in [("channel", &self.by_channel), ("condition", &self.by_condition)] {
            for (name, statuses) in table {
                let counts: Vec<String> =
                    statuses.iter().map(|(status, count)| format!("{} {count}", status.name())).collect();
                lines.push(format!("  {title} {name}: {}", counts.join(", ")));
            }
        }
        for (model, count) in &self.gaps_by_model {
            lines.push(format!("  errored or missing, {model}: {count}"));
        }
        for (reason, count) in &self.omitted_values {
            lines.push(format!("  values left out, {reason}: {count}"));
        }
        if self.refused_sessions > 0 {
            lines.push(format!("  sessions refused since nothing in them is private: {}", self.refused_sessions));
        }
        if self.labels > 0 {
            lines.push(format!("  the source's own labels: {}", self.labels));
        }
        lines.join("\n")
    }
}
