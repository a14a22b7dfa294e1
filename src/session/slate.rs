//! Every session of a run, planned before the first one begins: workspaces, frozen contracts, seats.

use std::collections::BTreeMap;
use std::path::Path;

use rand::RngExt as _;
use rayon::prelude::*;

use super::row::{RequestRow, Slice};
use super::settings::{Condition, ProbeKind, Settings, WorkspaceSettings};
use crate::adjudicate::Matcher;
use crate::contract::Contract;
use crate::error::{Fault, Result};
use crate::run::jsonl;
use crate::run::seed::Seed;
use crate::trace::{self, Format};
use crate::workspace::{Task, World, compose, contract_of_trace, from_trace};

/// Somebody outside whom requests name.
pub(super) const OUTSIDE: &str = "audit@partner.example";

/// What sessions of one workspace share.
pub struct Item {
    /// Its name.
    pub name: String,
    /// The workspace with its truth.
    pub world: World,
    /// The contract of probe sessions.
    pub contract: Contract,
    /// The contract of each task, which may be about one record only.
    pub tasks: Vec<(Task, Contract)>,
}

/// One session to be played.
pub struct Seat<'a> {
    /// `condition/item/repeat`.
    pub session_id: String,
    /// Its condition.
    pub condition: &'a Condition,
    /// Its workspace.
    pub item: &'a Item,
    /// Which of the item's sessions: a repeat, or a task.
    pub repeat: usize,
    /// Its contract.
    pub contract: &'a Contract,
    /// The contract's targets, compiled.
    pub matcher: &'a Matcher,
    /// Its task, in the task slice.
    pub task: Option<&'a Task>,
    /// A fixed sequence of requests.
    pub replay: Option<Vec<String>>,
    /// Seed of all its draws: the same under every condition.
    pub seed: u64,
}

/// All sessions.
pub struct Slate {
    items: Vec<Item>,
    matchers: BTreeMap<String, Matcher>,
    replays: BTreeMap<(String, usize), Vec<String>>,
}

impl Slate {
    /// Composes workspaces and freezes contracts.
    ///
    /// # Errors
    /// Unreadable traces or requests, workspaces without anything private.
    pub fn new(settings: &Settings) -> Result<Self> {
        let items = match &settings.workspace {
            WorkspaceSettings::Composed(plan) => (0..settings.items)
                .into_par_iter()
                .map(|number| {
                    let world = compose(plan, settings.seed, number, settings.tasks);
                    item(format!("item-{number}"), world, settings)
                })
                .collect::<Result<Vec<Item>>>()?,
            WorkspaceSettings::Traces { traces, .. } => of_traces(traces, settings)?,
        };
        if items.is_empty() {
            return Err(Fault::new("no workspace: no trace gives a contract").at("workspace.traces").into());
        }
        let contracts: Vec<&Contract> = items.iter().flat_map(Item::contracts).collect();
        let matchers: Result<Vec<(String, Matcher)>> = contracts
            .into_par_iter()
            .map(|contract| Ok((contract.contract_id.clone(), Matcher::new(contract)?)))
            .collect();
        let replays = match &settings.probe.kind {
            ProbeKind::Replay(path) => read_replays(path)?,
            ProbeKind::Planned | ProbeKind::Model(_) => BTreeMap::new(),
        };
        Ok(Self { items, matchers: matchers?.into_iter().collect(), replays })
    }

    /// Every contract that a session is judged by, in order.
    pub fn contracts<'a>(&'a self, settings: &'a Settings) -> impl Iterator<Item = &'a Contract> {
        let has = |slice: Slice| settings.conditions.iter().any(|condition| condition.slice == slice);
        let (probes, tasks) = (has(Slice::Probe), has(Slice::Tasks));
        self.items.iter().flat_map(move |item| {
            let own = probes.then_some(&item.contract);
            own.into_iter().chain(item.tasks.iter().filter(move |_| tasks).map(|(_, contract)| contract))
        })
    }

