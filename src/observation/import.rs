//! Session logs of other programs, written as `observations.jsonl` and `contracts.jsonl`, with two sidecars:
//! `labels.jsonl` (the source's own verdicts) and `refused.jsonl` (sessions and values left out, with reasons).
//!
//! In: files. Out: a folder with these (a file without rows is not written), each whole or not at all, and counts. Rows are written as they are read, so
//! memory does not grow with the input.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::validate::check;
use super::{Action, Context, Exits, Observation, SessionLog, Status, agentdojo, agentleak, inspect, openai};
use crate::contract::Contract;
use crate::error::{Error, Fault, Result};
use crate::run::atomic::{Pending, commit_all};
use crate::run::shard::Dealer;
use crate::trace::{self, Format, Row, Rows};

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
    /// Calls that were exits, delivered or not.
    pub actions: usize,
    /// The source's own verdicts, kept for comparison.
    pub labels: usize,
    /// Sessions refused since nothing in them is private.
    pub refused_sessions: usize,
    /// Private values left out, by reason.
    pub omitted_values: BTreeMap<String, usize>,
    /// Files whose last row was cut and left out.
    pub cut_files: usize,
}

/// What is known beside the files.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// A contract written by hand, for sources that do not say what is private.
    pub contract: Option<Contract>,
    /// The contract that such observations name if none is given.
    pub contract_id: String,
    /// The model, where the source does not name it.
    pub model: Option<String>,
    /// Which calls are exits; none where the table is empty.
    pub exits: Exits,
}

/// One row of a source, read and joined to its exits.
#[derive(Debug, Serialize, Deserialize)]
pub struct Read {
    log: SessionLog,
    actions: Vec<Action>,
    /// File and row, for errors.
    place: String,
}

/// Reads `inputs`, each of the format given or told by its content, and fills the folder `out`.
///
/// # Errors
/// Unreadable or invalid inputs, a session or contract that appears twice, observations that a given contract cannot judge,
/// an unwritable output.
pub fn import(inputs: &[PathBuf], format: Format, options: &Options, out: &Path) -> Result<Imported> {
    let mut sink = Sink::create(out, options.given()?)?;
    let cut_files = read_each(inputs, format, options, &mut Dealer::new(None), &mut |read| sink.write(read))?;
    sink.commit(cut_files)
}

/// Reads one shard's rows of `inputs`; returns the number of files whose last row was cut.
///
/// # Errors
/// As [`import`], but for what only all rows together show.
pub fn read_each(
    inputs: &[PathBuf],
    format: Format,
    options: &Options,
    dealer: &mut Dealer,
    visit: &mut dyn FnMut(Read) -> Result<()>,
) -> Result<usize> {
    let given = options.given()?;
    let mut cut_files = 0;
    for path in inputs {
        let format = if format == Format::Auto { Format::of_file(path)? } else { format };
        let place = path.display().to_string();
        let file = path.file_stem().map_or_else(|| place.clone(), |name| name.to_string_lossy().into_owned());
        let contract_id = options.contract.as_ref().map_or(&options.contract_id, |contract| &contract.contract_id);
        let context = Context { contract_id, file: &file, model: options.model.as_deref() };
        if format == Format::Inspect && trace::is_archive(path)? {
            let archive = std::fs::File::open(path).map_err(|source| Error::read(path, source))?;
            let archive = std::io::BufReader::new(archive);
            inspect::each(archive, &context, &place, &mut |log| {
                if dealer.takes_next() { visit(Read::of(log, &place, options, given.as_ref())?) } else { Ok(()) }
            })?;
        } else {
            let mut rows = Rows::open(path)?;
            let mut take = |log, place: &str| visit(Read::of(log, place, options, given.as_ref())?);
            each_dealt(&mut rows, format, &context, dealer, &mut take)?;
            cut_files += usize::from(rows.cut().is_some());
        }
    }
    Ok(cut_files)
}

impl Options {
    /// The contract written by hand, frozen.
    ///
    /// # Errors
    /// A contract that does not validate.
    pub fn given(&self) -> Result<Option<Contract>> {
        self.contract.clone().map(Contract::freeze).transpose()
    }
}

impl Read {
    fn of(mut log: SessionLog, place: &str, options: &Options, given: Option<&Contract>) -> Result<Self> {
        let (observations, actions) = options.exits.join(std::mem::take(&mut log.observations));
        log.observations = observations;
        for observation in &log.observations {
            if let Some(contract) = given.filter(|given| given.contract_id == observation.contract_id) {
                check(contract, observation).map_err(|fault| fault.at(place))?;
            }
        }
        Ok(Self { log, actions, place: place.to_owned() })
    }
}

/// Hands the sessions of every row to `visit`, with the row's place; one row is held at a time.
///
/// # Errors
/// What is wrong with a row, or what `visit` returns.
pub fn each(
    rows: &mut Rows<'_>,
    format: Format,
    context: &Context<'_>,
    visit: &mut dyn FnMut(SessionLog, &str) -> Result<()>,
) -> Result<()> {
    each_dealt(rows, format, context, &mut Dealer::new(None), visit)
}

/// [`each`] of one shard's rows; those of others are passed over.
fn each_dealt(
    rows: &mut Rows<'_>,
    format: Format,
    context: &Context<'_>,
    dealer: &mut Dealer,
    visit: &mut dyn FnMut(SessionLog, &str) -> Result<()>,
) -> Result<()> {
    let file = rows.place().to_owned();
    let mut faults = Vec::new();
    while let Some(row) = rows.next_row()? {
        if !dealer.takes_next() {
            continue;
        }
        let place = format!("{file}:{} (row {})", row.line, row.index);
        match parse(&row, format, context) {
            Ok(log) if faults.is_empty() => visit(log, &place)?,
            Ok(_) => {}
            Err(fault) if faults.len() < 10 => {
                let place = fault.place.as_ref().map_or_else(|| place.clone(), |inner| format!("{place}, {inner}"));
                faults.push(fault.at(place));
            }
            Err(_) => break,
        }
    }
    if rows.count() == 0 && faults.is_empty() {
        return Err(Fault::new("no rows").at(file).expected("at least one session").into());
    }
    if faults.is_empty() { Ok(()) } else { Err(Error::Invalid(faults)) }
}

fn parse(row: &Row<'_>, format: Format, context: &Context<'_>) -> Result<SessionLog, Fault> {
    match format {
        Format::AgentLeak => agentleak::parse(row.text),
        Format::OpenAiChat => openai::parse(row, context),
        Format::Inspect => inspect::parse(row, context),
        Format::AgentDojo => agentdojo::parse(row, context),
        Format::Auto
        | Format::TopBenchV1
        | Format::TopBenchV2
        | Format::TopBenchV3
        | Format::Canonical
        | Format::TopBenchRun => Err(Fault::new(format!("`{}` holds no sessions", format.name()))
            .hint("import traces, run results and session logs each by a command of its own")),
    }
}

/// The folder's files, open, and what all rows together must keep to.
pub struct Sink {
    folder: PathBuf,
    /// The files of a source that does not have them stay unwritten.
    contracts: Option<Pending>,
    labels: Option<Pending>,
    refused: Option<Pending>,
    actions: Option<Pending>,
    observations: Pending,
    digests: BTreeMap<String, String>,
    sessions: BTreeMap<String, String>,
    counts: Imported,
}

impl Sink {
    /// Opens the files of a folder; `given` is a frozen contract written by hand.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn create(folder: &Path, given: Option<Contract>) -> Result<Self> {
        let mut sink = Self {
            folder: folder.to_path_buf(),
            contracts: None,
            labels: None,
            refused: None,
            actions: None,
            observations: Pending::create(&folder.join("observations.jsonl"))?,
            digests: BTreeMap::new(),
            sessions: BTreeMap::new(),
            counts: Imported::default(),
        };
        if let Some(contract) = given {
            sink.contract(&contract, "the contract given")?;
        }
        Ok(sink)
    }

    fn contract(&mut self, contract: &Contract, place: &str) -> Result<()> {
        match self.digests.insert(contract.contract_id.clone(), contract.digest.clone()) {
            None => {
                row(&mut self.contracts, &self.folder, "contracts.jsonl", contract)?;
                self.counts.contracts += 1;
                self.counts.targets += contract.targets.len();
                Ok(())
            }
            Some(digest) if digest == contract.digest => Ok(()),
            Some(_) => Err(Fault::new("`contract_id` appears twice with different content")
                .at(place)
                .got(&contract.contract_id)
                .into()),
        }
    }

    /// Takes the next row.
    ///
    /// # Errors
    /// A session or contract that appears twice, [`Error::Write`].
    pub fn write(&mut self, Read { log, actions, place }: Read) -> Result<()> {
        for action in &actions {
            row(&mut self.actions, &self.folder, "actions.jsonl", action)?;
            self.counts.actions += 1;
        }
        for contract in &log.contracts {
            self.contract(contract, &place)?;
        }
        self.new_sessions(&log, &place)?;
        for observation in &log.observations {
            self.observations.row(observation)?;
            self.counts.add(observation);
        }
        for label in &log.labels {
            row(&mut self.labels, &self.folder, "labels.jsonl", label)?;
            self.counts.labels += 1;
        }
        for refusal in &log.refusals {
            row(&mut self.refused, &self.folder, "refused.jsonl", refusal)?;
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
                return Err(Fault::new(format!("the session also stands in {other}"))
                    .at(place)
                    .got(id)
                    .hint("one session a row; of a log that repeats a growing conversation keep its last row")
                    .into());
            }
            self.counts.sessions += 1;
        }
        Ok(())
    }

    /// Commits the files; `cut_files` are those whose last row was cut.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn commit(self, cut_files: usize) -> Result<Imported> {
        let beside = [self.contracts, self.labels, self.refused, self.actions];
        commit_all(beside.into_iter().flatten().chain([self.observations]))?;
        Ok(Imported { cut_files, ..self.counts })
    }
}

/// Writes a row to a file that is opened by its first one.
fn row<T: Serialize>(file: &mut Option<Pending>, folder: &Path, name: &str, row: &T) -> Result<()> {
    let file = match file {
        Some(file) => file,
        None => file.insert(Pending::create(&folder.join(name))?),
    };
    file.row(row)
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
        if self.contracts == 0 {
            lines.push(
                "  no contracts: the source does not say what is private; write one by hand (--contract)".to_owned(),
            );
        }
        if self.cut_files > 0 {
            lines.push(format!("  files whose last row was cut: {}", self.cut_files));
        }
        if self.actions > 0 {
            lines.push(format!("  calls that were exits: {}", self.actions));
        }
        if self.labels > 0 {
            lines.push(format!("  the source's own labels: {}", self.labels));
        }
        lines.join("\n")
    }
}