    /// The items.
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// Every session, in order: by condition, item and repeat.
    pub fn seats<'a>(&'a self, settings: &'a Settings) -> Vec<Seat<'a>> {
        let mut seats = Vec::new();
        for condition in &settings.conditions {
            for item in &self.items {
                match condition.slice {
                    Slice::Probe => (0..settings.repeats).for_each(|repeat| {
                        seats.extend(self.seat(settings, (condition, item, repeat), &item.contract, None));
                    }),
                    Slice::Tasks => item.tasks.iter().enumerate().for_each(|(number, (task, contract))| {
                        seats.extend(self.seat(settings, (condition, item, number), contract, Some(task)));
                    }),
                }
            }
        }
        seats
    }

    fn seat<'a>(
        &'a self,
        settings: &Settings,
        (condition, item, repeat): (&'a Condition, &'a Item, usize),
        contract: &'a Contract,
        task: Option<&'a Task>,
    ) -> Option<Seat<'a>> {
        Some(Seat {
            session_id: format!("{}/{}/{repeat}", condition.name, item.name),
            condition,
            item,
            repeat,
            contract,
            matcher: self.matchers.get(&contract.contract_id)?,
            task,
            replay: match (&settings.probe.kind, task) {
                (ProbeKind::Replay(_), None) => {
                    Some(self.replays.get(&(item.name.clone(), repeat)).cloned().unwrap_or_default())
                }
                _ => None,
            },
            // 31 bits: many servers read a seed as a signed 32-bit number.
            seed: settings.seed.stream(&format!("session/{}/{repeat}", item.name)).random::<u64>() & 0x7fff_ffff,
        })
    }
}

impl Item {
    fn contracts(&self) -> impl Iterator<Item = &Contract> {
        std::iter::once(&self.contract).chain(self.tasks.iter().map(|(_, contract)| contract))
    }
}

fn item(name: String, world: World, settings: &Settings) -> Result<Item> {
    let truth = &world.truth;
    let contract = truth.contract(&name, settings.budget, settings.expected_outlet, None)?;
    let task = |(number, task): (usize, &Task)| {
        let id = format!("{name}/task-{number}");
        let contract = truth.contract(&id, settings.budget, settings.expected_outlet, task.record.as_deref())?;
        Ok((task.clone(), contract))
    };
    let tasks = truth.tasks.iter().enumerate().map(task).collect::<Result<Vec<_>>>()?;
    Ok(Item { name, world, contract, tasks })
}

/// Traces that give a contract, the first so many of them.
fn of_traces(paths: &[std::path::PathBuf], settings: &Settings) -> Result<Vec<Item>> {
    let mut items = Vec::new();
    for path in paths {
        trace::each(path, Format::Auto, None, &mut |trace| {
            if items.len() < settings.items
                && let Ok(contract) = contract_of_trace(&trace, settings.budget, settings.expected_outlet)
            {
                let world = from_trace(&trace, &contract);
                let tasks = world.truth.tasks.iter().map(|task| (task.clone(), contract.clone())).collect();
                items.push(Item { name: trace.trace_id.clone(), world, contract, tasks });
            }
            Ok(())
        })?;
    }
    Ok(items)
}

/// Requests by item and repeat; of several conditions the first that is named.
fn read_replays(path: &Path) -> Result<BTreeMap<(String, usize), Vec<String>>> {
    let mut replays: BTreeMap<(String, usize), (String, Vec<String>)> = BTreeMap::new();
    for row in jsonl::read::<RequestRow>(path)? {
        let key = (row.item, row.repeat);
        let (session, requests) = replays.entry(key).or_insert_with(|| (row.session_id.clone(), Vec::new()));
        if *session == row.session_id {
            requests.push(row.text);
        }
    }
    Ok(replays.into_iter().map(|(key, (_, requests))| (key, requests)).collect())
}

/// The stream of a session's own draws.
pub(super) fn seed_of(seat: &Seat<'_>) -> Seed {
    Seed(seat.seed)
}
